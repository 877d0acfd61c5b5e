"""Vocabularies of the tests: a small one of bare tokens, and the repository's embedded model."""

import os
import sys
from pathlib import Path

import pytest

import ffwd

if os.environ.get("FFWD_HIDE_NUMPY"):
    sys.modules["numpy"] = None  # importing it fails as if it were not installed

ROOT = Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "crates/runtime/assets/extract-5m" / "tokenizer.json"

LETTERS = b'abc0123456789{}[]":,. -truefalsn'
SMALL = [bytes([byte]) for byte in dict.fromkeys(LETTERS)]
SMALL += [b"ab", b"bc", b"abc", b'{"', b'":', b'"a"', b"12", b"true", b"null", b'"}', b"],", b"", b"ab"]


def legal_bits(row):
    """Ids whose bit is set in a row of words."""
    return {32 * i + bit for i, word in enumerate(row) for bit in range(32) if int(word) >> bit & 1}


def row_of(bitmask, index=0):
    """A row of a bitmask as a list, whatever kind of array it is."""
    return bitmask.tolist()[index]


@pytest.fixture(scope="session", autouse=True)
def elsewhere(tmp_path_factory):
    """Leave the folder of the sources: child processes of the tests import the installed package."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    yield
    os.chdir(before)


@pytest.fixture(scope="session")
def small():
    """Bare tokens, the end token last, logits wider than the vocabulary."""
    return ffwd.Vocabulary.from_tokens(
        [*SMALL, b"<end>"], eos=len(SMALL), logits_size=len(SMALL) + 10
    )


@pytest.fixture(scope="session")
def real():
    """The tokenizer of the embedded model."""
    return ffwd.Vocabulary.from_file(TOKENIZER)


@pytest.fixture(scope="session")
def small_compiler(small):
    return ffwd.Compiler(small)


@pytest.fixture(scope="session")
def real_compiler(real):
    return ffwd.Compiler(real)

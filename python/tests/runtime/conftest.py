"""The embedded models, texts with schemas, and the program as the oracle."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import ffwd

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "examples" / "data"
INVOICE = (DATA / "invoice.txt").read_text()
INVOICE_SCHEMA = json.loads((DATA / "invoice.schema.json").read_text())
LETTERS = [path.read_text() for path in sorted((DATA / "mailroom").glob("*.txt"))]


def program():
    """The program `ffwd`, or a skip."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    path = target / "release" / "ffwd"
    if not path.exists():
        pytest.skip(f"no program at {path}; build it with `cargo build --release --features full`")
    return path


def run_program(*arguments, stdin=None):
    """What the program prints."""
    command = [program(), *map(str, arguments)]
    run = subprocess.run(command, input=stdin, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def cases(step=9):
    """Texts with their schemas, from the evaluation of extraction."""
    path = ROOT / "tests" / "data" / "eval" / "synthetic_heldout.jsonl"
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines[::step]]


@pytest.fixture(scope="session")
def engine():
    pytest.importorskip("ffwd_runtime", reason="the package ffwd-llm-runtime is not installed")
    return ffwd.Engine.embedded()

"""What the tests of the vLLM backend share. Importing it skips them unless they are asked for."""

import importlib.util
import json
import os
import random
from pathlib import Path
from types import SimpleNamespace

import pytest

if os.environ.get("FFWD_TEST_VLLM") != "1":
    pytest.skip("set FFWD_TEST_VLLM=1 to test inside vLLM", allow_module_level=True)
_spec = importlib.util.find_spec("vllm")
if _spec is None or _spec.origin is None:
    pytest.skip("vLLM is not installed", allow_module_level=True)
MODEL = os.environ.get("FFWD_TEST_VLLM_MODEL", "")
if not (Path(MODEL) / "tokenizer.json").is_file():
    pytest.skip(
        "set FFWD_TEST_VLLM_MODEL to the folder of a small model with a tokenizer.json",
        allow_module_level=True,
    )

for _name, _value in {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}.items():
    os.environ.setdefault(_name, _value)

import ffwd  # noqa: E402
import ffwd.vllm  # noqa: E402

assert ffwd.vllm.register(), "this vLLM is not one that the package knows"

from vllm.config.structured_outputs import StructuredOutputsConfig  # noqa: E402
from vllm.tokenizers import get_tokenizer  # noqa: E402
from vllm.v1.structured_output.backend_types import StructuredOutputOptions as Kind  # noqa: E402

from ffwd.vllm.backend import Backend  # noqa: E402

INVOICE = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "pattern": "^INV-[0-9]{5}$"},
        "vendor": {"type": "string", "maxLength": 30},
        "total": {"type": "number"},
        "currency": {"enum": ["EUR", "USD"]},
    },
    "required": ["number", "vendor", "total", "currency"],
    "additionalProperties": False,
}
TAG = {
    "structures": [
        {
            "begin": "<function=weather>",
            "schema": {"type": "object", "properties": {"city": {"type": "string"}}},
            "end": "</function>",
        }
    ],
    "triggers": ["<function="],
}
FORMAT = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<tool>",
        "content": {"type": "json_schema", "json_schema": {"enum": ["a", "b"]}},
        "end": "</tool>",
    },
}
WORDS = ["yes", "no", "yes, but"]
GBNF = 'root ::= ("a" | "b")+ "!"'
LARK = 'start: WORD (" " WORD)*\nWORD: /[a-z]{1,4}/'

# Kind, the text that vLLM passes, and the same constraint of the package.
CONSTRAINTS = [
    (Kind.JSON, json.dumps(INVOICE), lambda: ffwd.Constraint.json_schema(INVOICE)),
    (Kind.JSON_OBJECT, "", lambda: ffwd.Constraint.json_object()),
    (Kind.REGEX, r"INV-\d{5}", lambda: ffwd.Constraint.regex(r"INV-\d{5}")),
    (Kind.CHOICE, json.dumps(WORDS), lambda: ffwd.Constraint.choice(WORDS)),
    (Kind.GRAMMAR, GBNF, lambda: ffwd.Constraint.gbnf(GBNF)),
    (Kind.GRAMMAR, LARK, lambda: ffwd.Constraint.lark(LARK)),
    (
        Kind.STRUCTURAL_TAG,
        json.dumps(TAG),
        lambda: ffwd.Constraint.structural_tag({"type": "structural_tag", **TAG}),
    ),
    (Kind.STRUCTURAL_TAG, json.dumps(FORMAT), lambda: ffwd.Constraint.structural_tag(FORMAT)),
]
NAMES = ["json", "json_object", "regex", "choice", "gbnf", "lark", "tag_old", "tag_new"]


class ModelConfig:
    """The part of vLLM's configuration of a model that the backend reads."""

    is_diffusion = False

    def __init__(self, size):
        self.size = size

    def get_vocab_size(self):
        return self.size

    def try_get_generation_config(self):
        return {}


@pytest.fixture(scope="session")
def tokenizer():
    return get_tokenizer(MODEL)


@pytest.fixture(scope="session")
def reference():
    """The vocabulary as read from the file, for logits a little wider than the tokenizer."""
    known = ffwd.Vocabulary.from_file(Path(MODEL) / "tokenizer.json")
    return ffwd.Vocabulary.from_file(
        Path(MODEL) / "tokenizer.json", logits_size=len(known) + 40, eos=known.eos
    )


@pytest.fixture(scope="session")
def backend(tokenizer, reference):
    return make_backend(tokenizer, reference.logits_size)


def make_backend(tokenizer, size, **options):
    config = SimpleNamespace(
        model_config=ModelConfig(size),
        structured_outputs_config=StructuredOutputsConfig(backend="ffwd", **options),
    )
    return Backend(vllm_config=config, tokenizer=tokenizer, vocab_size=size)


def legal_tokens(matcher, bitmask):
    """Ids that a matcher permits, by way of a NumPy row of its own."""
    import numpy as np

    matcher.fill_next_token_bitmask(bitmask)
    return np.flatnonzero(np.unpackbits(bitmask[0].view("uint8"), bitorder="little"))


def random_token(rng: random.Random, legal, vocabulary):
    """A legal token; often a short or an end token, so that outputs come to an end."""
    import numpy as np

    ends = legal[np.isin(legal, vocabulary.eos)]
    if len(ends) and rng.random() < 0.2:
        return int(ends[0])
    few = [int(legal[rng.randrange(len(legal))]) for _ in range(4)]
    return min(few, key=lambda token: len(vocabulary.token_bytes(token)) or 99)

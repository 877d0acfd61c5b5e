"""A plugin of pytest: vLLM's own tests of its backends, with this backend in their place.

    FFWD_TEST_VLLM=1 FFWD_TEST_VLLM_MODEL=FOLDER FFWD_VLLM_WHITESPACE=8 VLLM_TESTS=vllm-0.32.0 \\
        PYTHONPATH=tests/vllm pytest -p upstream --noconftest --rootdir $VLLM_TESTS \\
        $VLLM_TESTS/tests/v1/structured_output

`VLLM_TESTS` is the unpacked source package of vLLM. The tests run where they are. Names of backends
and of models are replaced, classes of other backends are this one's, and checks that vLLM makes in
another backend's function are made in its front end.
"""

import functools
import json
import os
import sys
from types import SimpleNamespace

import pytest

sys.path.insert(0, os.environ["VLLM_TESTS"])

from vllm_helpers import MODEL, Backend, ModelConfig, StructuredOutputsConfig, get_tokenizer  # noqa: E402

from vllm.config.model import ModelConfig as RealModelConfig  # noqa: E402
from vllm.sampling_params import SamplingParams  # noqa: E402
from vllm.v1.structured_output import StructuredOutputManager  # noqa: E402

NAMES = {"auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer"}
TOKENIZER = get_tokenizer(MODEL)
WIDTH = len(TOKENIZER)


def config(backend="ffwd", **options):
    return StructuredOutputsConfig(backend="ffwd", **options)


def validate(params):
    SamplingParams._validate_structured_outputs(params, ModelConfig(WIDTH), config(), TOKENIZER)


def real_arguments(original):
    """Stubs of models and tokenizers become real ones."""

    @functools.wraps(original)
    def checked(self, model_config, structured_outputs_config, tokenizer):
        if structured_outputs_config is not None and type(tokenizer) is object:
            tokenizer = TOKENIZER
        if not hasattr(model_config, "get_vocab_size"):
            full = ModelConfig(WIDTH)
            full.is_diffusion = model_config.is_diffusion
            model_config = full
        return original(self, model_config, structured_outputs_config, tokenizer)

    return checked


SamplingParams._validate_structured_outputs = real_arguments(
    SamplingParams._validate_structured_outputs
)


def with_this_backend(original):
    """Some tests name the backend in the request itself."""

    @functools.wraps(original)
    def grammar_init(self, request):
        if request.structured_output_request is not None:
            request.structured_output_request.params._backend = "ffwd"
        original(self, request)

    return grammar_init


StructuredOutputManager.grammar_init = with_this_backend(StructuredOutputManager.grammar_init)


def adapt(module):
    """Replace what a module of tests has imported or named."""
    if getattr(module, "_adapted", False):
        return
    module._adapted = True
    quote, letter = (TOKENIZER.encode(text)[0] for text in ('"', "X"))
    replaced = {
        "TOKENIZER": MODEL,
        "VOCAB_SIZE": WIDTH,
        "QUOTE": quote,
        "LETTER": letter,
        "XgrammarBackend": Backend,
        "GuidanceBackend": Backend,
        "StructuredOutputsConfig": config,
        "ModelConfig": functools.partial(RealModelConfig, model=MODEL),
        "validate_xgrammar_grammar": validate,
    }
    if isinstance(getattr(module, "EOS", None), int):
        replaced["EOS"] = TOKENIZER.eos_token_id
    for name, value in replaced.items():
        if hasattr(module, name):
            setattr(module, name, value)
    for holder in vars(module).get("TestXgrammarBackend", SimpleNamespace()).__dict__.values():
        if hasattr(holder, "_TOKENIZER"):
            holder._TOKENIZER, holder._VOCAB_SIZE, holder.tokenizer = MODEL, WIDTH, TOKENIZER


def renamed(value):
    """The backend of a parameter, whatever it was."""
    if isinstance(value, str) and value in NAMES:
        return "ffwd"
    return MODEL if isinstance(value, str) and value.count("/") == 1 and " " not in value else value


def pytest_collection(session):
    """One file makes a deep value while it is imported, which some versions of Python refuse."""
    json.decoder.scanner.make_scanner = json.scanner.py_make_scanner
    json._default_decoder = json.JSONDecoder()
    sys.setrecursionlimit(50_000)


def pytest_collection_finish(session):
    json.decoder.scanner.make_scanner = json.scanner.c_make_scanner
    json._default_decoder = json.JSONDecoder()
    sys.setrecursionlimit(1_000)


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc):
    adapt(metafunc.module)
    marks = []
    for mark in metafunc.definition.own_markers:
        names = mark.args[0] if mark.name == "parametrize" else ()
        if isinstance(names, str):
            names = [name.strip() for name in names.split(",")]
        if {"backend", "model_name"} & set(names):
            values = []
            for value in mark.args[1]:
                if hasattr(value, "values"):
                    new = value._replace(values=tuple(map(renamed, value.values)))
                else:
                    new = tuple(map(renamed, value)) if isinstance(value, tuple) else renamed(value)
                if "EAGLE" not in str(new) and new not in values:
                    values.append(new)
            mark = pytest.mark.parametrize(mark.args[0], values).mark
        marks.append(mark)
    metafunc.definition.own_markers[:] = marks


@pytest.fixture
def vllm_runner():
    """Make engines as vLLM's fixture does, with a limit of tokens that suits a small model."""
    from vllm import LLM

    class Runner:
        def __init__(self, model, **options):
            options.setdefault("max_num_seqs", 16)
            self.llm = LLM(model, dtype="bfloat16", **options)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            del self.llm

    return Runner

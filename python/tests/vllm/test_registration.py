"""Registration: checks before anything is replaced, and refusals of the front end."""

import json
import subprocess
import sys
from types import SimpleNamespace

from vllm_helpers import *  # noqa: F403, I001  (skips the file: it must come first)
from vllm_helpers import INVOICE, MODEL, ModelConfig, StructuredOutputsConfig, get_tokenizer
import pytest
from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.core.sched.scheduler import Scheduler

import ffwd.vllm
from ffwd.vllm import contract


def test_registration_is_idempotent():
    method = SamplingParams._validate_structured_outputs
    assert ffwd.vllm.register() and ffwd.vllm.register()
    assert SamplingParams._validate_structured_outputs is method


def test_an_engine_may_be_configured_with_the_options():
    from vllm.config import VllmConfig

    options = {"disable_any_whitespace": True, "disable_additional_properties": True}
    config = VllmConfig(structured_outputs_config=StructuredOutputsConfig("ffwd", **options))
    assert config.structured_outputs_config.backend == "ffwd"
    with pytest.raises(ValueError, match="disable_any_whitespace"):
        StructuredOutputsConfig(backend="outlines", disable_any_whitespace=True)


ASIDE = """
import logging, vllm
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.config.structured_outputs import StructuredOutputsConfig
vllm.__version__ = "0.34.1"
before = vars(Scheduler)["update_draft_token_ids"]
lines = []
handler = logging.Handler(); handler.emit = lambda record: lines.append(record.getMessage())
logging.getLogger("vllm.ffwd").addHandler(handler)
import ffwd.vllm
assert ffwd.vllm.register() is False and ffwd.vllm.register() is False
assert vars(Scheduler)["update_draft_token_ids"] is before
try: StructuredOutputsConfig(backend="ffwd")
except ValueError: pass
else: raise SystemExit("the name is accepted")
assert len(lines) == 1 and "version 0.34.1" in lines[0], lines
"""


def test_another_vllm_is_left_alone():
    done = subprocess.run([sys.executable, "-c", ASIDE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_other_signatures_are_a_difference(monkeypatch):
    monkeypatch.setattr(Scheduler, "update_draft_token_ids", lambda self, drafts, more: None)
    assert "Scheduler.update_draft_token_ids takes (self drafts more)" in contract.difference()


def test_a_missing_part_is_a_difference(monkeypatch):
    assert contract.difference() is None
    monkeypatch.setitem(contract.SCHEDULER, "no_such_method", "self")
    assert "no_such_method" in contract.difference()


def validate(tokenizer, size, **constraint):
    params = SamplingParams(structured_outputs=StructuredOutputsParams(**constraint))
    config = StructuredOutputsConfig(backend="ffwd")
    params._validate_structured_outputs(ModelConfig(size), config, tokenizer)
    return params.structured_outputs


@pytest.mark.parametrize(
    "constraint, words",
    [
        ({"json": {"properties": {"bad": {"type": "strin"}}}}, ["#/properties/bad/type", "strin"]),
        ({"json": '{"type": '}, ["json"]),
        ({"json": '{"const": 1, "enum": [2]}'}, ["parameter=json"]),
        ({"json": " "}, ["empty"]),
        ({"regex": "(a"}, ["group", "hint"]),
        ({"regex": "a\x00b"}, ["NUL"]),
        ({"choice": []}, ["empty"]),
        ({"grammar": "root ::= ("}, ["parameter=grammar"]),
        ({"grammar": "start: nothing"}, ["Invalid grammar", "nothing"]),
        ({"grammar": "\n"}, ["empty"]),
        ({"structural_tag": '{"type": "structural_tag"}'}, ["format"]),
        (
            {"structural_tag": '{"type": "structural_tag", "format": {"type": "nope"}}'},
            ["#/format/type"],
        ),
        ({"json_object": False}, ["json_object"]),
        ({"json": "{}", "whitespace_pattern": " +"}, ["whitespace_pattern"]),
    ],
)
def test_faulty_constraints_are_refused_with_a_location(constraint, words, tokenizer, reference):
    with pytest.raises(VLLMValidationError) as caught:
        validate(tokenizer, reference.logits_size, **constraint)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text


def test_nested_and_unwritable_values_are_refused(tokenizer, reference):
    deep = {"type": "object"}
    for _ in range(2000):
        deep = {"properties": {"a": deep}}
    for value in (deep, {"enum": [object()]}, "[" * 100_000):
        with pytest.raises(VLLMValidationError):
            validate(tokenizer, reference.logits_size, json=value)


def test_sound_constraints_pass(tokenizer, reference):
    wanted = validate(tokenizer, reference.logits_size, json=INVOICE)
    assert wanted._backend == "ffwd" and wanted.json == INVOICE
    # The same parameters may be used again.
    params = SamplingParams(structured_outputs=wanted)
    config = StructuredOutputsConfig(backend="ffwd")
    params._validate_structured_outputs(ModelConfig(reference.logits_size), config, tokenizer)
    for text in ("{}", json.dumps(INVOICE)):
        validate(tokenizer, reference.logits_size, json=text)


def test_requests_that_no_backend_can_serve(tokenizer, reference):
    config = StructuredOutputsConfig(backend="ffwd")
    model = ModelConfig(reference.logits_size)

    def make():
        return SamplingParams(structured_outputs=StructuredOutputsParams(regex="a"))

    with pytest.raises(VLLMValidationError, match="skip_tokenizer_init"):
        make()._validate_structured_outputs(model, config, None)
    with pytest.raises(VLLMValidationError, match="tokenizer"):
        make()._validate_structured_outputs(model, config, SimpleTokenizer())
    other = make()
    other.structured_outputs._backend = "xgrammar"
    with pytest.raises(VLLMValidationError, match="xgrammar"):
        other._validate_structured_outputs(model, config, tokenizer)
    diffusion = SimpleNamespace(is_diffusion=True)
    with pytest.raises(VLLMValidationError, match="diffusion"):
        make()._validate_structured_outputs(diffusion, config, tokenizer)
    SamplingParams()._validate_structured_outputs(model, config, tokenizer)


class SimpleTokenizer:
    """A tokenizer of an unknown kind."""

    eos_token_id = 0

    def __len__(self):
        return 3


def test_other_backends_are_validated_as_before(tokenizer, reference):
    params = SamplingParams(structured_outputs=StructuredOutputsParams(regex="(a"))
    config = StructuredOutputsConfig(backend="xgrammar")
    with pytest.raises(VLLMValidationError):
        params._validate_structured_outputs(ModelConfig(reference.logits_size), config, tokenizer)


TOOLS = """
import json
import ffwd, ffwd.vllm
assert ffwd.vllm.register()
from vllm.engine.arg_utils import EngineArgs
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.parser.parser_manager import ParserManager
from vllm.tokenizers import get_tokenizer

city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
# A keyword that XGrammar refuses.
seven = {"type": "object", "properties": {"x": {"type": "integer", "multipleOf": 7}}, "required": ["x"]}
body = {
    "messages": [{"role": "user", "content": "Hi"}],
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": city}}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": seven}},
}
tokenizer = get_tokenizer(MODEL)
def adjusted():
    request = ChatCompletionRequest(**body)
    parser = ParserManager.get_parser("hermes", enable_auto_tools=True)(tokenizer, request.tools)
    return parser.adjust_request(request).structured_outputs
assert adjusted() is None  # an engine with another backend
EngineArgs(MODEL, max_model_len=64, structured_outputs_config={"backend": "ffwd"}).create_engine_config()
vocabulary = ffwd.Vocabulary.from_transformers(tokenizer)
grammar = ffwd.Compiler(vocabulary).compile(ffwd.Constraint.structural_tag(adjusted().structural_tag))
def whole(text):
    tokens, matcher = vocabulary.encode(text), grammar.matcher()
    return matcher.accept_tokens(tokens) == len(tokens) and matcher.is_accepting()
call = '<tool_call>\\n{"name": "weather", "arguments": %s}\\n</tool_call>'
assert whole('{"x":14}') and whole(call % '{"city":"Oslo"}')
assert not whole('{"x":15}') and not whole(call % '{"town":"Oslo"}') and not whole("Hello")
"""


def test_tools_and_a_final_format_hold_together():
    program = f"MODEL = {MODEL!r}\n{TOOLS}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_thinking_leaves_room_for_the_answer(reference):
    from ffwd.vllm.contract import REASONING

    tokenizer = get_tokenizer(MODEL)
    config = StructuredOutputsConfig(backend="ffwd")
    object.__setattr__(config, REASONING, SimpleNamespace(enabled=True, reasoning_end_token_ids=[1, 2]))
    answer = "a long answer that is the only one"
    shortest = len(tokenizer.encode(answer, add_special_tokens=False))
    cases = [(None, 100, 73 - shortest), (9, 100, 9), (90, 40, 28 - shortest), (None, 4, 0)]
    for given, limit, expected in cases:
        params = SamplingParams(
            max_tokens=limit,
            thinking_token_budget=given,
            structured_outputs=StructuredOutputsParams(choice=[answer]),
        )
        params._validate_structured_outputs(ModelConfig(reference.logits_size), config, tokenizer)
        assert params.thinking_token_budget == expected, (given, limit)

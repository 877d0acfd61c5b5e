"""An engine of vLLM in this process, with this backend and jump-forward.

One engine for all tests: it is started once, with the drafter that drafts nothing of its own.
"""

import json
import os

from vllm_helpers import *  # noqa: F403, I001  (skips the file: it must come first)
from vllm_helpers import CONSTRAINTS, INVOICE, MODEL, NAMES, Kind
import pytest

import ffwd
from ffwd.vllm import backend as backend_module
from ffwd.vllm import jump_forward
from ffwd.vllm.gate import Gate

FIELDS = {
    Kind.JSON: "json",
    Kind.REGEX: "regex",
    Kind.CHOICE: "choice",
    Kind.GRAMMAR: "grammar",
    Kind.STRUCTURAL_TAG: "structural_tag",
}
TEXT = "Invoice INV-20417 of Bright Glacier Consulting, total 1840.00 EUR."


@pytest.fixture(scope="module")
def llm():
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM

    return LLM(
        model=MODEL,
        dtype="bfloat16",
        max_model_len=512,
        max_num_seqs=160,
        enforce_eager=True,
        disable_log_stats=True,
        structured_outputs_config={"backend": "ffwd"},
        speculative_config={"model": "ffwd.vllm.JumpForward", "num_speculative_tokens": 8},
    )


def wanted(kind, text):
    from vllm.sampling_params import StructuredOutputsParams

    if kind is Kind.JSON_OBJECT:
        return StructuredOutputsParams(json_object=True)
    value = json.loads(text) if kind is Kind.CHOICE else text
    return StructuredOutputsParams(**{FIELDS[kind]: value})


def sampling(constraint, **options):
    from vllm import SamplingParams

    options = {"temperature": 0, "max_tokens": 80, **options}
    return SamplingParams(structured_outputs=constraint, **options)


def chat(llm, params):
    message = [{"role": "user", "content": f"Answer in the requested form. {TEXT}"}]
    many = params if isinstance(params, list) else [params]
    found = llm.chat([message] * len(many), many, use_tqdm=False)
    return found if isinstance(params, list) else found[0]


def check(output, constraint, vocabulary):
    """The tokens are legal for a plain matcher, and whole where the output says so."""
    matcher = ffwd.Compiler(vocabulary).compile(constraint).matcher()
    tokens = list(output.token_ids)
    assert matcher.accept_tokens(tokens) == len(tokens), output.text
    assert matcher.is_terminated() == (output.finish_reason == "stop"), output.text


@pytest.fixture
def forwards(llm, monkeypatch):
    """Count the steps of the engine that have tokens."""
    executor = llm.llm_engine.engine_core.engine_core.model_executor
    original, counted = executor.execute_model, []

    def execute_model(scheduled, *args, **kwargs):
        if scheduled.total_num_scheduled_tokens:
            counted.append(1)
        return original(scheduled, *args, **kwargs)

    monkeypatch.setattr(executor, "execute_model", execute_model)
    return counted


@pytest.mark.parametrize("index", range(len(CONSTRAINTS)), ids=NAMES)
def test_all_kinds(index, llm, reference):
    kind, text, constraint = CONSTRAINTS[index]
    check(chat(llm, sampling(wanted(kind, text))).outputs[0], constraint(), reference)


def test_forced_runs_save_forwards_and_change_nothing(llm, forwards, monkeypatch):
    monkeypatch.setattr(Gate, "pays", lambda *_: True)  # whatever the machine does meanwhile
    params = sampling(wanted(Kind.JSON, json.dumps(INVOICE)), max_tokens=120)
    jumping = chat(llm, params).outputs[0]
    fewer = len(forwards)
    with monkeypatch.context() as plain:
        plain.setattr(jump_forward, "lead", lambda _, drafts: drafts)
        stepwise = chat(llm, params).outputs[0]
    assert list(jumping.token_ids) == list(stepwise.token_ids)
    assert len(forwards) - fewer >= len(stepwise.token_ids)
    assert fewer < 0.8 * (len(forwards) - fewer)
    json.loads(jumping.text)


def test_several_outputs_of_one_prompt(llm, reference):
    params = sampling(wanted(Kind.REGEX, "[a-z]{3,9}"), n=4, temperature=1.0, seed=7)
    outputs = chat(llm, params).outputs
    assert len(outputs) == 4
    for output in outputs:
        check(output, ffwd.Constraint.regex("[a-z]{3,9}"), reference)


def test_beam_search(llm):
    from vllm.sampling_params import BeamSearchParams

    choices = ["red", "green", "dark blue"]
    constraint = wanted(Kind.CHOICE, json.dumps(choices))
    params = BeamSearchParams(beam_width=2, max_tokens=8, structured_outputs=constraint)
    found = llm.beam_search([{"prompt": "The colour of grass is"}], params)[0]
    texts = [s.text.removeprefix("The colour of grass is") for s in found.sequences]
    assert texts and all(any(c in text for c in choices) for text in texts), texts


def test_more_rows_than_the_limit_of_serial_filling(llm, reference):
    """Above 128 requests vLLM's own manager fills in another way."""
    patterns = [rf"[a-z]{{2}}-{i}" for i in range(150)]
    found = chat(llm, [sampling(wanted(Kind.REGEX, p), max_tokens=12) for p in patterns])
    for pattern, result in zip(patterns, found):
        check(result.outputs[0], ffwd.Constraint.regex(pattern), reference)


def test_requests_with_and_without_a_constraint_share_a_batch(llm, reference):
    from vllm import SamplingParams

    free = SamplingParams(temperature=0, max_tokens=12)
    alone = chat(llm, free).outputs[0].text
    mixed = [free, sampling(wanted(Kind.REGEX, "[0-9]{4}")), free]
    found = [result.outputs[0] for result in chat(llm, mixed)]
    assert found[0].text == found[2].text == alone
    check(found[1], ffwd.Constraint.regex("[0-9]{4}"), reference)


def test_a_stop_token_of_the_request_ends_it(llm, reference):
    digits = [reference.encode(digit)[0] for digit in "0123456789"]
    options = {"stop_token_ids": [digits[7]], "allowed_token_ids": digits, "max_tokens": 20}
    output = chat(llm, sampling(wanted(Kind.REGEX, "[0-9]{4,8}"), **options)).outputs[0]
    text = reference.decode(list(output.token_ids)[:-1])
    assert output.token_ids[-1] == digits[7] and output.stop_reason == digits[7]
    assert 4 <= len(text) <= 8 and b"7" not in text


def test_a_failure_in_the_core_ends_its_request_alone(llm, monkeypatch, reference):
    original = backend_module.Backend.compile_grammar

    def compile_grammar(self, request_type, grammar_spec, stop_token_ids=None):
        if grammar_spec == "broken":
            raise RuntimeError("no grammar")
        return original(self, request_type, grammar_spec, stop_token_ids)

    monkeypatch.setattr(backend_module.Backend, "compile_grammar", compile_grammar)
    mixed = [sampling(wanted(Kind.REGEX, text)) for text in ("[0-9]{3}", "broken", "[a-c]{3}")]
    found = [result.outputs[0] for result in chat(llm, mixed)]
    assert found[1].finish_reason == "error"
    check(found[0], ffwd.Constraint.regex("[0-9]{3}"), reference)
    check(found[2], ffwd.Constraint.regex("[a-c]{3}"), reference)


def test_faulty_requests_are_refused_and_the_engine_lives(llm, reference):
    from vllm.exceptions import VLLMValidationError

    with pytest.raises(VLLMValidationError, match="#/properties/a/type"):
        chat(llm, sampling(wanted(Kind.JSON, '{"properties": {"a": {"type": "strin"}}}')))
    output = chat(llm, sampling(wanted(Kind.CHOICE, '["yes"]'))).outputs[0]
    assert output.text == "yes"

"""vLLM's own backend for XGrammar, with `ffwd.compat.xgrammar` in its place. No engine."""

import json
import random
from types import SimpleNamespace

import pytest
from vllm_helpers import INVOICE, MODEL, TAG, Kind, StructuredOutputsConfig, get_tokenizer

import ffwd
import ffwd.compat.xgrammar as xgrammar

NEW_TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<function="],
        "tags": [
            {
                "type": "tag",
                "begin": "<function=weather>",
                "content": {"type": "json_schema", "json_schema": TAG["structures"][0]["schema"]},
                "end": "</function>",
            }
        ],
    },
}
# Kind, specification, an output, and a text that is none.
INVOICE_TEXT = '{"number":"INV-12345","vendor":"Acme","total":12.5,"currency":"EUR"}'
CASES = [
    (Kind.JSON, json.dumps(INVOICE), INVOICE_TEXT, '{"number":"INV-1"'),
    (Kind.JSON_OBJECT, "", '{"a": [1, {}]}', "[1"),
    (Kind.REGEX, "[a-f]{2,4}-[0-9]+", "abc-12", "abg"),
    (Kind.GRAMMAR, 'root ::= "a" root "b" | "c"', "aacbb", "aab"),
    (Kind.GRAMMAR, 'start: "a" start "b" | "c"', "aacbb", "aab"),
    (Kind.STRUCTURAL_TAG, json.dumps(TAG), 'x<function=weather>{"city":"Bonn"}</function>', None),
    (Kind.STRUCTURAL_TAG, json.dumps(NEW_TAG), 'x<function=weather>{"city":"A"}</function>', None),
]


@pytest.fixture(scope="module")
def tokenizer():
    return get_tokenizer(MODEL)


@pytest.fixture
def backend(tokenizer, monkeypatch):
    config = SimpleNamespace(
        structured_outputs_config=StructuredOutputsConfig(disable_any_whitespace=False),
        model_config=SimpleNamespace(hf_config=SimpleNamespace(model_type="llama")),
        speculative_config=None,
    )
    arguments = {"vllm_config": config, "tokenizer": tokenizer, "vocab_size": len(tokenizer)}
    from vllm.v1.structured_output import backend_xgrammar as module

    monkeypatch.setattr(module, "xgr", xgrammar)
    return module.XgrammarBackend(**arguments)


@pytest.mark.parametrize("kind, spec, text, wrong", CASES)
def test_a_backend_of_vllm_runs_on_this_engine(backend, tokenizer, kind, spec, text, wrong):
    grammar = backend.compile_grammar(kind, spec)
    bitmask = backend.allocate_token_bitmask(2)
    tokens = tokenizer.encode(text, add_special_tokens=False)
    assert grammar.validate_tokens(tokens) == tokens
    for token in tokens:
        grammar.fill_bitmask(bitmask, 1)
        assert bitmask[1, token // 32] >> token % 32 & 1
        assert grammar.accept_tokens("one", [token]) and not grammar.is_terminated()
    assert (bitmask[0] == -1).all()
    grammar.fill_bitmask(bitmask, 1)
    end = tokenizer.eos_token_id
    assert bitmask[1, end // 32] >> end % 32 & 1
    assert grammar.accept_tokens("one", [end]) and grammar.is_terminated()
    grammar.rollback(len(tokens) + 1)
    assert grammar.validate_tokens(tokens) == tokens and not grammar.is_terminated()
    if wrong is not None:
        tokens = tokenizer.encode(wrong, add_special_tokens=False)
        assert len(grammar.validate_tokens(tokens)) < len(tokens)
        assert not grammar.accept_tokens("one", tokens)


def test_random_walks_satisfy_the_schema(backend, tokenizer):
    random.seed(6)
    schema = {**INVOICE, "properties": {**INVOICE["properties"], "vendor": {"enum": ["A", "Bc"]}}}
    check = ffwd.Compiler(ffwd.Vocabulary.from_transformers(tokenizer)).compile(
        ffwd.Constraint.json_schema(schema, whitespace=24, exponent=True)
    )
    bitmask = backend.allocate_token_bitmask(1)
    for _ in range(3):
        grammar = backend.compile_grammar(Kind.JSON, json.dumps(schema))
        text = []
        for _ in range(80):
            grammar.fill_bitmask(bitmask, 0)
            legal = [
                32 * word + bit
                for word, value in enumerate(bitmask[0].tolist())
                for bit in range(32)
                if value >> bit & 1
            ]
            # Whitespace is legal anywhere; prefer tokens that are more than that.
            more = [token for token in legal if tokenizer.decode([token]).strip()] or legal
            text.append(random.choice(more))
            assert grammar.accept_tokens("one", text[-1:])
            if grammar.is_terminated():
                break
        matcher = check.matcher()
        assert matcher.accept_tokens(text) == len(text)


def test_a_wrong_expression_is_an_error_of_its_request(backend):
    with pytest.raises(ffwd.Error):
        backend.compile_grammar(Kind.REGEX, "(")
    assert backend.compile_grammar(Kind.REGEX, "a").validate_tokens([]) == []

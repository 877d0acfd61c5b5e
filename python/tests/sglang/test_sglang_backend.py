"""The backend of SGLang without an engine: masks, ends, refusals, the cache, and many rows at once."""

import json
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from sglang_helpers import base

# isort: split
import numpy as np
import torch

import ffwd
import ffwd.sglang
from ffwd.grammars import MAX_GRAMMARS, Options
from ffwd.sglang import backend as module
from ffwd.sglang import cache as cache_module

GrammarRow, InvalidGrammarObject = base.GrammarRow, base.InvalidGrammarObject
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Ulm", "Bern"]}, "count": {"type": "integer", "maximum": 99}},
    "required": ["city", "count"],
    "additionalProperties": False,
}
TAG = {"type": "tag", "begin": "<t>", "content": {"type": "regex", "pattern": "a+"}, "end": "</t>"}
NEW = json.dumps({"type": "structural_tag", "format": TAG})
OLD = json.dumps(
    {
        "structures": [{"begin": "<f=a>", "schema": SCHEMA, "end": "</f>"}],
        "triggers": ["<f="],
    }
)
GBNF = 'root ::= "yes" | "no" [0-9]+'
CONSTRAINTS = {
    "json": (json.dumps(SCHEMA), lambda: ffwd.Constraint.json_schema(SCHEMA)),
    "regex": (r"INV-\d{3}", lambda: ffwd.Constraint.regex(r"INV-\d{3}")),
    "ebnf": (GBNF, lambda: ffwd.Constraint.gbnf(GBNF)),
    "structural_tag": (NEW, lambda: ffwd.Constraint.structural_tag(NEW)),
}


@pytest.fixture(scope="module")
def backend(real):
    return module.Backend(real, Options())


def state(backend, kind):
    return getattr(backend, f"dispatch_{kind}")(CONSTRAINTS[kind][0])


def row_of(grammar, rows=1, row=0):
    mask = grammar.allocate_vocab_mask(100, rows, "cpu")
    grammar.fill_vocab_mask(mask, row)
    return mask[row].numpy()


def legal(row):
    return np.flatnonzero(np.unpackbits(row.view("uint8"), bitorder="little"))


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_rows_are_those_of_the_engine_up_to_the_end(kind, backend, real, real_compiler):
    compiled = real_compiler.compile(CONSTRAINTS[kind][1]())
    template = state(backend, kind)
    for seed in range(20):
        rng = random.Random(seed)
        grammar, matcher = template.copy(), compiled.matcher()
        expected = ffwd.allocate_token_bitmask(1, real)
        for _ in range(60):
            matcher.fill_next_token_bitmask(expected)
            row = row_of(grammar)
            assert (row == expected[0]).all()
            few = [int(rng.choice(legal(row))) for _ in range(3)]
            token = min(few, key=lambda token: len(real.token_bytes(token)) or 99)
            grammar.accept_token(token)
            assert matcher.accept_token(token)
            assert grammar.current_token == token
            assert grammar.is_terminated() == matcher.is_terminated() == (token in real.eos)
            if rng.random() < 0.2:
                grammar.rollback(1)
                matcher.rollback(1)
                assert not grammar.is_terminated()
            if grammar.is_terminated():
                break


def test_a_token_that_is_not_legal_is_an_error_and_changes_nothing(backend, real):
    grammar = state(backend, "regex")
    before = row_of(grammar)
    for token in (real.encode("x")[0], real.eos[0], -1, 10**6):
        with pytest.raises(ValueError, match=str(token)):
            grammar.accept_token(token)
        assert (row_of(grammar) == before).all()
    assert not grammar.is_terminated()


def test_the_end_can_be_taken_back_and_tokens_after_it_are_ignored(backend, real):
    grammar = state(backend, "ebnf")
    tokens = real.encode("yes")
    for token in [*tokens, real.eos[0]]:
        assert not grammar.is_terminated()
        grammar.accept_token(token)
    assert grammar.is_terminated()
    grammar.accept_token(tokens[0])
    grammar.rollback(0)
    assert grammar.is_terminated()
    grammar.rollback(1 + len(tokens))
    assert not grammar.is_terminated()
    assert (row_of(grammar) == row_of(state(backend, "ebnf"))).all()


def test_rows_of_many_requests_are_filled_in_one_call(backend, real):
    grammars = [state(backend, kind) for _ in range(3) for kind in CONSTRAINTS]
    rows = [5 + 2 * i for i in range(len(grammars))]
    mask = grammars[0].allocate_vocab_mask(len(real), 40, "cpu")
    entries = [GrammarRow(row, grammar) for row, grammar in zip(rows, grammars)]
    grammars[0].fill_vocab_mask_batched(entries, mask)
    for row in range(40):
        if row in rows:
            assert (mask[row].numpy() == row_of(grammars[rows.index(row)])).all()
        else:
            assert (mask[row] == -1).all(), "a row without a constraint permits everything"
    grammars[0].reset_vocab_mask(mask)
    assert (mask == -1).all()
    grammars[0].fill_vocab_mask_batched([], mask)
    assert (mask == -1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_logits_of_other_tokens_are_minus_infinity(backend, real, dtype):
    grammar = state(backend, "json")
    mask = grammar.allocate_vocab_mask(len(real), 3, "cpu")
    grammar.fill_vocab_mask(mask, 1)
    logits = torch.zeros((3, real.logits_size), dtype=dtype)
    grammar.apply_vocab_mask(logits=logits, vocab_mask=grammar.move_vocab_mask(mask, "cpu"))
    assert (logits[0] == 0).all() and (logits[2] == 0).all()
    assert (torch.isfinite(logits[1]).nonzero().flatten().numpy() == legal(mask[1].numpy())).all()
    assert len(legal(mask[1].numpy())) < 10


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("json", '{"type": "object", "properties": {"a": {"type": "strnig"}}}', "/properties/a/type"),
        ("json", "{", "JSON"),
        ("regex", "(", ""),
        ("regex", r"(a)\1", ""),
        ("ebnf", "root ::= other", "other"),
        ("structural_tag", '{"type": "structural_tag", "format": {"type": "no"}}', "no"),
        ("structural_tag", "[]", ""),
        ("structural_tag", "[" * 100_000, ""),
    ],
)
def test_a_refused_constraint_says_why_and_others_work(backend, kind, text, message):
    refused = getattr(backend, f"dispatch_{kind}")(text)
    assert isinstance(refused, InvalidGrammarObject)
    assert message in refused.error_message and refused.error_message
    assert len(legal(row_of(state(backend, "json")))) > 0


def test_states_of_the_cache_are_fresh_and_bounded(real, monkeypatch):
    backend = module.Backend(real, Options())
    first = state(backend, "regex")
    key = ("regex", "first")
    backend.set_cache(key, first.copy())
    first.accept_token(real.encode("INV")[0])
    taken = backend.cache.get(key).copy()
    assert (row_of(taken) == row_of(state(backend, "regex"))).all()
    assert taken.grammar_stats.is_cache_hit and not first.grammar_stats.is_cache_hit
    assert taken.compiled is first.compiled, "nothing is compiled again"
    for number in range(MAX_GRAMMARS + 10):
        backend.set_cache(("regex", str(number)), first.copy())
        backend.cache.get(key)
    assert len(backend.cache) == MAX_GRAMMARS
    assert backend.cache.get(key) is not None and backend.cache.get(("regex", "0")) is None
    # One large constraint drives the others out, and is kept.
    monkeypatch.setattr(cache_module, "MAX_MEMORY", 2 * first.compiled.memory_bytes + 200)
    backend.set_cache(("regex", "x" * 1_000_000), InvalidGrammarObject("no"))
    assert len(backend.cache) == 1
    backend.set_cache(key, first.copy())
    assert list(backend.cache) == [key]


def accepts(grammar, real, text):
    try:
        for token in [*real.encode(text), real.eos[0]]:
            grammar.accept_token(token)
    except ValueError:
        return False
    return grammar.is_terminated()


def test_any_json_and_schemas_that_are_left_out(backend, real):
    for text in ("[1]", '{"a":null}', "7"):
        assert accepts(backend.dispatch_json("$$ANY$$"), real, text)
    assert not accepts(backend.dispatch_json("$$ANY$$"), real, "[1")
    old = {"structures": [{"begin": "<f=a>", "schema": None, "end": "</f>"}], "triggers": ["<f="]}
    assert accepts(backend.dispatch_structural_tag(json.dumps(old)), real, "x<f=a>[1]</f>")
    content = {"type": "json_schema", "json_schema": None}
    tags = [{"type": "tag", "begin": "<f=a>", "content": content, "end": "</f>"}]
    new = {"type": "triggered_tags", "triggers": ["<f="], "tags": tags}
    grammar = backend.dispatch_structural_tag(json.dumps({"type": "structural_tag", "format": new}))
    assert accepts(grammar, real, "x<f=a>[1]</f>")
    assert accepts(backend.dispatch_structural_tag(OLD), real, '<f=a>{"city":"Ulm","count":7}</f>')
    assert not accepts(backend.dispatch_structural_tag(OLD), real, "<f=a>[1]</f>")


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        ({}, ["compact"]),
        ({"constrained_json_max_whitespace_cnt": 2}, ["compact", "spaced"]),
        ({"constrained_json_max_whitespace_cnt": 9}, ["compact", "spaced", "free"]),
        ({"constrained_json_whitespace_pattern": r"[\n ]*"}, ["compact"]),
        ({"constrained_json_whitespace_pattern": r"\s*"}, ["compact", "spaced", "free"]),
        (
            {
                "constrained_json_max_whitespace_cnt": 9,
                "constrained_json_disable_any_whitespace": True,
            },
            ["compact"],
        ),
    ],
)
def test_options_of_the_server(real, options, accepted):
    serving = {
        "constrained_json_disable_any_whitespace": False,
        "constrained_json_whitespace_pattern": None,
        "constrained_json_max_whitespace_cnt": None,
        **options,
    }
    if options.get("constrained_json_whitespace_pattern") == r"[\n ]*":
        accepted = ["spaced"]  # Of what the pattern permits, one form.
    backend = module.Backend(real, module.options_of(SimpleNamespace(**serving)))
    texts = {
        "compact": '{"city":"Ulm","count":7}',
        "spaced": '{"city": "Ulm", "count": 7}',
        "free": '{    "city":\n"Ulm",\t"count":7}',
    }
    found = [name for name, text in texts.items() if accepts(state(backend, "json"), real, text)]
    assert found == accepted


def test_registration_can_be_repeated():
    from sglang.srt.server_args import GRAMMAR_BACKEND_CHOICES

    ffwd.sglang.register()
    ffwd.sglang.register()
    assert GRAMMAR_BACKEND_CHOICES.count("ffwd") == 1
    assert "ffwd" in base.GRAMMAR_BACKEND_REGISTRY


def test_all_tokens_that_end_a_request_end_the_output(real):
    transformers = pytest.importorskip("transformers")
    path = Path(__file__).resolve().parents[3] / "crates/runtime/assets/extract-5m" / "tokenizer.json"
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    end = real.eos[0]
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    others = [token for token in range(len(tokenizer)) if token != end][:3]
    tokenizer.additional_stop_token_ids = {others[2]}
    vocabulary = module.vocabulary_of(tokenizer, len(tokenizer) + 50, {others[0], others[1]})
    assert set(vocabulary.eos) == {end, *others}
    assert vocabulary.logits_size == len(tokenizer) + 50


def test_a_tokenizer_of_another_kind_is_an_error_that_names_it():
    class Slow(list):
        eos_token_id = 1

    with pytest.raises(ValueError, match="--grammar-backend ffwd cannot use the tokenizer Slow"):
        module.vocabulary_of(Slow(), 10, None)

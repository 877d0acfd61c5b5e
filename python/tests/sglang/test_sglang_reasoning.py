"""Requests in which the model reasons first, without an engine, over SGLang's own classes."""

import os
from pathlib import Path

import pytest

if os.environ.get("FFWD_TEST_SGLANG") != "1":
    pytest.skip("set FFWD_TEST_SGLANG=1 to test inside SGLang", allow_module_level=True)

import numpy as np
import torch
import transformers
from sglang.srt.constrained.base_grammar_backend import GrammarRow, InvalidGrammarObject
from sglang.srt.parser.reasoning_parser import ReasoningParser

from ffwd.grammars import Options
from ffwd.sglang import backend as module
from ffwd.sglang.cache import Cache
from ffwd.sglang.reasoning import ReasoningBackend, ReasoningGrammar

PATTERN = ("regex", "INV-[0-9]{3}")


@pytest.fixture(scope="module")
def tokenizer():
    path = Path(__file__).resolve().parents[3] / "crates/runtime/assets/extract-5m" / "tokenizer.json"
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(path))
    tokenizer.add_special_tokens({"eos_token": "<end>"})
    tokenizer.add_tokens(["<think>", "</think>"])
    return tokenizer


def make(tokenizer, strict=False):
    vocabulary = module.vocabulary_of(tokenizer, len(tokenizer), None)
    parser = ReasoningParser(model_type="qwen3", stream_reasoning=False, tokenizer=tokenizer)
    return ReasoningBackend(module.Backend(vocabulary, Options()), parser, tokenizer, strict)


@pytest.fixture(scope="module")
def backend(tokenizer):
    return make(tokenizer)


def state(backend, reasoning, key=PATTERN):
    return backend._init_value_dispatch(key, reasoning)


def filled(entries, rows=8):
    grammar = entries[0][1]
    mask = grammar.allocate_vocab_mask(100, rows, "cpu")
    grammar.fill_vocab_mask_batched([GrammarRow(*entry) for entry in entries], mask)
    return mask


def legal(row):
    return np.flatnonzero(np.unpackbits(row.numpy().view("uint8"), bitorder="little"))


def test_everything_is_legal_until_the_reasoning_ends(backend, tokenizer):
    grammar = state(backend, True)
    assert isinstance(grammar, ReasoningGrammar)
    text = tokenizer.encode("maybe 17</think>", add_special_tokens=False)
    for token in text:
        assert (filled([(3, grammar)]) == -1).all()
        grammar.accept_token(token)
    mask = filled([(3, grammar)])
    texts = {tokenizer.decode([token]) for token in legal(mask[3])}
    assert texts and all("INV-".startswith(part) or part.startswith("INV-") for part in texts)
    # Taken back over the end of the reasoning, and forth again.
    inner = tokenizer.encode("INV-", add_special_tokens=False)
    for token in inner:
        grammar.accept_token(token)
    grammar.rollback(len(inner) + 1)
    assert (filled([(3, grammar)]) == -1).all()
    grammar.accept_token(text[-1])
    assert (filled([(3, grammar)]) == mask).all()
    for token in [*tokenizer.encode("INV-123", add_special_tokens=False), tokenizer.eos_token_id]:
        assert not grammar.is_terminated()
        grammar.accept_token(token)
    assert grammar.is_terminated()


def test_rows_of_both_sorts_are_filled_together(backend):
    thinking, answering = state(backend, True), state(backend, False)
    bare = backend.grammar_backend.dispatch_regex("[ab]")
    alone = filled([(0, answering)])[0]
    for order in ([thinking, answering, bare], [bare, answering, thinking]):
        mask = filled(list(enumerate(order)))
        for row, grammar in enumerate(order):
            if grammar is thinking:
                assert (mask[row] == -1).all()
            elif grammar is answering:
                assert (mask[row] == alone).all()
            else:
                assert len(legal(mask[row])) == 2
        assert (mask[3:] == -1).all()


def test_a_budget_ends_the_reasoning(tokenizer):
    grammar = state(make(tokenizer, strict=True), True)
    grammar.max_think_tokens = 2
    (end,) = tokenizer.encode("</think>", add_special_tokens=False)
    for _ in range(2):
        assert len(legal(filled([(0, grammar)])[0])) > 1
        grammar.accept_token(tokenizer.encode("a", add_special_tokens=False)[0])
    assert list(legal(filled([(0, grammar)])[0])) == [end]
    grammar.accept_token(end)
    assert (filled([(0, grammar)]) == filled([(0, state(make(tokenizer), False))])).all()


def test_copies_are_fresh_and_kept_in_a_bounded_cache(tokenizer):
    backend = make(tokenizer)
    assert isinstance(backend.cache, Cache) and isinstance(backend.grammar_backend.cache, Cache)
    first = state(backend, True)
    backend.set_cache(PATTERN, first.copy())
    first.accept_token(tokenizer.encode("</think>", add_special_tokens=False)[0])
    first.accept_token(tokenizer.encode("INV", add_special_tokens=False)[0])
    taken, hit = backend.get_cached_or_future_value(PATTERN, False)
    assert hit and isinstance(taken, ReasoningGrammar)
    assert (filled([(0, taken)]) == filled([(0, state(backend, False))])).all()
    assert backend.cache.memory() >= taken.grammar.compiled.memory_bytes
    assert isinstance(state(backend, True, ("regex", "(")), InvalidGrammarObject)


def test_logits_are_masked_by_way_of_the_wrapper(backend):
    grammar = state(backend, False)
    mask = filled([(0, grammar)], rows=1)
    logits = torch.zeros((1, backend.grammar_backend.vocabulary.logits_size))
    grammar.apply_vocab_mask(logits=logits, vocab_mask=mask)
    assert (torch.isfinite(logits[0]).nonzero().flatten().numpy() == legal(mask[0])).all()

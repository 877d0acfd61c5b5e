"""Requests in which the model reasons first: the constraint holds after the reasoning.

SGLang wraps the states of its own backends for this, and those of registered backends not. So this
backend wraps its states itself, with SGLang's classes.

A request's limit of tokens counts thinking and answer together. So a budget of thinking leaves room for
the answer: for its shortest text, and a quarter of the limit beside it.
"""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import BaseGrammarBackend, GrammarRow
from sglang.srt.constrained.reasoner_grammar_backend import (
    ReasonerGrammarBackend,
    ReasonerGrammarObject,
)
from sglang.srt.parser.reasoning_parser import ReasoningParser
from sglang.srt.runtime_context import get_serving

from ..grammars import room_for_thinking
from .backend import Backend, Grammar, fill_rows
from .cache import Cache


def reasoning_backend(backend: Backend, tokenizer: Any) -> BaseGrammarBackend:
    """Return the backend that lets a model reason, if the server has a parser for the model's form.

    A parser whose end of reasoning is no text of the tokenizer has no effect on constraints. SGLang
    says so in its log.
    """
    serving = get_serving()
    if not serving.reasoning_parser:
        return backend
    parser = ReasoningParser(
        model_type=serving.reasoning_parser, stream_reasoning=False, tokenizer=tokenizer
    )
    if not parser.detector.get_think_end_token_ids(tokenizer):
        return backend
    return ReasoningBackend(backend, parser, tokenizer, serving.enable_strict_thinking)


class ReasoningBackend(ReasonerGrammarBackend):
    """SGLang's wrapper of backends, with a bounded cache and states that are filled in one call."""

    def __init__(self, backend: Backend, parser: Any, tokenizer: Any, strict: bool) -> None:
        """Wrap a backend."""
        super().__init__(backend, parser, tokenizer, enable_strict_thinking=strict)
        self.cache = Cache()
        # Budgets need it; without strict thinking, SGLang's class leaves it out.
        self._token_filter_fn = backend.set_token_filter

    def _make_grammar_object(self, grammar: Any, reasoning: bool) -> ReasoningGrammar:
        return _as_ours(super()._make_grammar_object(grammar, reasoning))


class ReasoningGrammar(ReasonerGrammarObject):
    """The state of one request: free text first, then a `Grammar`."""

    @staticmethod
    def fill_vocab_mask_batched(entries: list[GrammarRow], vocab_mask: torch.Tensor) -> None:
        """Write the legal tokens of many requests: in one call of those that do not reason."""
        fill_rows(entries, vocab_mask)

    def constrained(self) -> Grammar | None:
        """Return the state that alone determines the next row; None while the model reasons."""
        after = self._is_generation() and not self.reasoning_in_grammar
        return self.grammar if after else None

    def copy(self) -> ReasoningGrammar:
        """Return the beginning of another request with this constraint."""
        return _as_ours(super().copy())


def leave_room(_result: Any, _manager: Any, request: Any) -> None:
    """Give a request that reasons the budget that leaves room for its answer, or a smaller one of its own.

    SGLang calls it behind `GrammarManager._apply_request_reasoning_config`.
    """
    state, limit = request.grammar, request.sampling_params.max_new_tokens
    if not isinstance(state, ReasoningGrammar) or state.grammar is None or not limit:
        return
    room = room_for_thinking(state.grammar.compiled, limit) - len(state.think_end_ids)
    given = state.max_think_tokens
    state.max_think_tokens = max(0, room if given < 0 else min(given, room))
    state.enable_token_filter = True


def _as_ours(state: ReasonerGrammarObject) -> ReasoningGrammar:
    """Return a state that SGLang's class has made, as one of the class here. It adds no attributes."""
    state.__class__ = ReasoningGrammar
    return state  # type: ignore[return-value]

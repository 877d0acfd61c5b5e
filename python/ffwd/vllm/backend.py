"""The contract of vLLM's structured-output backends over this engine."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from vllm.v1.structured_output.backend_types import (
    StructuredOutputBackend,
    StructuredOutputGrammar,
    StructuredOutputOptions,
)

import ffwd

from ..grammars import Options
from .constraints import options_of
from .gate import Gate, Record
from .habits import Habits
from .pace import Pace
from .tokenizers import grammars_of

logger = logging.getLogger("vllm.ffwd")


@dataclass
class Backend(StructuredOutputBackend):
    """The backend `ffwd`: one for each engine, used by several threads."""

    def __post_init__(self) -> None:
        """Prepare the vocabulary.

        Raises:
            TypeError, ffwd.Error: The tokenizer cannot be used.
        """
        model_config = self.vllm_config.model_config
        self.grammars = grammars_of(self.tokenizer, self.vocab_size, model_config)
        self.gate = Gate()
        self.pace = Pace()
        self.habits = Habits(self.grammars.vocabulary)

    def compile_grammar(
        self,
        request_type: StructuredOutputOptions,
        grammar_spec: str,
        stop_token_ids: set[int] | None = None,
    ) -> Grammar:
        """Return the state of a new request.

        Args:
            request_type: The kind of the constraint.
            grammar_spec: Its text, or a `Specification`, which has options.
            stop_token_ids: Further tokens that end this request; they are legal where it may end.

        Raises:
            ffwd.Error, ValueError: The constraint has a fault, or is not supported.
        """
        options = getattr(grammar_spec, "options", None)
        if not isinstance(options, Options):
            options = options_of(self.vllm_config.structured_outputs_config)
        grammar = self.grammars.get(request_type.name, grammar_spec, options)
        vocabulary = self.grammars.vocabulary
        stops = set(stop_token_ids or ()).difference(vocabulary.eos)
        usable = frozenset(token for token in stops if 0 <= token < vocabulary.logits_size)
        return Grammar(grammar.matcher(), usable)

    def allocate_token_bitmask(self, max_num_seqs: int) -> torch.Tensor:
        """Return int32 of shape (max_num_seqs, words), in which every token is legal."""
        words = self.grammars.vocabulary.bitmask_words
        return torch.full((max_num_seqs, words), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Forget the grammars."""
        del self.grammars


class Grammar(StructuredOutputGrammar):
    """The state of one request.

    It ends with an end token of the vocabulary or with one of `stops`, which are tokens of any kind
    that the request names. They are no text for this request: they are legal where it may end.
    """

    def __init__(self, matcher: ffwd.Matcher, stops: frozenset[int] = frozenset()) -> None:
        """Start at the beginning of the output."""
        self.matcher = matcher
        self.stops = stops
        self.width = matcher.vocabulary.logits_size
        self.stopped = False
        self.record = Record()

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Advance by tokens; those after the end are ignored. Returns False if one is not legal."""
        if len(tokens) == 1 and not self.stops and 0 <= tokens[0] < self.width:
            # The usual step, by a short path.
            if self.matcher.accept_token(tokens[0]) or self.is_terminated():
                return True
        usable = self._known(tokens)
        known = len(usable) == len(tokens) or tokens[len(usable)] < 0
        if self._advance(usable) and known or self.is_terminated():
            return True
        logger.error("Tokens %s of request %s are not legal.", tokens, request_id)
        return False

    def _known(self, tokens: list[int]) -> list[int]:
        """Return the tokens in front of the first that is padding or no id of the vocabulary."""
        width = self.width
        last = next((i for i, token in enumerate(tokens) if not 0 <= token < width), len(tokens))
        return tokens[:last]

    def _advance(self, tokens: list[int]) -> bool:
        matcher = self.matcher
        if not self.stops:
            return matcher.accept_tokens(tokens) == len(tokens)
        for token in tokens:
            if self.is_terminated():
                return True
            if token in self.stops:
                self.stopped = matcher.is_accepting()
                if not self.stopped:
                    return False
            elif not matcher.accept_token(token):
                return False
        return True

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the leading tokens that are legal one after the other, up to the end."""
        if self.is_terminated():
            return []
        tokens = self._known(tokens)
        first = next((i for i, t in enumerate(tokens) if t in self.stops), len(tokens))
        legal = self.matcher.validate_tokens(tokens[:first])
        if legal == first < len(tokens):
            fork = self.matcher.fork()
            fork.accept_tokens(tokens[:first])
            legal += fork.is_accepting() and not fork.is_terminated()
        return tokens[:legal]

    def rollback(self, num_tokens: int) -> None:
        """Remove the last tokens, an end token included."""
        if num_tokens <= 0:
            return
        if self.stopped:
            self.stopped = False
            num_tokens -= 1
        self.matcher.rollback(num_tokens)

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        """Write the legal tokens into a row of `bitmask`."""
        self.matcher.fill_next_token_bitmask(_view(bitmask), batch_index)
        if not self.stops:
            return
        row = bitmask[batch_index].numpy().view("uint32")
        accepting = self.matcher.is_accepting()
        for token in self.stops:
            bit = 1 << token % 32
            row[token // 32] = int(row[token // 32]) & ~bit | bit * accepting

    def is_terminated(self) -> bool:
        """Return whether an end token was accepted."""
        return self.stopped or self.matcher.is_terminated()

    def reset(self) -> None:
        """Return to the beginning of the output."""
        self.stopped = False
        self.matcher.reset()


@lru_cache(maxsize=2)
def _view(bitmask: torch.Tensor) -> Any:
    """Return the NumPy array of a bitmask, whose address takes less time to look up.

    vLLM fills the same tensor in each step.
    """
    return bitmask.numpy()


def request_grammar(request: Any) -> Grammar | None:
    """Return the state of a request of vLLM, if it has one of this backend that is ready."""
    structured = request.structured_output_request
    grammar = structured.grammar if structured is not None else None
    return grammar if isinstance(grammar, Grammar) else None

"""`LogitsProcessor`: only tokens that keep the output completable can be chosen.

Each row has a matcher. A call compares the row with the tokens that its matcher accepted: usually
one token is new. Beams that change rows, and drafts that are rejected, are found by the same
comparison, and the matcher is rolled back or forked.

# Cost

One bitmask a row, filled and applied in Rust on the CPU. Elsewhere the bitmask is copied to the
device and applied by a torch expression. The comparison is one of integers on the CPU, and moves
the ids there if they are elsewhere.

# Alternatives considered

`prefix_allowed_tokens_fn` of transformers takes lists of ids. It was rejected: such lists are as
long as the vocabulary where most tokens are legal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from .. import Grammar, Matcher, apply_token_bitmask_inplace, fill_batch


# The bits of a word, the last one as the sign.
_BITS = [1 << bit for bit in range(31)] + [-(1 << 31)]


class LogitsProcessor(transformers.LogitsProcessor):
    """Masks the logits of `generate`, for any number of rows.

    It serves greedy decoding, sampling, beam search, and all that `generate` does with drafts. It
    can be used for one generation after another, but not for two at a time. A row that ended can
    choose end tokens only.

    Args:
        grammar: The grammar of all rows, or one for each prompt of the batch.
        strict: Raise an error where a row has a token that is not legal. Pass False for beam search
            and for the drafts of `assistant_model` and `prompt_lookup_num_tokens`: both try tokens
            that are rejected later. Such a row can choose end tokens only.

    Raises:
        ValueError: There is no grammar, the grammars have different vocabularies, or their
            vocabulary has no end token.
    """

    def __init__(self, grammar: Grammar | Sequence[Grammar], *, strict: bool = True) -> None:
        self.grammars = [grammar] if isinstance(grammar, Grammar) else list(grammar)
        if not self.grammars:
            raise ValueError("there is no grammar")
        self.vocabulary = self.grammars[0].vocabulary
        if any(g.vocabulary is not self.vocabulary for g in self.grammars):
            raise ValueError("the grammars have different vocabularies")
        if not self.vocabulary.eos:
            raise ValueError("the vocabulary has no end token; pass eos= when it is made")
        self.strict = strict
        self._prompt: torch.Tensor | None = None
        self._rows: list[_Row] = []
        self._bitmask = torch.empty(0)
        self._ends = torch.zeros(self.vocabulary.bitmask_words, dtype=torch.int32)
        for token in self.vocabulary.eos:
            self._ends[token // 32] |= _BITS[token % 32]

    def reset(self) -> None:
        """Forget the generation; the next call begins a new one."""
        self._prompt = None
        self._rows = []

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return a copy of the scores in which tokens that are not legal are minus infinity.

        Args:
            input_ids: int64 of shape (rows, length): the prompts and what was generated.
            scores: Floating point numbers of shape (rows, logits_size).

        Raises:
            ValueError: A token of a row is not legal, and the processor is strict; the grammars do
                not divide the rows; or the scores have another width than the vocabulary.
        """
        width = self.vocabulary.logits_size
        if scores.shape[-1] != width:
            raise ValueError(
                f"the scores have {scores.shape[-1]} columns, the vocabulary has logits_size="
                f"{width}; make it with logits_size={scores.shape[-1]}"
            )
        matchers = self.follow(input_ids)
        fill_batch(matchers, self._bitmask)
        for number, row in enumerate(self._rows):
            if row.refused is not None:
                self._bitmask[number] = self._ends
        masked = scores.clone(memory_format=torch.contiguous_format)
        if masked.device.type == "cpu":
            apply_token_bitmask_inplace(masked, self._bitmask)
            return masked
        return apply_on_device(masked, self._bitmask)

    def follow(self, input_ids: torch.LongTensor) -> list[Matcher]:
        """Return the matcher of each row, after the tokens that the row has behind its prompt.

        Raises:
            ValueError: As in a call.
        """
        ids = input_ids.to("cpu")
        if not self._continues(ids):
            self._begin(ids)
        generated = ids[:, self._prompt.shape[1] :].tolist()
        by_tokens: dict[tuple[int, ...], _Row] | None = None
        before = self._rows
        rows = []
        for row, tokens in zip(before, generated, strict=True):
            if row.tokens != tokens[:-1] and row.tokens[: len(tokens)] != tokens:
                # Beams change rows: another row may have these tokens.
                if by_tokens is None:
                    by_tokens = {tuple(r.tokens): r.fork() for r in before}
                other = by_tokens.get(tuple(tokens[:-1]))
                row = other.fork() if other is not None else row
            rows.append(row)
        for number, (row, tokens) in enumerate(zip(rows, generated, strict=True)):
            row.follow(tokens)
            if row.refused is not None and self.strict:
                self.reset()
                raise ValueError(
                    f"token {row.refused} of row {number} is not legal: another processor or a forced "
                    "token chose it; for beam search and for drafts pass strict=False"
                )
        self._rows = rows
        return [row.matcher for row in rows]

    def _continues(self, ids: torch.Tensor) -> bool:
        """True if the ids belong to the generation that the last call saw."""
        prompt = self._prompt
        if prompt is None or len(prompt) != len(ids) or ids.shape[1] <= prompt.shape[1]:
            return False
        longer = ids.shape[1] - prompt.shape[1] - max(len(row.tokens) for row in self._rows)
        if longer > 1 and self.strict:
            return False
        return torch.equal(ids[:, : prompt.shape[1]], prompt)

    def _begin(self, ids: torch.Tensor) -> None:
        rows, count = len(ids), len(self.grammars)
        if rows % count:
            raise ValueError(f"{count} grammars for {rows} rows: pass one, or one for each prompt")
        self._prompt = ids.clone()
        self._rows = [_Row(self.grammars[i * count // rows].matcher()) for i in range(rows)]
        words = self.vocabulary.bitmask_words
        if self._bitmask.shape != (rows, words):
            self._bitmask = torch.full((rows, words), -1, dtype=torch.int32)


class _Row:
    """A matcher with the tokens of its row, those after the end included."""

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.tokens: list[int] = []
        # How many of them the matcher accepted: those after the end, or after a token that is not
        # legal, are not.
        self.accepted = 0
        # The first token that is not legal.
        self.refused: int | None = None

    def fork(self) -> _Row:
        row = _Row(self.matcher.fork())
        row.tokens, row.accepted, row.refused = list(self.tokens), self.accepted, self.refused
        return row

    def follow(self, tokens: list[int]) -> None:
        """Move to the state after `tokens`."""
        if tokens[:-1] == self.tokens:
            common = len(self.tokens)
        else:
            pairs = enumerate(zip(self.tokens, tokens))  # noqa: B905
            different = (i for i, (old, new) in pairs if old != new)
            common = next(different, min(len(self.tokens), len(tokens)))
        if self.accepted > common:
            self.matcher.rollback(self.accepted - common)
            self.accepted = common
        self.tokens, self.refused = tokens, None
        for token in tokens[self.accepted :]:
            if self.matcher.is_terminated():
                return
            if not self.matcher.accept_token(token):
                self.refused = token
                return
            self.accepted += 1


def apply_on_device(scores: torch.Tensor, bitmask: torch.Tensor) -> torch.Tensor:
    """Set the scores of tokens whose bit is not set to minus infinity, on the scores' device.

    Args:
        scores: Floating point numbers of shape (rows, width).
        bitmask: int32 of shape (rows, at least ceil(width / 32)), on any device.

    Returns:
        The scores, changed in place.
    """
    shifts = torch.arange(32, dtype=torch.int32, device=scores.device)
    bits = (bitmask.to(scores.device, non_blocking=True).unsqueeze(-1) >> shifts) & 1
    legal = bits.flatten(1)[:, : scores.shape[1]].bool()
    return scores.masked_fill_(~legal, float("-inf"))


def processor_of(logits_processor: Any) -> LogitsProcessor:
    """Return the one processor of this package in a list of processors.

    Raises:
        ValueError: There is none, or more than one.
    """
    found = [p for p in logits_processor or [] if isinstance(p, LogitsProcessor)]
    if len(found) != 1:
        raise ValueError(
            f"exact decoding needs one ffwd.hf.LogitsProcessor in logits_processor, not {len(found)}"
        )
    return found[0]

"""`LogitsProcessor`: only tokens that keep the output completable can be chosen.

Each row has a matcher. A call compares the row with the tokens that its matcher accepted: usually
one token is new. Beams that change rows, and drafts that are rejected, are found by the same
comparison, and the matcher is rolled back or forked.

# Cost

One bitmask a row, filled and applied in Rust on the CPU. Elsewhere the bitmask is copied to the
device once and applied there. The comparison is one of integers on the CPU, and moves the ids there if
they are elsewhere: it waits for the forward, unless `prefetch` began before it.

# Alternatives considered

`prefix_allowed_tokens_fn` of transformers takes lists of ids. It was rejected: such lists are as
long as the vocabulary where most tokens are legal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers

from .. import Grammar, Matcher, advance_batch, fill_batch
from .device_masks import DeviceBitmask
from .prefetch import Ahead, Prefetch

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

    Attributes:
        prefetch: Pass it in `stopping_criteria`, and the masks of a step are made while a device
            computes it. It ends no generation, and does nothing where the model is on the CPU.

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
        self.prefetch = Prefetch(self)
        self._ahead = Ahead()
        self._prompt: torch.Tensor | None = None
        # The ids that the rows have followed, on the CPU, and how many the last call had.
        self._ids = torch.empty(0, 0)
        self._called = 0
        self._rows: list[_Row] = []
        self._masks = DeviceBitmask(0, 0, torch.device("cpu"))
        self._ends = torch.zeros(self.vocabulary.bitmask_words, dtype=torch.int32)
        for token in self.vocabulary.eos:
            self._ends[token // 32] |= _BITS[token % 32]

    def reset(self) -> None:
        """Forget the generation; the next call begins a new one."""
        self._ahead.finish()
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
        self._check_width(scores)
        if not self._ahead.finish(input_ids):
            self._move(_on_cpu(input_ids), scores.device)
        self._called = input_ids.shape[1]
        self._check_tokens()
        return self._masks.mask(scores)

    def begin_masks(self, input_ids: torch.LongTensor) -> None:
        """Begin the masks behind these ids on another thread, if rows are one token longer than before.

        `prefetch` calls this. The next call with the same tensor finds the masks done.
        """
        self._ahead.finish()
        rows, length = self._ids.shape
        if self._rows and input_ids.shape == (rows, length + 1):
            device = self._masks.device
            self._ahead.begin(input_ids, lambda ids: self._move(ids, device))

    def follow(self, input_ids: torch.LongTensor, *, most: int = 1) -> list[Matcher]:
        """Return the matcher of each row, after the tokens that the row has behind its prompt.

        Args:
            most: By how many tokens rows can have grown since the last call. Longer ones are the
                prompts of a new generation, if the processor is strict.

        Raises:
            ValueError: As in a call.
        """
        if not self._ahead.finish(input_ids):
            self._follow(_on_cpu(input_ids), most)
        self._called = input_ids.shape[1]
        self._check_tokens()
        return [row.matcher for row in self._rows]

    def mask_draft(self, draft: list[int], scores: torch.Tensor) -> torch.Tensor:
        """Return a copy of the scores behind each drafted token, masked as in a call.

        The masks are made on the CPU before the device is asked for anything.

        Args:
            draft: Tokens that are legal one after the other, behind the ids of the last `follow`,
                which had one row.
            scores: Floating point numbers of shape (len(draft) + 1, logits_size).
        """
        self._check_width(scores)
        masks = self._masks_for(len(draft) + 1, scores.device)
        fill_batch([self._rows[0].matcher], masks.rows, drafts=[draft])
        return masks.mask(scores)

    def _check_width(self, scores: torch.Tensor) -> None:
        width = self.vocabulary.logits_size
        if scores.shape[-1] != width:
            raise ValueError(
                f"the scores have {scores.shape[-1]} columns, the vocabulary has logits_size="
                f"{width}; make it with logits_size={scores.shape[-1]}"
            )

    def _check_tokens(self) -> None:
        if not self.strict:
            return
        for number, row in enumerate(self._rows):
            if row.refused is not None:
                self.reset()
                raise ValueError(
                    f"token {row.refused} of row {number} is not legal: another processor or a forced "
                    "token chose it; for beam search and for drafts pass strict=False"
                )

    def _masks_for(self, rows: int, device: torch.device) -> DeviceBitmask:
        if len(self._masks.rows) < rows or self._masks.device != device:
            self._masks = DeviceBitmask(rows, self.vocabulary.bitmask_words, device)
        return self._masks

    def _move(self, ids: torch.Tensor, device: torch.device) -> None:
        """Follow ids on the CPU, and fill the bitmask that `device` will need."""
        bitmask = self._masks_for(len(ids), device).rows
        if self._grew(ids):
            matchers = [row.matcher for row in self._rows]
            tokens = ids[:, -1].tolist()
            accepted = advance_batch(matchers, tokens, bitmask)
            for row, token, done in zip(self._rows, tokens, accepted, strict=True):
                row.append(token, done)
            self._ids = ids
        else:
            self._follow(ids, 1)
            fill_batch([row.matcher for row in self._rows], bitmask)
        for number, row in enumerate(self._rows):
            if row.refused is not None:
                bitmask[number] = self._ends

    def _grew(self, ids: torch.Tensor) -> bool:
        """True if each row has one token more than before and is the same otherwise."""
        rows, length = self._ids.shape
        if not self._rows or ids.shape != (rows, length + 1):
            return False
        refused = any(row.refused is not None for row in self._rows)
        return not refused and torch.equal(ids[:, :-1], self._ids)

    def _follow(self, ids: torch.Tensor, most: int) -> None:
        if not self._continues(ids, most):
            self._start(ids)
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
        for row, tokens in zip(rows, generated, strict=True):
            row.follow(tokens)
        self._rows, self._ids = rows, ids

    def _continues(self, ids: torch.Tensor, most: int) -> bool:
        """True if the ids belong to the generation that the last call saw."""
        prompt = self._prompt
        if prompt is None or len(prompt) != len(ids) or ids.shape[1] <= prompt.shape[1]:
            return False
        if ids.shape[1] - self._called > most and self.strict:
            return False
        return torch.equal(ids[:, : prompt.shape[1]], prompt)

    def _start(self, ids: torch.Tensor) -> None:
        rows, count = len(ids), len(self.grammars)
        if rows % count:
            raise ValueError(f"{count} grammars for {rows} rows: pass one, or one for each prompt")
        self._prompt = ids
        self._rows = [_Row(self.grammars[i * count // rows].matcher()) for i in range(rows)]


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

    def append(self, token: int, accepted: bool) -> None:
        """Note that the matcher was asked for another token."""
        self.tokens.append(token)
        self.accepted += accepted
        if not accepted and not self.matcher.is_terminated():
            self.refused = token

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


def _on_cpu(ids: torch.Tensor) -> torch.Tensor:
    """A copy, because the caller may write into its own ids."""
    return ids.to("cpu", copy=True)


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

"""Constraints for llama-cpp-python: masks, and exact decoding in fewer forwards.

`ExactDecoding` takes the place of `Llama.generate` while its `with` block runs, so that all calls of
`Llama` go through it: completions, chats, streams.

    compiler = ffwd.Compiler(ffwd.llama_cpp.vocabulary(llm))
    grammar = compiler.compile(ffwd.Constraint.json_schema(schema))
    with ffwd.llama_cpp.ExactDecoding(llm, grammar):
        answer = llm.create_chat_completion(messages, temperature=0.0, max_tokens=200)

Each forward verifies a draft: the text that the grammar leaves no choice about, in the tokens of the
model, and then a copy of what follows the last tokens elsewhere in the text. The sampler chooses at
each position as it would without a draft. The first token that differs replaces the draft's, and the
cache is cut back.

# Cost

One forward of several positions in place of several forwards. A position that is rejected costs its
share of a forward. The samplers of a position see the legal tokens only.

# Alternatives considered

The package's own `draft_model` keeps the logits of the whole context, and shows processors of logits
tokens of the draft that are not chosen yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import llama_cpp
import numpy as np

from . import Grammar, Matcher, Vocabulary, allocate_token_bitmask, apply_token_bitmask_inplace
from .copies import Copies, CopyLength, Statistics

__all__ = ["ExactDecoding", "LogitsProcessor", "Statistics", "vocabulary"]

# Tokens of these kinds are never text.
_NO_TEXT = (
    llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
    | llama_cpp.LLAMA_TOKEN_ATTR_UNUSED
    | llama_cpp.LLAMA_TOKEN_ATTR_CONTROL
)


def vocabulary(llm: llama_cpp.Llama) -> Vocabulary:
    """Return the tokens of a model. Keep it, and the compiler made of it, as long as the model.

    Raises:
        ffwd.Error: The tokens do not serve, for example because none ends an answer.
    """
    vocab = llm._model.vocab
    tokens, special, ends = [], [], []
    for token in range(llm.n_vocab()):
        tokens.append(_bytes(vocab, token))
        if llama_cpp.llama_vocab_get_attr(vocab, token) & _NO_TEXT:
            special.append(token)
        if llama_cpp.llama_vocab_is_eog(vocab, token):
            ends.append(token)
    return Vocabulary.from_tokens(tokens, eos=ends, special=special)


def _bytes(vocab: Any, token: int) -> bytes:
    """Return a token as text; empty for control tokens."""
    room = 64
    while True:
        buffer = llama_cpp.ctypes.create_string_buffer(room)
        size = llama_cpp.llama_token_to_piece(vocab, token, buffer, room, 0, False)
        if size >= 0:
            return buffer.raw[:size]
        room = -size


class LogitsProcessor:
    """Masks the logits of one generation at a time, for `logits_processor=` of `Llama`.

    It serves programs that have processors of their own; `ExactDecoding` is faster.

    Raises:
        ValueError: On a call, if the tokens have one that is not legal.
    """

    def __init__(self, grammar: Grammar) -> None:
        self._matcher = grammar.matcher()
        self._bitmask = allocate_token_bitmask(1, self._matcher.vocabulary)
        self._seen: list[int] | None = None

    def reset(self) -> None:
        """Forget the generation; the next call begins a new one."""
        self._seen = None
        self._matcher.reset()

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return the logits with minus infinity where a token is not legal.

        Args:
            tokens: Ids of the prompt and the output. The first call has the prompt alone. Tokens that
                do not continue those of the last call begin a new generation.
            logits: float32 of shape (width,).
        """
        tokens = [int(token) for token in tokens]
        if self._seen is None or tokens[: len(self._seen)] != self._seen:
            self.reset()
        else:
            for token in tokens[len(self._seen) :]:
                if not self._matcher.accept_token(token):
                    raise ValueError(f"the engine took a token that is not legal: {token}")
        self._seen = tokens
        return _masked(self._matcher, self._bitmask, logits)


def _masked(matcher: Matcher, bitmask: Any, logits: Any) -> Any:
    # llama.cpp's logits are members of an array of structures.
    logits = np.ascontiguousarray(logits)
    if not matcher.is_terminated():
        matcher.fill_next_token_bitmask(bitmask)
        apply_token_bitmask_inplace(logits[np.newaxis], bitmask)
    return logits


class ExactDecoding:
    """Constrained generation with drafts, by all calls of a `Llama`.

    The output is that of masked decoding, greedy or sampled with the same seed, up to the rounding of
    forwards of one and of several positions. llama.cpp rounds differently for them, least of all with
    `Llama(..., flash_attn=True)`. Models whose cache cannot be cut back (recurrent and hybrid ones) are
    decoded without drafts.

    Args:
        llm: The model. One thread at a time uses it.
        grammar: Compiled for the vocabulary of the model.
        max_draft: Most tokens to verify in one forward; 0 decodes without drafts.
        copy: Draft copies of the prompt and of the text so far.

    Attributes:
        statistics: Those of the last generation.

    Raises:
        ValueError: `max_draft` is negative, or the grammar is for another vocabulary.
    """

    def __init__(
        self, llm: llama_cpp.Llama, grammar: Grammar, *, max_draft: int = 16, copy: bool = True
    ) -> None:
        if max_draft < 0:
            raise ValueError(f"max_draft is {max_draft}, and must not be negative")
        if len(grammar.vocabulary) != llm.n_vocab():
            raise ValueError(
                f"the grammar is for {len(grammar.vocabulary)} tokens, the model has "
                f"{llm.n_vocab()}; compile it for ffwd.llama_cpp.vocabulary(llm)"
            )
        model = llm._model.model
        whole = llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model)
        self.llm, self.grammar, self.copy = llm, grammar, copy
        self.max_draft = 0 if whole else min(max_draft, llm.n_batch - 1)
        self.statistics = Statistics()

    def __enter__(self) -> ExactDecoding:
        self.llm.generate = self.generate
        return self

    def __exit__(self, *_: Any) -> None:
        # The method of the class is seen again.
        del self.llm.generate

    def generate(
        self,
        tokens: Sequence[int],
        *,
        reset: bool = True,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        grammar: Any = None,
        **sampling: Any,
    ) -> Iterator[int]:
        """Yield tokens up to an end token, inclusive; `Llama` calls this in its own method's place.

        Args:
            tokens: Ids of the prompt. What the cache holds of them is not read again.
            reset: As in `Llama.generate`; must be true.
            logits_processor: Further processors; they see the masked logits.
            stopping_criteria: As in `Llama.generate`.
            grammar: Must be None: the grammar is that of this object.
            sampling: The sampling parameters of `Llama.generate`.

        Raises:
            ValueError: There is a grammar, no token, or `reset` is false.
            RuntimeError: The context is full.
        """
        if grammar is not None or not reset or not len(tokens):
            raise ValueError("exact decoding takes a prompt, no other grammar, and begins anew")
        run = _Run(self, [int(token) for token in tokens], logits_processor or [], sampling)
        while not run.matcher.is_terminated():
            before = len(run.text)
            row = run.step()
            for end in range(before, len(run.text)):
                # What is shown is the text without the token, as in `Llama.generate`.
                if stopping_criteria is not None and stopping_criteria(
                    np.array(run.text[:end], dtype=np.intc), run.logits(row + end - before)
                ):
                    return
                yield run.text[end]


class _Run:
    """One generation."""

    def __init__(
        self, settings: ExactDecoding, prompt: list[int], processors: Any, sampling: dict[str, Any]
    ) -> None:
        self.settings, self.llm = settings, settings.llm
        self.matcher = settings.grammar.matcher()
        self.bitmask = allocate_token_bitmask(1, self.matcher.vocabulary)
        self.processors = processors
        self.sampler = self.llm._init_sampler(logits_processor=[self._process], **sampling)
        self.text, self.prompt_length = prompt, len(prompt)
        self.copies, self.copy_length = Copies(), CopyLength(settings.max_draft)
        self.forced = 0
        # These tokenizers put a space before a text, but not behind a line break.
        kind = llama_cpp.llama_vocab_type(self.llm._model.vocab)
        self.space_first = kind == llama_cpp.LLAMA_VOCAB_TYPE_SPM
        settings.statistics = self.statistics = Statistics()
        # The cache keeps what it holds of the prompt, but the last token is read for its logits.
        same = 0
        for old, new in zip(self.llm._input_ids, prompt[:-1], strict=False):
            if old != new:
                break
            same += 1
        if not self.llm._ctx.kv_cache_seq_rm(-1, same, -1):
            self.llm._ctx.kv_cache_clear()
            same = 0
        self.llm.n_tokens = same

    def step(self) -> int:
        """Run the model once and append what is chosen to the text.

        Returns:
            The place in the last batch of the position that chose the first of the tokens.
        """
        draft = self._draft()
        row = self._forward(self.text[self.llm.n_tokens :] + draft, len(draft) + 1)
        for position in range(len(draft) + 1):
            token = self.sampler.sample(self.llm._ctx, row + position)
            if not self.matcher.accept_token(token):
                raise ValueError(f"the sampler chose a token that is not legal: {token}")
            self.text.append(token)
            if self.matcher.is_terminated() or position == len(draft) or token != draft[position]:
                break
        # The token that was chosen last is not in the cache. The next forward cuts what is behind.
        self.llm.n_tokens = len(self.text) - 1
        if position >= self.forced:
            self.copy_length.learn(len(draft) - self.forced, position - self.forced)
        self.statistics.tokens += position + 1
        self.statistics.drafted += len(draft)
        self.statistics.accepted += position
        return row

    def logits(self, place: int) -> Any:
        """Return the logits of a position of the last batch, float32 of shape (width,)."""
        return np.ctypeslib.as_array(self.llm._ctx.get_logits_ith(place), (self.llm.n_vocab(),))

    def _process(self, _: Any, logits: Any) -> Any:
        logits = _masked(self.matcher, self.bitmask, logits)
        for processor in self.processors:
            logits = processor(np.array(self.text, dtype=np.intc), logits)
        return logits

    def _draft(self) -> list[int]:
        """Return legal tokens to verify: forced ones, then a copy."""
        limit = min(self.settings.max_draft, self.llm.n_ctx() - len(self.text) - 1)
        self.forced = 0
        # No draft with the prompt: llama.cpp computes long batches otherwise than short ones.
        if limit < 1 or len(self.text) > self.llm.n_tokens + 1:
            return []
        draft = self._forced()[:limit]
        draft = draft[: self.matcher.validate_tokens(draft)]
        self.forced = len(draft)
        if self.settings.copy and len(draft) < limit:
            self.copies.extend(self.text[len(self.copies) :])
            draft += self.copies.find(draft, min(limit - len(draft), self.copy_length.length))
            draft = draft[: self.matcher.validate_tokens(draft)]
        return draft

    def _forced(self) -> list[int]:
        """Return the forced text in the tokens of the model, behind the last token."""
        run = self.matcher.forced_bytes()
        if not run:
            return []
        # The prompt's last token is no part of the output: nothing of the output joins it.
        if len(self.text) > self.prompt_length:
            last = self.text[-1]
            tokens = self._tokenize(_bytes(self.llm._model.vocab, last) + run)
            if tokens and tokens[0] == last:
                return tokens[1:]
        return self._tokenize(run)

    def _tokenize(self, text: bytes) -> list[int]:
        if self.space_first:
            start = self.llm.tokenize(b"\n", add_bos=False)
            return self.llm.tokenize(b"\n" + text, add_bos=False)[len(start) :]
        return self.llm.tokenize(text, add_bos=False)

    def _forward(self, tokens: list[int], rows: int) -> int:
        """Append tokens to the cache, with logits for the last `rows` of them.

        Returns:
            The place in the last batch of the first of those rows.
        """
        llm = self.llm
        if llm.n_tokens + len(tokens) > llm.n_ctx():
            raise RuntimeError(f"the context is full: n_ctx is {llm.n_ctx()}")
        at = 0
        while at < len(tokens):
            left = len(tokens) - at
            size = left if left <= llm.n_batch else min(llm.n_batch, left - rows)
            part = tokens[at : at + size]
            at += size
            self.statistics.forwards += 1
            if llm._logits_all:
                llm.eval(part)
                continue
            llm._ctx.kv_cache_seq_rm(-1, llm.n_tokens, -1)
            llm._batch.set_batch(batch=part, n_past=llm.n_tokens, logits_all=False)
            for i in range(size):
                llm._batch.batch.logits[i] = at - size + i >= len(tokens) - rows
            llm._ctx.decode(llm._batch)
            llm.input_ids[llm.n_tokens : llm.n_tokens + size] = part
            llm.n_tokens += size
            llm._requires_eval = False
        return len(part) - rows

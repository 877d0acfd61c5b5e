"""The contract of SGLang's grammar backends over this engine."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from sglang.srt.constrained.base_grammar_backend import (
    BaseGrammarBackend,
    BaseGrammarObject,
    GrammarRow,
    GrammarStats,
    InvalidGrammarObject,
)
from sglang.srt.runtime_context import get_serving
from sglang.srt.utils.common import is_pin_memory_available

import ffwd

from ..grammars import Options, constraint_of, message_of, whitespace_of_pattern
from .cache import Cache

logger = logging.getLogger("sglang.ffwd")

# The text of a schema that permits any JSON value, in SGLang's requests.
_ANY_JSON = "$$ANY$$"
_KINDS = {"json": "JSON", "regex": "REGEX", "ebnf": "GRAMMAR", "structural_tag": "STRUCTURAL_TAG"}


def make(tokenizer: Any, width: int, eos: Iterable[int] | None) -> BaseGrammarBackend:
    """Return the backend of a scheduler, which lets a model reason if the server has a parser for it.

    Args:
        tokenizer: SGLang's tokenizer.
        width: Number of the model's logits; the tokenizer may have fewer tokens, or more.
        eos: The end tokens of the model.

    Raises:
        ValueError: The tokenizer cannot be used, or an option of the server cannot be honoured.
    """
    from .reasoning import reasoning_backend

    backend = Backend(vocabulary_of(tokenizer, width, eos), options_of(get_serving()))
    return reasoning_backend(backend, tokenizer)


def vocabulary_of(tokenizer: Any, width: int, eos: Iterable[int] | None) -> ffwd.Vocabulary:
    """Return the vocabulary of a tokenizer. Its end tokens are all with which SGLang ends a request.

    Raises:
        ValueError: The tokenizer cannot be used.
    """
    more = getattr(tokenizer, "additional_stop_token_ids", None)
    found = [tokenizer.eos_token_id, *sorted(eos or ()), *sorted(more or ())]
    ends = list(dict.fromkeys(token for token in found if token is not None))
    width = max(width, len(tokenizer))
    try:
        return ffwd.Vocabulary.from_transformers(tokenizer, logits_size=width, eos=ends)
    except (ffwd.Error, TypeError) as error:
        name = type(tokenizer).__name__
        raise ValueError(
            f"--grammar-backend ffwd cannot use the tokenizer {name}: {error}"
        ) from error


def options_of(serving: Any) -> Options:
    """Return how JSON texts are written, from the `--constrained-json-*` options of the server.

    Raises:
        ValueError: They cannot be honoured.
    """
    compact = serving.constrained_json_disable_any_whitespace
    pattern = serving.constrained_json_whitespace_pattern
    most = serving.constrained_json_max_whitespace_cnt
    if pattern is not None:
        return Options(whitespace_of_pattern(pattern, compact))
    if most and not compact:
        return Options(min(most, 64))
    return Options()


class Backend(BaseGrammarBackend):
    """The backend `ffwd`: one for each scheduler. Its threads compile."""

    def __init__(self, vocabulary: ffwd.Vocabulary, options: Options) -> None:
        """Prepare the vocabulary."""
        super().__init__()
        self.cache = Cache()
        self.vocabulary = vocabulary
        self._options = options
        self._compiler = ffwd.Compiler(vocabulary)
        self._compiler.warm_up()

    def dispatch_json(self, key_string: str) -> BaseGrammarObject:
        """Return the state of requests with a JSON Schema."""
        return self._compile("json", "true" if key_string == _ANY_JSON else key_string)

    def dispatch_regex(self, key_string: str) -> BaseGrammarObject:
        """Return the state of requests with a regular expression."""
        return self._compile("regex", key_string)

    def dispatch_ebnf(self, key_string: str) -> BaseGrammarObject:
        """Return the state of requests with a grammar."""
        return self._compile("ebnf", key_string)

    def dispatch_structural_tag(self, key_string: str) -> BaseGrammarObject:
        """Return the state of requests with a structural tag, in either form."""
        return self._compile("structural_tag", _with_schemas(key_string))

    def _compile(self, kind: str, text: str) -> BaseGrammarObject:
        """Compile a constraint. SGLang ends the requests of an `InvalidGrammarObject`, no others."""
        try:
            compiled = self._compiler.compile(constraint_of(_KINDS[kind], text, self._options))
        except (ffwd.Error, ValueError, TypeError, RecursionError) as error:
            logger.warning("A constraint of the kind %s is refused: %s", kind, message_of(error))
            return InvalidGrammarObject(message_of(error))
        return Grammar(compiled, GrammarStats(dispatch_type=kind))

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """Return a bitmask in which every token is legal, for requests without a constraint."""
        return _allocate(self.vocabulary, batch_size)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """Return the bitmask on the device of the logits."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set the logits of tokens that are not legal to minus infinity."""
        apply_bitmask(logits, vocab_mask)

    @property
    def is_support_token_filter(self) -> bool:
        """True: strict thinking can forbid tokens."""
        return True

    def set_token_filter(
        self,
        vocab_mask: torch.Tensor,
        token_ids: Sequence[int],
        batch_idx: int,
        is_allowed: bool = True,
        reset_vocab_mask: bool = True,
    ) -> None:
        """Permit or forbid tokens in a row of a bitmask."""
        from sglang.srt.constrained.torch_ops.token_filter_torch_ops import set_token_filter_torch

        set_token_filter_torch(vocab_mask, list(token_ids), batch_idx, is_allowed, reset_vocab_mask)


class Grammar(BaseGrammarObject):
    """The state of one request, and in SGLang's cache the beginning of those with its constraint."""

    def __init__(self, compiled: ffwd.Grammar, stats: GrammarStats | None = None) -> None:
        """Start at the beginning of the output."""
        super().__init__()
        self.compiled = compiled
        self.grammar_stats = stats
        self.matcher = compiled.matcher()

    def accept_token(self, token: int) -> None:
        """Advance by a token; after the end it is ignored.

        Raises:
            ValueError: The token is not legal.
        """
        if self.matcher.is_terminated():
            return
        self.current_token = token
        if not 0 <= token < self.matcher.vocabulary.logits_size:
            raise ValueError(f"token {token} is not in the vocabulary")
        if not self.matcher.accept_token(token):
            raise ValueError(f"token {token} is not legal: {self.matcher.explain(token)}")

    def rollback(self, k: int) -> None:
        """Remove the last tokens, an end token included."""
        if k > 0:
            self.matcher.rollback(k)

    def constrained(self) -> Grammar | None:
        """Return the state that alone determines the next row: this one."""
        return self

    def is_terminated(self) -> bool:
        """Return whether an end token was accepted."""
        return self.matcher.is_terminated()

    def allocate_vocab_mask(self, vocab_size: int, batch_size: int, device: Any) -> torch.Tensor:
        """Return int32 of shape (batch_size, words), in which every token is legal."""
        return _allocate(self.matcher.vocabulary, batch_size)

    def fill_vocab_mask(self, vocab_mask: torch.Tensor, idx: int) -> None:
        """Write the legal tokens into a row of a bitmask."""
        self.matcher.fill_next_token_bitmask(vocab_mask, idx)

    @staticmethod
    def fill_vocab_mask_batched(entries: list[GrammarRow], vocab_mask: torch.Tensor) -> None:
        """Write the legal tokens of many requests in one call, on several threads."""
        fill_rows(entries, vocab_mask)

    @staticmethod
    def reset_vocab_mask(vocab_mask: torch.Tensor) -> None:
        """Make every token legal."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: torch.Tensor, device: Any) -> torch.Tensor:
        """Return the bitmask on the device of the logits."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(logits: torch.Tensor, vocab_mask: torch.Tensor) -> None:
        """Set the logits of tokens that are not legal to minus infinity."""
        apply_bitmask(logits, vocab_mask)

    def copy(self) -> Grammar:
        """Return the beginning of another request with this constraint."""
        stats = self.grammar_stats
        if stats is not None:
            stats = dataclasses.replace(stats, is_cache_hit=True, tree_traversal_time=[])
        return Grammar(self.compiled, stats)


def fill_rows(entries: Iterable[GrammarRow], bitmask: torch.Tensor) -> None:
    """Write the legal tokens of requests into their rows of a bitmask: in one call, but for those
    that reason.
    """
    matchers, rows = [], []
    for row, state in entries:
        constrained = state.constrained()
        if constrained is None:
            state.fill_vocab_mask(bitmask, row)
        else:
            matchers.append(constrained.matcher)
            rows.append(row)
    if matchers:
        ffwd.fill_batch(matchers, bitmask, rows)


def apply_bitmask(logits: torch.Tensor, bitmask: torch.Tensor) -> None:
    """Set the logits of tokens that are not legal to minus infinity, on the device of the logits."""
    device = logits.device.type
    if device == "cpu":
        ffwd.apply_token_bitmask_inplace(logits, bitmask)
    elif device in ("cuda", "xpu", "musa") and torch.version.hip is None:
        from sglang.kernels.ops.grammar.bitmask_ops import apply_token_bitmask_inplace_triton

        apply_token_bitmask_inplace_triton(logits, bitmask)
    else:
        from ..hf.device_masks import apply_on_device

        apply_on_device(logits, bitmask)


def _allocate(vocabulary: ffwd.Vocabulary, rows: int) -> torch.Tensor:
    # Pinned memory can be copied to a GPU without waiting.
    return torch.full(
        (rows, vocabulary.bitmask_words), -1, dtype=torch.int32, pin_memory=is_pin_memory_available()
    )


def _with_schemas(text: str) -> str:
    """Return a structural tag in which schemas that a request leaves null permit any value."""
    try:
        tag = json.loads(text)
    except (ValueError, RecursionError):
        return text
    _fill_schemas(tag)
    return json.dumps(tag, ensure_ascii=False)


def _fill_schemas(part: Any) -> None:
    if isinstance(part, dict):
        typed = part.get("type") in ("json_schema", "qwen_xml_parameter")
        for name in ("json_schema",) if typed else ("schema",) if "begin" in part else ():
            if part.get(name) is None and (typed or "content" not in part):
                part[name] = {}
        children: Iterable[Any] = [
            child for name, child in part.items() if name not in ("json_schema", "schema")
        ]
    else:
        children = part if isinstance(part, list) else ()
    for child in children:
        _fill_schemas(child)

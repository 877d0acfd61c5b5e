"""`LLMatcher` with the error states of llguidance, and `LLExecutor`."""

from __future__ import annotations

import ctypes
from typing import Any

import ffwd

from .._arrays import refuse
from ._grammar import (
    grammar_from_json_schema,
    grammar_from_lark,
    grammar_from_regex,
    parsed,
)
from ._tokenizer import LLTokenizer

_LIMITS = {
    "max_items_in_row": 2_000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 250_000,
    "max_grammar_size": 500_000,
    "precompute_large_lexemes": True,
    "verbose_errors": True,
}
# Value of a legal token in `compute_logit_bias`.
_LEGAL = 200


class LLParserLimits:
    """Limits of llguidance's parser. They are kept, and have no effect: the engine has its own."""

    def __init__(self, **limits: Any) -> None:
        unknown = sorted(set(limits) - set(_LIMITS))
        if unknown:
            raise TypeError(f"LLParserLimits has no argument {unknown[0]!r}")
        for name, default in _LIMITS.items():
            value = limits.get(name)
            setattr(self, name, default if value is None else value)


class LLMatcher:
    """The state of one generation. Nothing but a wrong use of the interface raises.

    Args:
        tokenizer: The tokenizer.
        grammar: A text of Lark, or the text of `grammar_from` and its like.
        log_level: Has no effect.
        limits: Has no effect.
    """

    grammar_from_json_schema = staticmethod(grammar_from_json_schema)
    grammar_from_lark = staticmethod(grammar_from_lark)
    grammar_from_regex = staticmethod(grammar_from_regex)

    def __init__(
        self,
        tokenizer: LLTokenizer,
        grammar: str,
        *,
        log_level: int = 1,
        limits: LLParserLimits | None = None,
    ) -> None:
        del log_level, limits
        if not isinstance(tokenizer, LLTokenizer):
            raise TypeError(f"the tokenizer is a {type(tokenizer).__name__}, expected LLTokenizer")
        self._tokenizer = tokenizer
        self._error = ""
        self._failed = ""
        self._warnings: list[str] = []
        self._matcher: ffwd.Matcher | None = None
        try:
            read = parsed(grammar)
            compiled = tokenizer.compiler_with(read.markers).compile(read.constraint)
        except ffwd.Error as error:
            self._fail(str(error), "InternalError")
        else:
            self._warnings = [str(warning) for warning in compiled.warnings]
            self._matcher = compiled.matcher()

    def _fail(self, message: str, reason: str = "InternalError") -> bool:
        if not self._error:
            self._error, self._failed = message, reason
        return False

    @staticmethod
    def validate_grammar(
        grammar: str,
        tokenizer: LLTokenizer | None = None,
        *,
        limits: LLParserLimits | None = None,
    ) -> str:
        """Return the error of a grammar; empty if it has none."""
        is_error, messages = LLMatcher.validate_grammar_with_warnings(
            grammar, tokenizer, limits=limits
        )
        return messages[0] if is_error else ""

    @staticmethod
    def validate_grammar_with_warnings(
        grammar: str,
        tokenizer: LLTokenizer | None = None,
        *,
        limits: LLParserLimits | None = None,
    ) -> tuple[bool, list[str]]:
        """Return whether a grammar has an error, and that error or its warnings."""
        del limits
        try:
            read = parsed(grammar)
            warnings = read.constraint.warnings
            if tokenizer is not None:
                warnings = tokenizer.compiler_with(read.markers).compile(read.constraint).warnings
        except ffwd.Error as error:
            return True, [str(error)]
        return False, [str(warning) for warning in warnings]

    def is_error(self) -> bool:
        """True after an error. It stays."""
        return bool(self._error)

    def get_error(self) -> str:
        """Return the first error; empty if there was none."""
        return self._error

    def get_grammar_warnings(self) -> list[str]:
        """Return the warnings of the grammar."""
        return list(self._warnings)

    def deep_copy(self) -> LLMatcher:
        """Return an independent copy."""
        other = LLMatcher.__new__(LLMatcher)
        other.__dict__.update(self.__dict__)
        other._matcher = self._matcher and self._matcher.fork()
        return other

    def is_accepting(self) -> bool:
        """True if the output may end here."""
        if self._error or self._matcher is None:
            return False
        return self._matcher.is_accepting() or self._matcher.is_terminated()

    def is_stopped(self) -> bool:
        """True if nothing but an end token may follow, and after an error."""
        if self._error or self._matcher is None:
            return True
        return self._matcher.must_end() or self._matcher.is_terminated()

    def stop_reason(self) -> str:
        """Return why the matcher stopped; `"NotStopped"` if it did not."""
        if self._error or self._matcher is None:
            return self._failed
        if self._matcher.is_terminated():
            return "EndOfSentence"
        return "NoExtension" if self._matcher.must_end() else "NotStopped"

    def rollback(self, num_tokens: int) -> bool:
        """Take back tokens. Fewer accepted ones are an error."""
        if self._error or self._matcher is None:
            return False
        try:
            self._matcher.rollback(num_tokens)
        except (ValueError, OverflowError) as error:
            return self._fail(str(error))
        return True

    def reset(self) -> bool:
        """Return to the start."""
        if self._error or self._matcher is None:
            return False
        self._matcher.reset()
        return True

    def compute_ff_tokens(self) -> list[int]:
        """Return the tokens that have no alternative."""
        if self._error or self._matcher is None:
            return []
        return self._matcher.forced_tokens()

    def compute_ff_bytes(self) -> bytes:
        """Return the bytes that have no alternative."""
        if self._error or self._matcher is None:
            return b""
        return self._matcher.forced_bytes()

    def _checked(self, tokens: list[int]) -> bool:
        """True if there is no error and all ids are in range. An id out of range is an error."""
        if self._error or self._matcher is None:
            return False
        width = self._tokenizer.vocab_size
        for token in tokens:
            if not isinstance(token, int):
                raise TypeError(f"token {token!r} is not an int")
            if not 0 <= token < width:
                return self._fail(f"token id {token} out of range, the vocabulary has {width}")
        return True

    def try_consume_tokens(self, tokens: list[int]) -> int:
        """Advance by the leading tokens that are legal. Return their number."""
        return self._matcher.accept_tokens(tokens) if self._checked(tokens) else 0  # type: ignore

    def consume_token(self, sampled_token: int) -> bool:
        """Advance by a token. One that is not legal is an error."""
        return self.consume_tokens([sampled_token])

    def consume_tokens(self, sampled_tokens: list[int]) -> bool:
        """Advance by tokens. One that is not legal is an error."""
        if not self._checked(sampled_tokens):
            return False
        matcher = self._matcher
        assert matcher is not None
        accepted = matcher.accept_tokens(sampled_tokens)
        if accepted == len(sampled_tokens):
            return True
        token = sampled_tokens[accepted]
        why = matcher.explain(token).reason
        shown = self._tokenizer.dbg_tokens([token])
        return self._fail(f"token {shown} ({token}) doesn't satisfy the grammar: {why}")

    def validate_tokens(self, tokens: list[int]) -> int:
        """Return how many of the leading tokens are legal. The state does not change."""
        if not self._checked(tokens):
            return 0
        assert self._matcher is not None
        return self._matcher.validate_tokens(tokens)

    def _fill(self, row: memoryview) -> None:
        """Write the legal tokens into a row; after an error only the end tokens."""
        if self._matcher is not None and not self._error:
            return self._matcher.fill_next_token_bitmask(row)
        for word in range(row.shape[-1]):
            row[word] = 0
        for token in self._tokenizer.eos_tokens:
            word = row[token // 32] & 0xFFFF_FFFF | 1 << token % 32
            row[token // 32] = word - (1 << 32) if word >> 31 else word
        return None

    def compute_bitmask(self) -> bytes:
        """Return the bitmask of the legal tokens: little-endian words of 32 bits."""
        row = memoryview(bytearray(4 * (-(-self._tokenizer.vocab_size // 32)))).cast("i")
        self._fill(row)
        return row.tobytes()

    def compute_logit_bias(self) -> bytes:
        """Return a byte for each token: 200 if it is legal, otherwise 0."""
        mask = int.from_bytes(self.compute_bitmask(), "little")
        bits = f"{mask:b}".encode()[::-1].ljust(self._tokenizer.vocab_size, b"0")
        return bits[: self._tokenizer.vocab_size].translate(_BIAS)

    def unsafe_compute_mask_ptr(self, trg_pointer: int, trg_byte_size: int) -> None:
        """Write the bitmask to an address.

        Raises:
            ValueError: The address is null or not aligned, or the size is not that of a bitmask.
        """
        self._fill(_rows(trg_pointer, trg_byte_size, 1, self._tokenizer.vocab_size)[0])

    def get_capture(self, name: str) -> bytes | None:
        """Return None: grammars with captures are refused."""
        del name

    def get_captures(self) -> list[tuple[str, bytes]]:
        """Return nothing: grammars with captures are refused."""
        return []


_BIAS = bytes(_LEGAL if byte == ord("1") else 0 for byte in range(256))


def _rows(pointer: int, row_bytes: int, rows: int, width: int) -> list[memoryview]:
    """The rows of a bitmask at an address."""
    words = -(-width // 32)
    if pointer == 0:
        raise ValueError("Null pointer")
    if pointer % 4:
        raise ValueError("Pointer not aligned")
    if row_bytes % 4 or row_bytes < 4 * words:
        raise ValueError(f"Invalid buffer size: {row_bytes} bytes for {words} words")
    one = ctypes.c_int32 * (row_bytes // 4)
    starts = range(pointer, pointer + rows * row_bytes, row_bytes)
    return [memoryview(one.from_address(start)).cast("B").cast("i") for start in starts]


class LLExecutor:
    """Fills the bitmasks of many matchers in one call.

    Args:
        num_threads: Has no effect: large batches use the threads of `ffwd.fill_batch`.
    """

    def __init__(self, num_threads: int | None = None) -> None:
        del num_threads

    def unsafe_compute_mask_ptr(
        self,
        interpreters: list[tuple[LLMatcher, int]],
        trg_pointer: int,
        one_mask_bytes: int,
        trg_batch_size: int,
    ) -> None:
        """Write the bitmask of each matcher to its row at an address.

        Raises:
            ValueError: An address, a size or a row is wrong.
            RuntimeError: A matcher occurs twice.
            TypeError: An entry is no pair of matcher and row.
        """
        drafted = [(*_entry(entry, 2), []) for entry in interpreters]
        self._fill(drafted, trg_pointer, one_mask_bytes, trg_batch_size)

    def unsafe_compute_mask_ptr_with_draft_token(
        self,
        interpreters: list[tuple[LLMatcher, int, list[int]]],
        trg_pointer: int,
        one_mask_bytes: int,
        trg_batch_size: int,
    ) -> None:
        """Write the bitmasks of each matcher and of the states after its drafted tokens.

        Row `first + 1 + i` is that after token `i`. Rows after a token that is not legal are not
        changed.
        """
        drafted = [_entry(entry, 3) for entry in interpreters]
        self._fill(drafted, trg_pointer, one_mask_bytes, trg_batch_size)

    def _fill(self, entries: list[Any], pointer: int, row_bytes: int, rows: int) -> None:
        if not entries:
            raise ValueError("No matchers")
        _different([entry[0] for entry in entries])
        for _, first, draft in entries:
            if not 0 <= first <= rows - 1 - len(draft):
                raise ValueError(f"Target index out of bounds: {first} with {len(draft)} drafted")
        width = entries[0][0]._tokenizer.vocab_size
        targets = _rows(pointer, row_bytes, rows, width)
        # Without drafts one call fills all rows.
        plain = [e for e in entries if not e[2] and not e[0]._error and e[0]._matcher is not None]
        if plain:
            flat = (ctypes.c_int32 * (rows * row_bytes // 4)).from_address(pointer)
            whole = memoryview(flat).cast("B").cast("i", (rows, row_bytes // 4))
            ffwd.fill_batch([m._matcher for m, _, _ in plain], whole, [row for _, row, _ in plain])
        for matcher, first, draft in entries:
            if draft or matcher._error or matcher._matcher is None:
                self._chain(matcher, first, draft, targets)

    def _chain(self, llm: LLMatcher, first: int, draft: list[int], rows: list[memoryview]) -> None:
        llm._fill(rows[first])
        if llm._error or llm._matcher is None:
            return
        accepted = 0
        width = llm._tokenizer.vocab_size
        for token in draft:
            if not 0 <= token < width or not llm._matcher.accept_token(token):
                break
            accepted += 1
            llm._fill(rows[first + accepted])
        llm._matcher.rollback(accepted)

    def consume_token_par(self, matchers: list[tuple[LLMatcher, int]]) -> list[bool]:
        """Advance each matcher by its token; see `LLMatcher.consume_token`.

        Raises:
            ValueError: There are no matchers, or an entry is no pair.
            RuntimeError: A matcher occurs twice.
        """
        if not matchers:
            raise ValueError("No matchers")
        pairs = [_entry(entry, 2) for entry in matchers]
        _different([matcher for matcher, _ in pairs])
        return [matcher.consume_token(token) for matcher, token in pairs]


def _entry(entry: Any, parts: int) -> Any:
    if not isinstance(entry, tuple):
        raise TypeError(f"'{type(entry).__name__}' object is not an instance of 'tuple'")
    if len(entry) != parts:
        raise ValueError(f"Expecting a tuple of {parts}, got {len(entry)}")
    if not isinstance(entry[0], LLMatcher):
        raise TypeError(f"'{type(entry[0]).__name__}' object is not an instance of 'LLMatcher'")
    if not isinstance(entry[1], int):
        raise TypeError(f"'{type(entry[1]).__name__}' object is not an instance of 'int'")
    return entry


def _different(matchers: list[LLMatcher]) -> None:
    if len({id(matcher) for matcher in matchers}) != len(matchers):
        raise RuntimeError("Already borrowed: a matcher occurs twice")


class LLInterpreter:
    """The older interface of llguidance, which is refused."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        raise refuse("LLInterpreter", "is not there", "use LLMatcher")

"""`LLTokenizer`: a tokenizer as llguidance describes it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import ffwd

from .._arrays import refuse

# The tokenizer "byte": each byte is the token of its number, and one more ends the output.
_BYTES = 256
# In bytes to be tokenised, 0xff introduces a special token: its number in brackets, or its name.
_MARKER = re.compile(rb"\xff(?:\[(\d+)\]|(<[^<>\xff]*>))")


class TokenizerWrapper:
    """A tokenizer that is a Python object with `eos_token_id`, `bos_token_id` and `tokens`.

    Args:
        gtokenizer: The object. It is called with a text, or with bytes, and returns ids.
    """

    def __init__(self, gtokenizer: Any) -> None:
        self.eos_token_id = gtokenizer.eos_token_id
        self.bos_token_id = gtokenizer.bos_token_id
        self.tokens = gtokenizer.tokens
        self.special_token_ids = getattr(gtokenizer, "special_token_ids", [])
        self.is_tokenizer_wrapper = True
        self._gtokenizer = gtokenizer
        try:
            gtokenizer(b"test")
            self._accepts_bytes = True
        except Exception:  # noqa: BLE001, whatever the object raises
            self._accepts_bytes = False

    def __call__(self, text: str) -> list[int]:
        return self._gtokenizer(text.encode() if self._accepts_bytes else text)


class LLTokenizer:
    """A tokenizer.

    Args:
        tokenizer: "byte", a path of a `tokenizer.json` or of its folder, the text of one, or a
            `TokenizerWrapper`.
        n_vocab: Width of the model's logits, if it is wider than the vocabulary.
        eos_token: Id or ids that end the output, instead of those of the tokenizer.
        slices: Has no effect.

    Raises:
        ffwd.Error: The tokenizer cannot be used, or is to be fetched from a hub.
    """

    def __init__(
        self,
        tokenizer: Any,
        n_vocab: int | None = None,
        eos_token: int | list[int] | None = None,
        slices: list[str] | None = None,
    ) -> None:
        del slices
        self._call: Any = None
        self._special: dict[int, bytes] = {}
        if isinstance(tokenizer, str):
            vocabulary = _of_text(tokenizer, n_vocab, eos_token)
        elif isinstance(tokenizer, ffwd.Vocabulary):
            vocabulary = tokenizer
        elif getattr(tokenizer, "is_tokenizer_wrapper", False) or hasattr(tokenizer, "tokens"):
            vocabulary = self._of_wrapper(tokenizer, n_vocab, eos_token)
        else:
            raise refuse("tokenizer", f"is a {type(tokenizer).__name__}", "wrap it")
        self._set(vocabulary)

    def _of_wrapper(self, wrapper: Any, n_vocab: Any, eos_token: Any) -> ffwd.Vocabulary:
        tokens = [bytes(token) for token in wrapper.tokens]
        special = set(getattr(wrapper, "special_token_ids", ()))
        eos = wrapper.eos_token_id if eos_token is None else eos_token
        # Special tokens may be written with a first byte that no text has.
        for token in {*special, *([eos] if isinstance(eos, int) else eos)}:
            self._special[token] = tokens[token].removeprefix(b"\xff")
        special |= {token for token, text in enumerate(tokens) if text[:1] == b"\xff" and text[1:]}
        self._call = wrapper
        return ffwd.Vocabulary.from_tokens(
            tokens, eos=eos, special=sorted(special), logits_size=n_vocab
        )

    def _set(self, vocabulary: ffwd.Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.compiler = ffwd.Compiler(vocabulary)
        self._marked: dict[tuple[str, ...], ffwd.Compiler] = {}

    @staticmethod
    def from_tiktoken(
        *,
        encoder: dict[bytes, int],
        special_tokens: dict[str, int],
        pattern: str,
        eos_token: int | list[int],
        n_vocab: int | None = None,
        slices: list[str] | None = None,
    ) -> LLTokenizer:
        """Make a tokenizer from the parts of an encoding of tiktoken."""

        class Parts:
            _mergeable_ranks = encoder
            _special_tokens = special_tokens
            _pat_str = pattern
            max_token_value = max(*encoder.values(), *special_tokens.values(), 0)

            def token_byte_values(self) -> list[bytes]:
                return list(encoder)

        return LLTokenizer(
            ffwd.Vocabulary.from_transformers(Parts(), logits_size=n_vocab, eos=eos_token)
        )

    def compiler_with(self, markers: tuple[str, ...]) -> ffwd.Compiler:
        """Return the compiler of the vocabulary in which these special tokens are text."""
        vocabulary = self.vocabulary
        special = [
            text
            for text in markers
            if (id_ := vocabulary.token_id(text)) is not None and vocabulary.is_special(id_)
        ]
        if not special:
            return self.compiler
        key = tuple(sorted(set(special)))
        if key not in self._marked:
            if len(self._marked) >= 8:
                self._marked.clear()
            self._marked[key] = ffwd.Compiler(vocabulary.with_markers(list(key)))
        return self._marked[key]

    @property
    def vocab_size(self) -> int:
        """Width of the model's logits."""
        return self.vocabulary.logits_size

    @property
    def eos_token(self) -> int:
        """The first id that ends the output."""
        return self.vocabulary.eos[0]

    @property
    def eos_tokens(self) -> list[int]:
        """All ids that end the output."""
        return self.vocabulary.eos

    @property
    def is_canonical(self) -> bool:
        """True if texts are encoded as the tokenizer does."""
        return self.vocabulary.has_tokenizer

    def with_slices(self, slices: list[str]) -> LLTokenizer:
        """Return the tokenizer itself: slices have no effect."""
        del slices
        return self

    @staticmethod
    def general_slices() -> list[str]:
        """Return a list that has no effect."""
        return ["(?s:.{1,32})"]

    @staticmethod
    def json_slices() -> list[str]:
        """Return a list that has no effect."""
        return ['[^"\\\\]{1,32}']

    def greedy_tokenize(self, text: str) -> list[int]:
        """Return the longest tokens that fit, one after the other."""
        return self._greedy(text.encode())

    def _greedy(self, data: bytes) -> list[int]:
        known = self._longest()
        tokens, at, most = [], 0, max(map(len, known), default=1)
        while at < len(data):
            for size in range(min(most, len(data) - at), 0, -1):
                token = known.get(data[at : at + size])
                if token is not None:
                    tokens.append(token)
                    at += size
                    break
            else:
                at += 1  # A byte that no token has is skipped.
        return tokens

    def _longest(self) -> dict[bytes, int]:
        if not hasattr(self, "_by_bytes"):
            texts = map(self.vocabulary.token_bytes, range(len(self.vocabulary)))
            found: dict[bytes, int] = {}
            for token, text in enumerate(texts):
                if text:
                    found.setdefault(text, token)
            self._by_bytes = found
        return self._by_bytes

    def tokenize_bytes(self, utf8bytes: bytes, *, parse_special: bool = False) -> list[int]:
        """Return the ids of a text, whose end may be an incomplete character.

        Args:
            utf8bytes: The text. 0xff with the number of a token in brackets, or with the name of a
                special token, is that token.
            parse_special: Recognise the names of special tokens without 0xff.
        """
        tokens: list[int] = []
        at = 0
        pattern = _MARKER
        if parse_special and (names := self._special_names()):
            pattern = re.compile(_MARKER.pattern + b"|" + b"|".join(map(re.escape, names)))
        for found in pattern.finditer(utf8bytes):
            token = self._marked_token(found)
            if token is not None:
                tokens += self._plain(utf8bytes[at : found.start()]) + [token]
                at = found.end()
        return tokens + self._plain(utf8bytes[at:])

    def _marked_token(self, found: re.Match[bytes]) -> int | None:
        if found[1]:
            token = int(found[1])
            return token if token < self.vocab_size else None
        return self._special_names().get(found[2] or found[0])

    def _special_names(self) -> dict[bytes, int]:
        if not hasattr(self, "_names"):
            self._names = {name: token for token, name in self._special.items() if name}
        return self._names

    def _plain(self, data: bytes) -> list[int]:
        try:
            text, rest = data.decode(), b""
        except UnicodeDecodeError as error:
            text, rest = data[: error.start].decode(), data[error.start :]
        tokens: list[int] = []
        if text:
            tokens = list(self._call(text)) if self._call else self.vocabulary.encode(text)
        return tokens + self._greedy(rest)

    def tokenize_str(self, text: str, *, parse_special: bool = False) -> list[int]:
        """Return the ids of a text; see `tokenize_bytes`."""
        return self.tokenize_bytes(text.encode(), parse_special=parse_special)

    def tokenize_partial(
        self, new_bytes: bytes, recent_tokens: list[int] | None = None
    ) -> tuple[list[int], bytes]:
        """Return the ids of the part of a text that further text does not change, and the rest.

        Args:
            new_bytes: The text.
            recent_tokens: Has no effect.
        """
        del recent_tokens
        tokens = self.tokenize_bytes(new_bytes)
        longest = max((len(self.vocabulary.token_bytes(token)) for token in tokens), default=0)
        if self.is_canonical and longest > 1 and tokens:
            last = self.vocabulary.token_bytes(tokens.pop())
            return tokens, last
        return tokens, b""

    def decode_bytes(self, tokens: list[int]) -> bytes:
        """Return the bytes of a sequence of ids; special tokens by their names."""
        return b"".join(
            self._special.get(token) or self.vocabulary.token_bytes(token) for token in tokens
        )

    def decode_str(self, tokens: list[int]) -> str:
        """Return the text of a sequence of ids."""
        return self.decode_bytes(tokens).decode(errors="replace")

    def dbg_tokens(self, tokens: list[int]) -> str:
        """Return a text for people: each token's text, in quotation marks."""
        inside = range(self.vocab_size)
        texts = [self.decode_str([t]) or f"<[{t}]>" for t in tokens if t in inside]
        return json.dumps("‧".join(texts), ensure_ascii=False)

    test_trace_tokens = dbg_tokens

    def is_special_token(self, token: int) -> bool:
        """True if a token is never text."""
        return self.vocabulary.is_special(token)


def _of_text(text: str, n_vocab: int | None, eos: Any) -> ffwd.Vocabulary:
    if text == "byte":
        tokens = [bytes([byte]) for byte in range(_BYTES)] + [b""]
        return ffwd.Vocabulary.from_tokens(
            tokens, eos=_BYTES if eos is None else eos, logits_size=n_vocab
        )
    if text.lstrip().startswith("{"):
        return ffwd.Vocabulary.from_json(text, logits_size=n_vocab, eos=eos)
    path = Path(text)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not os.path.exists(path):
        raise refuse("tokenizer", f"is {text!r}, which is no file", "nothing is fetched from a hub")
    return ffwd.Vocabulary.from_file(path, logits_size=n_vocab, eos=eos)

"""`TokenizerInfo`: the tokens of a tokenizer, as programs for XGrammar describe them."""

from __future__ import annotations

import json
import re
import warnings
from enum import Enum
from typing import Any

import ffwd

from .config import get_serialization_version
from .exception import DeserializeFormatError, DeserializeVersionError, InvalidJSONError

# Names of end tokens, for vocabularies that come without an id.
_STOP_NAMES = (
    "</s>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|endoftext|>",
    "<eos>",
    "<|eos|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
)
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class VocabType(Enum):
    """The way in which the texts of a vocabulary encode bytes."""

    RAW = 0
    BYTE_FALLBACK = 1
    BYTE_LEVEL = 2


def _byte_level_bytes() -> dict[str, int]:
    """The byte of each character of byte-level vocabularies."""
    kept = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in kept]
    return {chr(byte): byte for byte in kept} | {chr(256 + i): b for i, b in enumerate(others)}


_BYTE_OF_CHARACTER = _byte_level_bytes()
_BYTE_LEVEL_CHARSET = frozenset(_BYTE_OF_CHARACTER)


def decoded(token: str | bytes, vocab_type: VocabType) -> bytes:
    """Return the bytes of a token."""
    if isinstance(token, bytes):
        if vocab_type is VocabType.RAW:
            return token
        token = token.decode("utf-8", "surrogateescape")
    if vocab_type is VocabType.BYTE_LEVEL:
        found = [_BYTE_OF_CHARACTER.get(character) for character in token]
        # Added tokens are not written in the alphabet of bytes.
        return token.encode() if None in found else bytes(found)  # type: ignore[arg-type]
    if vocab_type is VocabType.BYTE_FALLBACK:
        piece = _BYTE_PIECE.fullmatch(token)
        if piece:
            return bytes([int(piece[1], 16)])
        token = token.replace("\u2581", " ")
    return token.encode("utf-8", "surrogateescape")


def _ids(ids: list[int] | int | None) -> list[int] | None:
    return [ids] if isinstance(ids, int) else ids


class TokenizerInfo:
    """The tokens of a tokenizer.

    Args:
        encoded_vocab: The text of each token, in the order of ids.
        vocab_type: How the texts encode bytes.
        vocab_size: Width of the model's logits; default the number of tokens.
        stop_token_ids: Ids that end a generation; default found by the usual names.
        add_prefix_space: True if the tokenizer puts a space in front of a text. Only reported.

    Raises:
        ffwd.Error: The tokens are too many, or an id is out of range.
        RuntimeError: `vocab_size` is less than the number of tokens.
    """

    def __init__(
        self,
        encoded_vocab: list[bytes] | list[str],
        vocab_type: VocabType = VocabType.RAW,
        *,
        vocab_size: int | None = None,
        stop_token_ids: list[int] | int | None = None,
        add_prefix_space: bool = False,
    ) -> None:
        tokens = [decoded(token, vocab_type) for token in encoded_vocab]
        size = len(tokens) if vocab_size is None else vocab_size
        if size < len(tokens):
            raise RuntimeError(f"vocab_size is {size} for {len(tokens)} tokens")
        tokens += [b""] * (size - len(tokens))
        stops = _ids(stop_token_ids)
        if stops is None:
            named = {name.encode() for name in _STOP_NAMES}
            stops = [token for token, text in enumerate(tokens) if text in named]
        self._set(tokens, vocab_type, stops, add_prefix_space)
        special = [token for token in self._special if token not in stops]
        # Constraints only contain bytes that are tokens. A small vocabulary lacks some, which are
        # added after its end, where no mask has a bit.
        missing = sorted(set(range(256)) - {text[0] for text in tokens if len(text) == 1})
        self._hidden = len(missing)
        hidden = [bytes([byte]) for byte in missing]
        self._vocabulary = ffwd.Vocabulary.from_tokens(
            [*tokens, *hidden], eos=stops, special=special
        )

    def _set(
        self, tokens: list[bytes], vocab_type: VocabType, stops: list[int], prefix: bool
    ) -> None:
        self._tokens = tokens
        self._type = vocab_type
        self._stops = stops
        self._prefix = prefix
        self._special = [token for token, text in enumerate(tokens) if not text]
        self._compilers: dict[tuple[int, ...], ffwd.Compiler] = {}

    @staticmethod
    def from_huggingface(
        tokenizer: Any,
        *,
        vocab_size: int | None = None,
        stop_token_ids: list[int] | int | None = None,
    ) -> TokenizerInfo:
        """Take over a tokenizer of transformers, or another one that `ffwd.Vocabulary` knows.

        Args:
            tokenizer: The tokenizer.
            vocab_size: Width of the model's logits; default the number of tokens.
            stop_token_ids: Ids that end a generation; default `tokenizer.eos_token_id`.

        Raises:
            ValueError: The object is no tokenizer, or `stop_token_ids` is empty.
            ffwd.Error: The tokenizer cannot be used.
        """
        stops = _ids(stop_token_ids)
        if stops is not None and not stops:
            raise ValueError("stop_token_ids cannot be empty")
        if not hasattr(tokenizer, "get_vocab"):
            raise ValueError(f"{type(tokenizer)} has no get_vocab method")
        vocab = tokenizer.get_vocab()
        size = vocab_size or max(len(vocab), max(vocab.values()) + 1)
        # Some models have narrower logits than the tokenizer has ids.
        whole = size > max(vocab.values())
        try:
            vocabulary = ffwd.Vocabulary.from_transformers(
                tokenizer, logits_size=size if whole else None, eos=stops
            )
        except TypeError as error:
            raise ValueError(f"Unsupported tokenizer type: {type(tokenizer)}") from error
        if not vocabulary.eos:
            warnings.warn(
                "neither stop_token_ids nor the tokenizer names an end token", stacklevel=2
            )
        if whole and _has_all_bytes(vocabulary):
            texts: list[str | bytes] = [""] * size
            for text, token in vocab.items():
                texts[token] = text
            return TokenizerInfo._of_vocabulary(vocabulary, texts)
        tokens = [vocabulary.token_bytes(token) for token in range(min(size, len(vocabulary)))]
        stops = [token for token in vocabulary.eos if token < size]
        return TokenizerInfo(tokens, vocab_size=size, stop_token_ids=stops)

    @staticmethod
    def _detect_metadata_from_hf(backend_str: str) -> dict[str, Any]:
        """Return `vocab_type` and `add_prefix_space` of the text of a `tokenizer.json`."""
        file = json.loads(backend_str)

        def steps(name: str) -> list[dict[str, Any]]:
            part = file.get(name) or {}
            inside = (part.get(names, []) for names in ("decoders", "pretokenizers", "normalizers"))
            return [part, *(step for steps in inside for step in steps)]

        kinds = {step.get("type") for name in ("decoder", "pre_tokenizer") for step in steps(name)}
        kind = VocabType.RAW
        if "ByteLevel" in kinds:
            kind = VocabType.BYTE_LEVEL
        elif kinds & {"ByteFallback", "Metaspace"}:
            kind = VocabType.BYTE_FALLBACK
        prefix = any(
            step.get("type") == "Prepend"
            or step.get("type") == "Metaspace"
            and step.get("prepend_scheme") != "never"
            or step.get("type") == "ByteLevel"
            and step.get("add_prefix_space", False)
            for step in steps("normalizer") + steps("pre_tokenizer")
        )
        return {"vocab_type": kind, "add_prefix_space": prefix}

    @staticmethod
    def _of_vocabulary(vocabulary: ffwd.Vocabulary, texts: list[str | bytes]) -> TokenizerInfo:
        info = TokenizerInfo.__new__(TokenizerInfo)
        kind = VocabType.RAW
        if "<0x0A>" in texts:
            kind = VocabType.BYTE_FALLBACK
        elif "\u0120" in texts or "\u010a" in texts:
            kind = VocabType.BYTE_LEVEL
        width = range(vocabulary.logits_size)
        tokens = [vocabulary.token_bytes(token) for token in width]
        special = [token for token in width if not tokens[token]]
        for token in special:
            tokens[token] = decoded(texts[token], kind)
        prefix = vocabulary.has_tokenizer and vocabulary.decode(vocabulary.encode("a")) == b" a"
        info._set(tokens, kind, vocabulary.eos, prefix)
        info._special = special
        info._hidden = 0
        info._vocabulary = vocabulary
        return info

    @property
    def vocabulary(self) -> ffwd.Vocabulary:
        """The vocabulary of `ffwd`. That of a list without all bytes is longer than the list."""
        return self._vocabulary

    def compiler(self, stops: tuple[int, ...]) -> ffwd.Compiler:
        """Return the compiler for these stop tokens. A few of them are kept."""
        known = self._compilers.get(stops)
        if known is None:
            vocabulary = _with_stops(self._vocabulary, list(stops))
            if len(self._compilers) >= 8:
                self._compilers.pop(next(iter(self._compilers)), None)
            known = self._compilers.setdefault(stops, ffwd.Compiler(vocabulary))
        return known

    @property
    def vocab_type(self) -> VocabType:
        """How the texts encode bytes."""
        return self._type

    @property
    def vocab_size(self) -> int:
        """Width of the model's logits."""
        return len(self._tokens)

    @property
    def add_prefix_space(self) -> bool:
        """True if the tokenizer puts a space in front of a text."""
        return self._prefix

    @property
    def prepend_space_in_tokenization(self) -> bool:
        """Deprecated name of `add_prefix_space`."""
        warnings.warn("prepend_space_in_tokenization is now add_prefix_space", stacklevel=2)
        return self._prefix

    @property
    def decoded_vocab(self) -> list[bytes]:
        """The bytes of each token, those of special tokens included."""
        return list(self._tokens)

    @property
    def stop_token_ids(self) -> list[int]:
        """The ids that end a generation."""
        return list(self._stops)

    @property
    def special_token_ids(self) -> list[int]:
        """The ids that are never text."""
        return list(self._special)

    def _metadata(self) -> dict[str, Any]:
        return {
            "vocab_type": self._type.value,
            "vocab_size": self.vocab_size,
            "add_prefix_space": self._prefix,
            "stop_token_ids": self._stops,
        }

    def dump_metadata(self) -> str:
        """Return everything but the tokens as JSON, for `from_vocab_and_metadata`."""
        return json.dumps(self._metadata(), separators=(",", ":"))

    @staticmethod
    def from_vocab_and_metadata(encoded_vocab: list[bytes | str], metadata: str) -> TokenizerInfo:
        """Make one from the texts of the tokens and the text of `dump_metadata`."""
        parts = json.loads(metadata)
        return TokenizerInfo(
            encoded_vocab,  # type: ignore[arg-type]
            VocabType(parts["vocab_type"]),
            vocab_size=parts["vocab_size"],
            stop_token_ids=parts["stop_token_ids"],
            add_prefix_space=parts["add_prefix_space"],
        )

    def serialize_json(self) -> str:
        """Return everything but the merges of the tokenizer as JSON, for `deserialize_json`."""
        tokens = [token.decode("latin-1") for token in self._tokens]
        special = [token for token in self._special if token not in self._stops]
        whole = {**self._metadata(), "decoded_vocab": tokens, "special_token_ids": special}
        return json.dumps({**whole, "__VERSION__": get_serialization_version()})

    @staticmethod
    def deserialize_json(json_string: str) -> TokenizerInfo:
        """Read the text of `serialize_json`.

        Raises:
            InvalidJSONError: The text is not JSON.
            DeserializeVersionError: It is of another version.
            DeserializeFormatError: It has another form.
        """
        parts = read_serialized(json_string)
        try:
            tokens = [token.encode("latin-1") for token in parts["decoded_vocab"]]
            for token in parts["special_token_ids"]:
                tokens[token] = b""
            info = TokenizerInfo(
                tokens,
                stop_token_ids=parts["stop_token_ids"],
                add_prefix_space=parts["add_prefix_space"],
            )
            info._type = VocabType(parts["vocab_type"])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise DeserializeFormatError(f"not a serialised TokenizerInfo: {error!r}") from error
        return info


def read_serialized(text: str) -> dict[str, Any]:
    """Read the JSON of a `serialize_json`, and check its version."""
    try:
        parts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"not JSON: {error}") from error
    if not isinstance(parts, dict) or "__VERSION__" not in parts:
        raise DeserializeFormatError("the text has no member `__VERSION__`")
    if parts["__VERSION__"] != get_serialization_version():
        version, own = parts["__VERSION__"], get_serialization_version()
        raise DeserializeVersionError(f"the text is of version {version!r}, expected {own!r}")
    return parts


def _has_all_bytes(vocabulary: ffwd.Vocabulary) -> bool:
    single = {
        text for token in range(len(vocabulary)) if len(text := vocabulary.token_bytes(token)) == 1
    }
    # Bytes that no UTF-8 text has are missing in most vocabularies.
    return len(single) >= 240


def _with_stops(vocabulary: ffwd.Vocabulary, stops: list[int]) -> ffwd.Vocabulary:
    """Return the vocabulary with these end tokens, which are then no text."""
    if stops == vocabulary.eos:
        return vocabulary
    if not any(vocabulary.token_bytes(token) for token in stops):
        return vocabulary.with_eos(stops)
    ids = range(len(vocabulary))
    return ffwd.Vocabulary.from_tokens(
        [vocabulary.token_bytes(token) for token in ids],
        eos=stops,
        special=[token for token in ids if vocabulary.is_special(token)],
        logits_size=vocabulary.logits_size,
    )

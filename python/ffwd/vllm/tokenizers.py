"""Vocabularies of the tokenizers that vLLM uses."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import ffwd

from .constraints import Grammars

_lock = threading.Lock()
_known: dict[int, tuple[weakref.ref[Any], Grammars]] = {}


def grammars_of(tokenizer: Any, width: int, model_config: Any = None) -> Grammars:
    """Return the grammars of a tokenizer, which are kept as long as the tokenizer is.

    Args:
        tokenizer: vLLM's tokenizer: a fast one of transformers, or one of Mistral.
        width: Number of the model's logits; the tokenizer may have fewer tokens, or more.
        model_config: vLLM's `ModelConfig`, which knows further end tokens.

    Raises:
        TypeError: The tokenizer is of neither kind.
        ffwd.Error: The tokenizer cannot be used.
    """
    key = id(tokenizer)
    with _lock:
        known = _known.get(key)
        if known is not None and known[0]() is tokenizer:
            return known[1]
        grammars = Grammars(vocabulary_of(tokenizer, width, model_config))
        reference = weakref.ref(tokenizer, lambda _: _known.pop(key, None))
        _known[key] = (reference, grammars)
        return grammars


def vocabulary_of(tokenizer: Any, width: int, model_config: Any = None) -> ffwd.Vocabulary:
    """Return the vocabulary of a tokenizer, as wide as the model's logits at least.

    Raises:
        TypeError, ffwd.Error: As `grammars_of`.
    """
    eos = end_tokens(tokenizer, model_config)
    if hasattr(tokenizer, "backend_tokenizer"):
        width = max(width, len(tokenizer))
        return ffwd.Vocabulary.from_transformers(tokenizer, logits_size=width, eos=eos)
    inner = getattr(tokenizer, "tokenizer", None)
    if hasattr(inner, "id_to_piece") and hasattr(inner, "is_special"):
        return _from_mistral(tokenizer, inner, width, eos)
    raise TypeError(
        f"the backend ffwd cannot use the tokenizer {type(tokenizer).__name__}; "
        "it needs a fast tokenizer of transformers or one of Mistral"
    )


def end_tokens(tokenizer: Any, model_config: Any = None) -> list[int]:
    """Return the ids that end a generation: those of the tokenizer and of the model's folder."""
    found = [tokenizer.eos_token_id]
    config = model_config.try_get_generation_config() if model_config is not None else {}
    more = config.get("eos_token_id")
    found += more if isinstance(more, (list, tuple)) else [more]
    return list(dict.fromkeys(token for token in found if token is not None))


def _from_mistral(tokenizer: Any, inner: Any, width: int, eos: list[int]) -> ffwd.Vocabulary:
    count = tokenizer.vocab_size
    special = [token for token in range(count) if inner.is_special(token)]
    hidden = set(special)
    tokens = [b"" if token in hidden else _mistral_bytes(inner, token) for token in range(count)]
    special = [token for token in special if token not in eos]
    return ffwd.Vocabulary.from_tokens(
        tokens, eos=eos, special=special, logits_size=max(width, count)
    )


def _mistral_bytes(inner: Any, token: int) -> bytes:
    if hasattr(inner, "id_to_byte_piece"):
        return inner.id_to_byte_piece(token)
    piece = inner.id_to_piece(token)
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("\u2581", " ").encode()

"""Vocabularies of the tokenizers that vLLM uses."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import ffwd

from ..grammars import Grammars

_lock = threading.Lock()
_known: dict[int, tuple[weakref.ref[Any], Grammars]] = {}


def grammars_of(tokenizer: Any, width: int, model_config: Any = None) -> Grammars:
    """Return the grammars of a tokenizer, which are kept as long as the tokenizer is.

    Args:
        tokenizer: vLLM's tokenizer: a fast one of transformers, or one of Mistral.
        width: Number of the model's logits; the tokenizer may have fewer tokens, or more.
        model_config: vLLM's `ModelConfig`, which knows further end tokens.

    Raises:
        TypeError: The tokenizer is of another kind, such as a slow one.
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
    width = max(width, len(tokenizer))
    return ffwd.Vocabulary.from_transformers(tokenizer, logits_size=width, eos=eos)


def end_tokens(tokenizer: Any, model_config: Any = None) -> list[int]:
    """Return the ids that end a generation: those of the tokenizer and of the model's folder."""
    found = [tokenizer.eos_token_id]
    config = model_config.try_get_generation_config() if model_config is not None else {}
    more = config.get("eos_token_id")
    found += more if isinstance(more, (list, tuple)) else [more]
    return list(dict.fromkeys(token for token in found if token is not None))

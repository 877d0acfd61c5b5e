"""Tokenizers of transformers."""

from __future__ import annotations

from typing import Any

import ffwd

from ._tokenizer import LLTokenizer


def from_tokenizer(
    hf_tokenizer: Any,
    n_vocab: int | None = None,
    eos_token: int | list[int] | None = None,
    slices: list[str] | None = None,
) -> LLTokenizer:
    """Make a tokenizer from a fast one of transformers.

    Args:
        hf_tokenizer: The tokenizer.
        n_vocab: Width of the model's logits, if it is wider than the vocabulary.
        eos_token: Id or ids that end the output; default those of the tokenizer.
        slices: Has no effect.

    Raises:
        ValueError: The tokenizer is not a fast one.
        ffwd.Error: The tokenizer cannot be used.
    """
    del slices
    try:
        vocabulary = ffwd.Vocabulary.from_transformers(
            hf_tokenizer, logits_size=n_vocab, eos=eos_token
        )
    except TypeError as error:
        raise ValueError("Only fast tokenizers are supported") from error
    return LLTokenizer(vocabulary)

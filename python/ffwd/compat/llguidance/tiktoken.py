"""Encodings of tiktoken."""

from __future__ import annotations

from typing import Any

from ._tokenizer import LLTokenizer


def lltokenizer_from_encoding(
    encoding: Any,
    *,
    n_vocab: int | None = None,
    eos_token: int | list[int] | None = None,
    slices: list[str] | None = None,
) -> LLTokenizer:
    """Make a tokenizer from an encoding of tiktoken.

    Args:
        encoding: The encoding.
        n_vocab: Width of the model's logits, if it is wider than the vocabulary.
        eos_token: Id or ids that end the output; default `encoding.eot_token`.
        slices: Has no effect.
    """
    return LLTokenizer.from_tiktoken(
        encoder=encoding._mergeable_ranks,
        special_tokens=encoding._special_tokens,
        pattern=encoding._pat_str,
        eos_token=encoding.eot_token if eos_token is None else eos_token,
        n_vocab=n_vocab,
        slices=slices,
    )

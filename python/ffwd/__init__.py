"""Exact and fast structured generation: which tokens keep an output valid.

A `Constraint` says what an output may be: a JSON Schema, a regular expression, a grammar, a choice,
a structural tag, a span of a text. A `Compiler` compiles it for a `Vocabulary`. A `Matcher` follows
one generation and writes, at each step, a bitmask of the legal tokens.

    >>> import ffwd
    >>> vocabulary = ffwd.Vocabulary.from_tokens([b"y", b"e", b"s", b"ye", b""], eos=4)
    >>> grammar = ffwd.Compiler(vocabulary).compile(ffwd.Constraint.choice(["yes", "no"]))
    >>> matcher = grammar.matcher()
    >>> matcher.accept_token(3), matcher.find_jump_forward_string()
    (True, 's')

An `Engine` runs models in this process, and writes records of pydantic models, dataclasses and JSON
Schemas. It needs the package `ffwd-llm-runtime`.

Neither NumPy nor torch is imported with the module. Arrays of both are accepted, and anything with
`__dlpack__`.
"""

from __future__ import annotations

from typing import Any

from ._ffwd import (
    Compiler,
    Constraint,
    ConstraintWarning,
    Error,
    Explanation,
    Grammar,
    Matcher,
    Vocabulary,
    __version__,
    advance_batch,
    apply_token_bitmask_inplace,
    fill_batch,
)
from .errors import InvalidRecord, Truncated
from .results import Extraction, Output, Partial, Stats
from .runtime import Engine, Extractor

__all__ = [
    "Compiler",
    "Constraint",
    "ConstraintWarning",
    "Engine",
    "Error",
    "Explanation",
    "Extraction",
    "Extractor",
    "Grammar",
    "InvalidRecord",
    "Matcher",
    "Output",
    "Partial",
    "Stats",
    "Truncated",
    "Vocabulary",
    "__version__",
    "advance_batch",
    "allocate_token_bitmask",
    "apply_token_bitmask_inplace",
    "fill_batch",
]


def allocate_token_bitmask(batch_size: int, vocabulary: Vocabulary | int) -> Any:
    """Return a bitmask in which every token is legal.

    Args:
        batch_size: Number of rows, at least 1.
        vocabulary: The vocabulary, or the width of the model's logits in tokens.

    Returns:
        int32 of shape (batch_size, ceil(width / 32)): a NumPy array if NumPy is installed, which
        `torch.from_numpy` shares without a copy, otherwise a memoryview of format "i". Bit `t % 32`
        of word `t // 32` is token `t`.

    Raises:
        ValueError: A size is not positive.
    """
    width = vocabulary if isinstance(vocabulary, int) else vocabulary.logits_size
    if batch_size < 1 or width < 1:
        raise ValueError(f"a bitmask of {batch_size} rows for {width} tokens is empty")
    words = -(-width // 32)
    try:
        import numpy
    except ImportError:
        buffer = bytearray(b"\xff") * (4 * batch_size * words)
        return memoryview(buffer).cast("i", (batch_size, words))
    return numpy.full((batch_size, words), -1, dtype=numpy.int32)

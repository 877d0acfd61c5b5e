"""Bitmasks in NumPy arrays."""

from __future__ import annotations

from typing import Any

from .._arrays import bitmask_shape, mask_on_cpu
from ._matcher import LLExecutor, LLMatcher


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """Return the shape of a bitmask: (batch_size, ceil(vocab_size / 32))."""
    return bitmask_shape(batch_size, vocab_size)


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Any:
    """Return an int32 array of shape (batch_size, ceil(vocab_size / 32)) with all bits set."""
    import numpy

    return numpy.full(bitmask_shape(batch_size, vocab_size), -1, dtype=numpy.int32)


def apply_token_bitmask_inplace(logits: Any, mask: Any) -> None:
    """Set the logits of tokens that are not legal, and those beyond the mask, to minus infinity.

    Args:
        logits: float32 array of shape (batch, width) or (width,).
        mask: int32 array of shape (batch, words) or (words,).
    """
    logits = logits[None] if logits.ndim == 1 else logits
    mask = mask[None] if mask.ndim == 1 else mask
    assert mask.dtype.name == "int32", "Mask must be int32"
    assert logits.ndim == 2, "Logits must be 2D"
    assert logits.shape[0] == mask.shape[0], "Batch size mismatch"
    logits[:, 32 * mask.shape[1] :] = float("-inf")
    mask_on_cpu(logits, mask)


def fill_next_token_bitmask(interp: LLMatcher, bitmask: Any, index: int = 0) -> None:
    """Write the legal tokens into a row."""
    _check(bitmask)
    row = bitmask[index, :]
    interp.unsafe_compute_mask_ptr(row.ctypes.data, row.size * row.itemsize)


def fill_next_token_bitmask_par(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int]], bitmask: Any
) -> None:
    """Write the legal tokens of each matcher into its row."""
    rows, words = _check(bitmask)
    executor.unsafe_compute_mask_ptr(matchers, bitmask.ctypes.data, words * 4, rows)


def fill_next_token_bitmask_par_with_draft_tokens(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int, list[int]]], bitmask: Any
) -> None:
    """Write the legal tokens of each matcher, and after each of its drafted tokens."""
    rows, words = _check(bitmask)
    executor.unsafe_compute_mask_ptr_with_draft_token(
        matchers, bitmask.ctypes.data, words * 4, rows
    )


def consume_token_par(executor: LLExecutor, matchers: list[tuple[LLMatcher, int]]) -> list[bool]:
    """Advance each matcher by its token."""
    return executor.consume_token_par(matchers)


def _check(bitmask: Any) -> tuple[int, int]:
    assert bitmask.dtype.name == "int32", "Mask must be int32"
    assert bitmask.ndim == 2, "Mask must be 2D"
    assert bitmask.flags["C_CONTIGUOUS"], "Mask must be contiguous"
    return bitmask.shape

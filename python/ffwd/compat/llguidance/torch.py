"""Bitmasks in torch tensors."""

from __future__ import annotations

from typing import Any

from .._arrays import bitmask_shape, mask_elsewhere, mask_on_cpu, torch_bitmask
from ._matcher import LLExecutor, LLMatcher


def get_bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """Return the shape of a bitmask: (batch_size, ceil(vocab_size / 32))."""
    return bitmask_shape(batch_size, vocab_size)


def allocate_token_bitmask(batch_size: int, vocab_size: int) -> Any:
    """Return an int32 tensor of shape (batch_size, ceil(vocab_size / 32)) with all bits set."""
    return torch_bitmask(batch_size, vocab_size)


def apply_token_bitmask_inplace(logits: Any, mask: Any) -> None:
    """Set the logits of tokens that are not legal, and those beyond the mask, to minus infinity.

    Args:
        logits: Float tensor of shape (batch, width) or (width,).
        mask: int32 tensor of shape (batch, words) or (words,), on the same device.
    """
    logits = logits.unsqueeze(0) if logits.dim() == 1 else logits
    mask = mask.unsqueeze(0) if mask.dim() == 1 else mask
    assert str(mask.dtype) == "torch.int32", "Mask must be int32"
    assert logits.dim() == 2, "Logits must be 2D"
    assert logits.shape[0] == mask.shape[0], "Batch size mismatch"
    logits[:, 32 * mask.shape[1] :] = float("-inf")
    (mask_on_cpu if logits.device.type == "cpu" else mask_elsewhere)(logits, mask)


def fill_next_token_bitmask(interp: LLMatcher, bitmask: Any, index: int = 0) -> None:
    """Write the legal tokens into a row."""
    _check(bitmask)
    matcher = interp._matcher
    if matcher is not None and not interp._error:
        # The address of a tensor is found faster than that of one of its rows.
        matcher.fill_next_token_bitmask(bitmask, index)
        return
    row = bitmask[index, :]
    interp.unsafe_compute_mask_ptr(row.data_ptr(), row.numel() * row.element_size())


def fill_next_token_bitmask_par(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int]], bitmask: Any
) -> None:
    """Write the legal tokens of each matcher into its row."""
    rows, words = _check(bitmask)
    executor.unsafe_compute_mask_ptr(matchers, bitmask.data_ptr(), words * 4, rows)


def fill_next_token_bitmask_par_with_draft_tokens(
    executor: LLExecutor, matchers: list[tuple[LLMatcher, int, list[int]]], bitmask: Any
) -> None:
    """Write the legal tokens of each matcher, and after each of its drafted tokens."""
    rows, words = _check(bitmask)
    executor.unsafe_compute_mask_ptr_with_draft_token(matchers, bitmask.data_ptr(), words * 4, rows)


def consume_token_par(executor: LLExecutor, matchers: list[tuple[LLMatcher, int]]) -> list[bool]:
    """Advance each matcher by its token."""
    return executor.consume_token_par(matchers)


def _check(bitmask: Any) -> tuple[int, int]:
    assert str(bitmask.dtype) == "torch.int32", "Mask must be int32"
    assert bitmask.is_cpu, "Mask must be on CPU"
    assert bitmask.dim() == 2, "Mask must be 2D"
    assert bitmask.is_contiguous(), "Mask must be contiguous"
    return bitmask.shape

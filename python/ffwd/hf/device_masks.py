"""Masks of logits on the device where the logits are.

# Cost

On the CPU the kernel in Rust. On a device the bitmask is copied there, and with Triton it is one kernel,
which reads each legal logit once and writes all of them once. Without Triton it is some operations of
torch, with a number for each bit in between.

# Alternatives considered

Masks of bool made on the CPU were rejected: eight times the bytes to copy. Changing logits in place
was rejected: `generate` returns unmasked logits, too, with `output_logits`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .. import apply_token_bitmask_inplace

# Devices for which Triton compiles, where it is installed.
_TRITON = ("cuda", "xpu")


class DeviceBitmask:
    """A bitmask in memory of the CPU that a device can copy without waiting, and its copy there.

    Attributes:
        rows: int32 of shape (rows, words) on the CPU. It must not be written while the device has
            yet to copy it: not before the device is known to have done something that was queued
            after `mask`.
    """

    def __init__(self, rows: int, words: int, device: torch.device) -> None:
        pinned = device.type == "cuda"
        self.rows = torch.full((rows, words), -1, dtype=torch.int32, pin_memory=pinned)
        self.device = device
        on_cpu = device.type == "cpu"
        self._copy = self.rows if on_cpu else torch.empty_like(self.rows, device=device, pin_memory=False)

    def mask(self, scores: torch.Tensor) -> torch.Tensor:
        """Return a copy of the scores with minus infinity for tokens whose bit is not set.

        Args:
            scores: Floating point numbers of shape (at most rows, at most 32 * words), on the device.
        """
        rows = len(scores)
        if self._copy is self.rows:
            result = scores.clone(memory_format=torch.contiguous_format)
            apply_token_bitmask_inplace(result, self.rows[:rows])
            return result
        bitmask = self._copy[:rows]
        bitmask.copy_(self.rows[:rows], non_blocking=True)
        return masked(scores, bitmask)


def masked(scores: torch.Tensor, bitmask: torch.Tensor) -> torch.Tensor:
    """Return a copy of the scores with minus infinity for tokens whose bit is not set.

    Args:
        scores: Floating point numbers of shape (rows, width).
        bitmask: int32 of shape (rows, at least ceil(width / 32)), on the same device.
    """
    kernel = _kernel() if scores.device.type in _TRITON else None
    if kernel is not None:
        return kernel(scores, bitmask)
    return scores.masked_fill(~_legal(scores, bitmask), float("-inf"))


def apply_on_device(scores: torch.Tensor, bitmask: torch.Tensor) -> torch.Tensor:
    """Set the scores of tokens whose bit is not set to minus infinity, with operations of torch.

    Args:
        scores: Floating point numbers of shape (rows, width).
        bitmask: int32 of shape (rows, at least ceil(width / 32)), on any device.

    Returns:
        The scores, changed in place.
    """
    bitmask = bitmask.to(scores.device, non_blocking=True)
    return scores.masked_fill_(~_legal(scores, bitmask), float("-inf"))


def _legal(scores: torch.Tensor, bitmask: torch.Tensor) -> torch.Tensor:
    shifts = torch.arange(32, dtype=torch.int32, device=scores.device)
    bits = (bitmask.unsqueeze(-1) >> shifts) & 1
    return bits.flatten(1)[:, : scores.shape[1]].bool()


@functools.cache
def _kernel() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None:
    """The kernel of Triton, or None where Triton is not installed."""
    try:
        from . import triton_mask
    except ImportError:
        return None
    kernel: Any = triton_mask.masked
    return kernel

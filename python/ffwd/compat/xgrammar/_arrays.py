"""Bitmasks and logits of torch."""

from __future__ import annotations

import math
from typing import Any

import ffwd


def bitmask_shape(batch_size: int, vocab_size: int) -> tuple[int, int]:
    """Return the shape of a bitmask: (batch_size, ceil(vocab_size / 32))."""
    return batch_size, math.ceil(vocab_size / 32)


def torch_bitmask(batch_size: int, vocab_size: int) -> Any:
    """Return a torch tensor, int32 of shape (batch_size, ceil(vocab_size / 32)), all bits set."""
    import torch

    return torch.full(bitmask_shape(batch_size, vocab_size), -1, dtype=torch.int32)


def mask_elsewhere(logits: Any, bitmask: Any) -> None:
    """Apply a bitmask to logits of shape (batch, width) on another device than the CPU.

    Tokens beyond the bitmask are left alone.
    """
    import torch

    bits = torch.arange(32, device=logits.device, dtype=torch.int32)
    legal = (bitmask.unsqueeze(-1) >> bits & 1).flatten(-2).bool()
    width = min(logits.shape[-1], legal.shape[-1])
    part = logits[..., :width]
    part.masked_fill_(~legal[..., :width], float("-inf"))


def mask_on_cpu(logits: Any, bitmask: Any, indices: list[int] | None = None) -> None:
    """Apply a bitmask to logits on the CPU, where either may be wider than the other.

    Tokens beyond the bitmask are left alone.
    """
    words = bitmask.shape[-1]
    if logits.shape[-1] > 32 * words:
        logits = logits[..., : 32 * words]
    bitmask = bitmask[..., : math.ceil(logits.shape[-1] / 32)]
    ffwd.apply_token_bitmask_inplace(logits, bitmask, indices)

"""The masked copy of logits as one kernel of Triton. Importing it needs Triton.

# Cost

A program for each `BLOCK` tokens of a row. Logits of illegal tokens are not read.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

# Tokens of a program.
BLOCK = 4096


@triton.jit
def _masked(  # type: ignore[no-untyped-def]
    scores, bitmask, result, width, row_stride, bitmask_stride, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    token = tl.program_id(1) * block + tl.arange(0, block)
    inside = token < width
    word = tl.load(bitmask + row * bitmask_stride + token // 32, mask=inside, other=0)
    legal = ((word >> (token % 32)) & 1) != 0
    score = tl.load(scores + row * row_stride + token, mask=inside & legal, other=float("-inf"))
    tl.store(result + row * width + token, score, mask=inside)


def masked(scores: torch.Tensor, bitmask: torch.Tensor) -> torch.Tensor:
    """Return a copy of the scores with minus infinity for tokens whose bit is not set.

    Args:
        scores: Floating point numbers of shape (rows, width).
        bitmask: int32 of shape (rows, at least ceil(width / 32)), on the same device.
    """
    rows, width = scores.shape
    if scores.stride(1) != 1 or bitmask.stride(1) != 1:
        scores, bitmask = scores.contiguous(), bitmask.contiguous()
    result = torch.empty((rows, width), dtype=scores.dtype, device=scores.device)
    grid = (rows, triton.cdiv(width, BLOCK))
    launch: Any = _masked[grid]
    launch(scores, bitmask, result, width, scores.stride(0), bitmask.stride(0), block=BLOCK)
    return result

"""`apply_token_bitmask_inplace` under the name of a kernel."""

from __future__ import annotations

from typing import Any

from ..matcher import apply_token_bitmask_inplace


def apply_token_bitmask_inplace_triton(
    logits: Any,
    bitmask: Any,
    vocab_size: int | None = None,
    indices: list[int] | None = None,
) -> None:
    """Apply a bitmask; see `apply_token_bitmask_inplace`."""
    apply_token_bitmask_inplace(logits, bitmask, vocab_size=vocab_size, indices=indices)

"""Global settings. The depth of recursion has no effect: the engine has no recursion to limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_DEPTH = [10_000]
_MOST = 1_000_000


def get_max_recursion_depth() -> int:
    """Return the depth that was set; it has no effect."""
    return _DEPTH[0]


def set_max_recursion_depth(max_recursion_depth: int) -> None:
    """Set a depth, which has no effect.

    Raises:
        RuntimeError: The depth is not from 1 to 1,000,000.
    """
    if not 0 < max_recursion_depth <= _MOST:
        raise RuntimeError(f"max_recursion_depth is {max_recursion_depth}; expected 1 to {_MOST}")
    _DEPTH[0] = max_recursion_depth


@contextmanager
def max_recursion_depth(temp_depth: int) -> Iterator[None]:
    """Set a depth for a block."""
    before = get_max_recursion_depth()
    set_max_recursion_depth(temp_depth)
    try:
        yield
    finally:
        set_max_recursion_depth(before)


def get_serialization_version() -> str:
    """Return the version of `serialize_json`. It is not a version of XGrammar."""
    return "ffwd-1"

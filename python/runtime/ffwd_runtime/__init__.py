"""The model runner of the package `ffwd`, with small models inside. Use `ffwd.Engine`."""

from __future__ import annotations

from ._runtime import __version__

__all__ = ["__version__"]

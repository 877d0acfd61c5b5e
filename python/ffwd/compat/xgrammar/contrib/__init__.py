"""Adapters of other libraries."""

from . import hf

__all__ = ["hf"]

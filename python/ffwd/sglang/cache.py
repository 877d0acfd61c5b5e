"""A bounded cache in place of the dictionary that SGLang's backends keep for ever."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ..grammars import MAX_GRAMMARS, MAX_MEMORY


class Cache(OrderedDict[tuple[str, str], Any]):
    """The beginnings of constraints by kind and text. The least recently used ones are dropped.

    The scheduler's thread alone uses it.
    """

    def get(self, key: tuple[str, str], default: Any = None) -> Any:
        """Return a state, and keep it longer than others."""
        if key in self:
            self.move_to_end(key)
        return super().get(key, default)

    def __setitem__(self, key: tuple[str, str], value: Any) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > MAX_GRAMMARS or len(self) > 1 and self.memory() > MAX_MEMORY:
            self.popitem(last=False)

    def memory(self) -> int:
        """Return the bytes of all grammars and their texts."""
        return sum(len(text) + _memory_of(value) for (_, text), value in self.items())


def _memory_of(value: Any) -> int:
    """Return the bytes of a state's grammar; one that lets the model reason has it inside."""
    compiled = getattr(getattr(value, "grammar", value), "compiled", None)
    return 0 if compiled is None else compiled.memory_bytes

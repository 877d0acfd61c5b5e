"""Arguments and functions of XGrammar that have no meaning here."""

from __future__ import annotations

from typing import Any

import ffwd

# The most whitespace at a position where XGrammar has no limit: a line break and deep
# indentation. The states of a grammar grow with it.
ANY_WHITESPACE = 24


def refuse(argument: str, why: str, hint: str | None = None) -> ffwd.Error:
    """Return the error of an argument that this engine has no meaning for."""
    error = ffwd.Error(f"unsupported: `{argument}` {why}" + (f" ({hint})" if hint else ""))
    error.kind = "unsupported"
    error.message = f"`{argument}` {why}"
    error.hint = hint
    return error


class Refused:
    """Stands for a function: a call of it is refused."""

    def __init__(self, name: str, why: str) -> None:
        self._name = name
        self._why = why

    def __getattr__(self, name: str) -> Refused:
        return Refused(f"{self._name}.{name}", self._why)

    def __call__(self, *_arguments: Any, **_options: Any) -> Any:
        raise refuse(self._name, self._why)

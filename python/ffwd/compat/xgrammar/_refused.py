"""Functions that programs import, and that have no meaning here."""

from __future__ import annotations

from typing import Any

from .._arrays import refuse


class Refused:
    """Stands for a function: a call of it is refused."""

    def __init__(self, name: str, why: str) -> None:
        self._name = name
        self._why = why

    def __getattr__(self, name: str) -> Refused:
        return Refused(f"{self._name}.{name}", self._why)

    def __call__(self, *_arguments: Any, **_options: Any) -> Any:
        raise refuse(self._name, self._why)

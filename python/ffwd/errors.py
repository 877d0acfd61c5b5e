"""Exceptions of the runtime. All of them are `ffwd.Error`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ._ffwd import Error

if TYPE_CHECKING:
    from .results import Stats


class Truncated(Error):
    """A record that was cut: by the token limit (`kind` is `incomplete`), or as it was cancelled.

    Attributes:
        path: JSON pointer of the unfinished value; empty for the whole record.
        partial: The text of that value up to the cut.
        text: The text of the output up to the cut, or None.
    """

    path: str | None = None
    partial: str | None = None
    text: str | None = None
    _stats: str | None = None

    @property
    def stats(self) -> Stats | None:
        """The statistics of the generation, or None."""
        from .results import Stats

        return None if self._stats is None else Stats.of(json.loads(self._stats))


class InvalidRecord(Error):
    """A record that is valid against the schema, but not for the type. `kind` is `invalid_record`.

    A validator of the type refused it; its exception is the `__cause__`.

    Attributes:
        record: The record as JSON has it: dicts, lists, texts and numbers.
        text: The record as the generated text.
    """

    kind: str | None = "invalid_record"
    record: Any = None
    text: str | None = None

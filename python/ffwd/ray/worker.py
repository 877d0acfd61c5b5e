"""The actor of an extraction: an engine, and the results of the tables that it gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..options import SCHEMA_OPTIONS
from ..results import Extraction
from ..runtime import Engine
from .columns import with_results

if TYPE_CHECKING:
    import pyarrow


class Worker:
    """Extracts records in a process of Ray. It has one engine with one schema.

    A table of texts goes in, and the same rows with their results come out, in their order. So Ray
    can repeat a call elsewhere if this process ends.
    """

    def __init__(
        self,
        schema: Any,
        *,
        column: str,
        prefix: str,
        engine: Mapping[str, Any],
        cpus: int,
        batch: int,
        options: Mapping[str, Any],
    ) -> None:
        """Load the models.

        Args:
            schema, column, prefix, engine, cpus, batch, options: As those of `ffwd.ray.extract`.

        Raises:
            ffwd.Error: A model cannot be loaded, or the schema is not supported.
        """
        self._column, self._prefix = column, prefix
        own = {name: value for name, value in options.items() if name in SCHEMA_OPTIONS}
        self._extractor = Engine(**{"threads": cpus, **engine}).extractor(schema, **own)
        self._options: dict[str, Any] = {
            "batch": batch,
            **{name: value for name, value in options.items() if name not in SCHEMA_OPTIONS},
        }

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        """Return the table with the columns of the results.

        Raises:
            KeyError: It has no column of texts.
            ValueError: It has a column with the name of a result already.
        """
        if self._column not in table.column_names:
            raise KeyError(f"the dataset has no column {self._column!r}: {table.column_names}")
        texts = table.column(self._column).to_pylist()
        return with_results(table, list(self.results(texts)), self._prefix)

    def results(self, texts: Iterable[Any]) -> Iterator[Extraction[Any] | Exception]:
        """Return the record of each text, or the failure in its place."""
        return self._extractor.extract_many(texts, details=True, errors="return", **self._options)

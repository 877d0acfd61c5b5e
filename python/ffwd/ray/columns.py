"""The columns that an extraction adds to a table, and records read from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from .._ffwd import Error
from ..errors import Truncated
from ..results import Confidence, Extraction, Stats
from ..schemas import record_type

if TYPE_CHECKING:
    import pyarrow

NAMES = ("record", "spans", "confidence", "finish", "stats", "error")
_COUNTS = ("prompt_tokens", "tokens", "forwards")


@cache
def types() -> Mapping[str, pyarrow.DataType]:
    """Return the types of the columns by name.

    They do not depend on the schema of the records, so all blocks of a dataset have the same ones.
    """
    import pyarrow as pa

    text, number = pa.string(), pa.float64()
    span = [("pointer", text), ("start", pa.int64()), ("end", pa.int64())]
    alternative = pa.struct([("value", text), ("probability", number)])
    confidence = [("pointer", text), ("probability", number), ("margin", number)]
    confidence += [("legal_mass", number), ("alternatives", pa.list_(alternative))]
    stats = [*((name, pa.int64()) for name in _COUNTS), ("seconds", number)]
    error = [("kind", text), ("message", text), ("pointer", text), ("hint", text), ("partial", text)]
    return {
        "record": text,
        "spans": pa.list_(pa.struct(span)),
        "confidence": pa.list_(pa.struct(confidence)),
        "finish": text,
        "stats": pa.struct(stats),
        "error": pa.struct(error),
    }


def with_results(
    table: pyarrow.Table, results: Sequence[Extraction[Any] | Exception], prefix: str
) -> pyarrow.Table:
    """Return a table with the results of its rows.

    Args:
        table: The texts, and whatever else the rows have.
        results: For each row its record, or the failure in its place.
        prefix: Stands in front of the names of the new columns.

    Raises:
        ValueError: The table has such a column.
    """
    import pyarrow as pa

    rows = [_row(result) for result in results]
    for name, kind in types().items():
        column = prefix + name
        if column in table.column_names:
            raise ValueError(f"the dataset has a column {column!r}; give the results a prefix")
        table = table.append_column(column, pa.array([row.get(name) for row in rows], type=kind))
    return table


def _row(result: Extraction[Any] | Exception) -> dict[str, Any]:
    """Return the values of the new columns for one text."""
    if isinstance(result, Exception):
        return {"error": _failure(result), "stats": _stats(getattr(result, "stats", None))}
    spans = [
        {"pointer": pointer, "start": span.start, "end": span.end}
        for pointer, found in result.spans.items()
        for span in found
    ]
    return {
        "record": result.text,
        "spans": spans,
        "confidence": _confidence(result.confidence),
        "finish": result.finish.reason,
        "stats": _stats(result.stats),
    }


def _failure(error: Exception) -> dict[str, str | None]:
    """Return an exception as a struct. One that is no `ffwd.Error` is of the kind `invalid_text`."""
    cut = isinstance(error, Truncated)
    return {
        "kind": getattr(error, "kind", None) or "invalid_text",
        "message": getattr(error, "message", None) or str(error),
        "pointer": error.path if cut else getattr(error, "pointer", None),
        "hint": getattr(error, "hint", None),
        # What there is of the record.
        "partial": getattr(error, "text", None),
    }


def _stats(stats: Stats | None) -> dict[str, Any] | None:
    if stats is None:
        return None
    return {name: getattr(stats, name) for name in (*_COUNTS, "seconds")}


def _confidence(confidence: Mapping[str, Confidence]) -> list[dict[str, Any]]:
    return [
        {
            "pointer": pointer,
            "probability": known.probability,
            "margin": known.margin,
            "legal_mass": known.legal_mass,
            "alternatives": [
                {"value": json.dumps(value, ensure_ascii=False), "probability": probability}
                for value, probability in known.alternatives
            ],
        }
        for pointer, known in confidence.items()
    ]


def reader(schema: Any, *, prefix: str = "") -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that reads the record of a row.

        >>> read = ffwd.ray.reader(Invoice)  # doctest: +SKIP
        >>> for row in invoices.iter_rows():  # doctest: +SKIP
        ...     print(row["id"], read(row).total)

    Args:
        schema: What a record is, as in `extract`.
        prefix: As in `extract`.

    Returns:
        A function from a row, as Ray Data has it, to an instance of the type, or to plain JSON
        values of a JSON Schema. For a row that failed it raises its `ffwd.Error`.

    Raises:
        ImportError: It is a type, and pydantic is not installed.
        TypeError: No JSON Schema describes the type.
    """
    read_text = record_type(schema).read

    def read(row: Mapping[str, Any]) -> Any:
        failure = row[prefix + "error"]
        if failure is None:
            return read_text(row[prefix + "record"])
        error = Error(failure["message"])
        for name in ("kind", "message", "pointer", "hint"):
            setattr(error, name, failure[name])
        raise error

    return read

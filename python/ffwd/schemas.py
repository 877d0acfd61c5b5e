"""Schemas from types, and records as instances of them.

Types are read by pydantic: its models, dataclasses, typed dicts, and what they contain. A JSON
Schema needs nothing, and gives plain values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from .errors import InvalidRecord

T = TypeVar("T")


@dataclass(frozen=True)
class RecordType(Generic[T]):
    """What a record is.

    Attributes:
        schema: The JSON Schema as JSON text.
        read: Makes the record of its JSON text.
        write: Makes the JSON text of a record.
    """

    schema: str
    read: Callable[[str], T]
    write: Callable[[Any], str]


def record_type(schema: Any) -> RecordType[Any]:
    """Return what a record is: of a JSON Schema (text, mapping or bool) or of a type.

    Raises:
        ImportError: It is a type, and pydantic is not installed.
        TypeError: It is neither, or a type that no JSON Schema describes.
    """
    if isinstance(schema, (bytes, bytearray)):
        schema = bytes(schema).decode()
    if isinstance(schema, str):
        return RecordType(schema, json.loads, _to_json)
    if isinstance(schema, (Mapping, bool)):
        return RecordType(_to_json(schema), json.loads, _to_json)
    return _of_type(schema)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _of_type(cls: Any) -> RecordType[Any]:
    try:
        import pydantic
        from pydantic import TypeAdapter

        from . import type_schemas
    except ImportError:
        raise ImportError(
            "records of types need pydantic 2: pip install 'ffwd-llm[runtime]'; "
            "a JSON Schema needs nothing"
        ) from None
    try:
        adapter = TypeAdapter(cls)
        schema = adapter.json_schema(schema_generator=type_schemas.Generator)
    except pydantic.errors.PydanticUserError as error:
        raise TypeError(f"{cls!r} has no JSON Schema: {error}") from error
    refused = [f"{place}: {reason}" for place, reason in type_schemas.refusals(schema)]
    if refused:
        raise TypeError(f"{cls!r} has no JSON Schema: {'; '.join(refused)}")

    def read(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except pydantic.ValidationError as error:
            raise _invalid(text, error) from error

    def write(record: Any) -> str:
        # A record that is plain JSON becomes an instance, so that a wrong one is found here.
        instance = adapter.validate_python(record)
        return adapter.dump_json(instance, by_alias=True).decode()

    return RecordType(_to_json(schema), read, write)


def _invalid(text: str, error: Exception) -> InvalidRecord:
    invalid = InvalidRecord(f"the record does not fit the type: {error}")
    invalid.message = "the record does not fit the type"
    invalid.hint = "say in the schema what the type checks, or loosen the type"
    invalid.record, invalid.text = json.loads(text), text
    return invalid

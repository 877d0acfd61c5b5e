"""JSON Schemas of types that allow only what the type accepts.

pydantic writes schemas that describe: a URL is any text of the format `uri`, a decimal with places any
number, a key of a dictionary any name. A constraint must say it exactly. So each kind of type whose
validator is stricter than its schema is written here, as a pattern or a union. Where a kind leaves a
choice, a part is taken that holds what people write, such as names of hosts in ASCII.

What no schema can say (a file that exists, a function that checks) is a refusal with its place, before
anything is generated. Functions of the user are the exception: they run on the whole record.
"""

from __future__ import annotations

import datetime
import enum
import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

#: The member of a schema that says why there is none.
_REFUSED = "x-refused"
#: Kinds of types that depend on more than the text, by the function that checks.
_FUNCTIONS = {
    "PathType.validate_file": "whether a file exists, no schema can say; use Path",
    "PathType.validate_directory": "whether a folder exists, no schema can say; use Path",
    "PathType.validate_new": "whether a path is free, no schema can say; use Path",
    "PathType.validate_socket": "whether a socket exists, no schema can say; use Path",
    "import_string": "what can be imported, no schema can say; use str",
}
#: Largest number of integers between two bounds that are listed as keys.
_MOST_KEYS = 1000
#: Digits that every float keeps.
_DIGITS = 15
_NO_BLANK_ENDS = {"pattern": r"(?u)^(\S(?s:.*\S)?)?$"}

_LABEL = "[a-z0-9](?:-?[a-z0-9]){0,20}"
_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_NAME = "(?:-?[a-z0-9])*"
_HOST = rf"(?:(?:[a-z0-9]{_NAME}\.)*[a-z]{_NAME}|{_OCTET}(?:\.{_OCTET}){{3}})"
_PORT = "(?::[1-9][0-9]{0,3})?"
_PLACE = f"{_HOST}{_PORT}"
_USER = "(?:[A-Za-z0-9._~-]+(?::[A-Za-z0-9._~!$&*+-]*)?@)?"
_END = r"(?:[/?#][!-\[\]-z|~]*)?"
#: Regular expressions that mean the same in Python and elsewhere.
_ATOM = r"(?:(?:[A-Za-z0-9 _,:;@#=<>/'%&!~-]|\\[dwsDWSnt.*+?()]|\.|\[[A-Za-z0-9 _]+\])(?:[*+?]|\{[0-9]{1,3}\})?)"
_REGEX = rf"\^?(?:{_ATOM}|\({_ATOM}+(?:\|{_ATOM}+)*\))*\$?"
#: Schemes whose addresses have two slashes and a host.
_WITH_HOST = ("ftp", "http", "https", "ws", "wss")


def refusals(schema: Any, place: str = "#") -> Iterator[tuple[str, str]]:
    """Return the parts of a schema that cannot be written, each with its place and the reason."""
    if isinstance(schema, dict):
        if _REFUSED in schema:
            yield place, schema[_REFUSED]
        for name, part in schema.items():
            yield from refusals(part, f"{place}/{name}")
    elif isinstance(schema, list):
        for i, part in enumerate(schema):
            yield from refusals(part, f"{place}/{i}")


def _refused(reason: str) -> dict[str, Any]:
    return {_REFUSED: reason}


def _texts(pattern: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^(?:{pattern})$", **more}


def _all(schema: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "allOf": [*schema.get("allOf", []), *more]} if more else schema


def _rust(pattern: str) -> str:
    """Return a pattern of pydantic, marked as one where it could mean something else in a schema."""
    plain = not re.search(r"[\\]|\[\[|&&|--|~~|\(\?", pattern)
    return pattern if plain else f"(?u){pattern}"


def _ordered(bounds: dict[str, str]) -> list[dict[str, Any]]:
    """Return patterns for texts of digits in fixed places that are within bounds, in their order.

    A fraction may follow, of which six digits count.
    """
    found = []
    for name, bound in bounds.items():
        below = name in ("lt", "le")
        ways = [] if name in ("lt", "gt") else [f"{re.escape(bound)}Z?"]
        for i, c in enumerate(bound):
            digits = [d for d in "0123456789" if (d < c if below else d > c)]
            if c.isdigit() and digits:
                ways.append(f"{re.escape(bound[:i])}[{digits[0]}-{digits[-1]}].*")
        if not below and ":" in bound and "." not in bound:
            ways.append(rf"{re.escape(bound)}\.[0-9]{{0,5}}[1-9].*")
        found.append({"pattern": f"^(?:{'|'.join(ways)})$" if ways else "^(?!)$"})
    return found


def _moments(schema: Any, now: Any) -> dict[str, str]:
    """Return the bounds of dates or times as texts."""
    bounds = {name: schema[name] for name in ("gt", "ge", "lt", "le") if name in schema}
    if "now_op" in schema:
        bounds["lt" if schema["now_op"] == "past" else "gt"] = now
    return {name: bound.isoformat() for name, bound in bounds.items()}


class Generator(GenerateJsonSchema):
    """The maker of schemas."""

    # Titles repeat the names of properties, and each is in the prompt.
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: Any, mode: Any = "validation") -> Any:
        return _finished(super().generate(schema, mode))

    # ------------------------------------------------------------------ texts

    def str_schema(self, schema: Any) -> Any:
        out = super().str_schema(schema)
        pattern = out.pop("pattern", None)
        conditions = []
        if pattern is not None:
            if schema.get("regex_engine", self._config.regex_engine) == "python-re":
                pattern = f"(?u)^(?:{pattern})".replace(r"\Z", r"\z")
            out["pattern"] = _rust(pattern)
        if schema.get("strip_whitespace", self._config.str_strip_whitespace):
            conditions.append(_NO_BLANK_ENDS)
        if schema.get("ascii_only"):
            conditions.append({"pattern": "^[\\x00-\\x7f]*$"})
        return _all(out, *conditions)

    def bytes_schema(self, schema: Any) -> Any:
        if self._config.val_json_bytes in ("base64", "hex"):
            if "min_length" in schema or "max_length" in schema:
                return _refused("lengths of encoded bytes cannot be said")
            encoded = {
                "base64": {"type": "string", "format": "base64url"},
                "hex": _texts("(?:[0-9a-f]{2})*"),
            }
            return encoded[self._config.val_json_bytes]
        out = {**super().bytes_schema(schema), "x-bytes": True}
        # A length counts bytes; of ASCII these are the characters.
        return (
            {**out, "pattern": "^[\\x00-\\x7f]*$"}
            if "maxLength" in out or "minLength" in out
            else out
        )

    def json_schema(self, schema: Any) -> Any:
        return _refused("JSON inside of a text cannot be said; use the type itself")

    def complex_schema(self, schema: Any) -> Any:
        return _texts(r"-?[0-9]{1,9}(?:\.[0-9]{1,6})?[+-][0-9]{1,9}(?:\.[0-9]{1,6})?j")

    def uuid_schema(self, schema: Any) -> Any:
        return {"type": "string", "format": f"uuid{schema.get('version', '')}"}

    def url_schema(self, schema: Any) -> Any:
        return self._address(schema, _PLACE)

    def multi_host_url_schema(self, schema: Any) -> Any:
        return self._address(schema, f"{_PLACE}(?:,{_PLACE}){{0,7}}")

    def _address(self, schema: Any, place: str) -> Any:
        schemes = schema.get("allowed_schemes")
        rest = f"://{_USER}{place}{_END}"
        if schemes is None:
            hosts = "|".join(_WITH_HOST)
            scheme = "[a-z][a-z0-9+.-]{1,20}"
            opaque = f"(?!(?:{hosts}|file):){scheme}:[a-z0-9][!-\\[\\]-_a-z|~]*"
            pattern = f"(?!file:){scheme}{rest}|{opaque}"
            if schema.get("host_required"):
                pattern = f"(?!file:){scheme}{rest}"
        else:
            names = [re.escape(scheme) for scheme in schemes if scheme != "file"]
            ways = [f"(?:{'|'.join(names)}){rest}"] if names else []
            if "file" in schemes:
                ways.append(r"file:///[A-Za-z0-9._~/-]*")
            pattern = "|".join(ways)
        out = _texts(pattern)
        return {**out, "maxLength": schema["max_length"]} if "max_length" in schema else out

    # ------------------------------------------------------------------ numbers

    def decimal_schema(self, schema: Any) -> Any:
        """A decimal is written as a number; pydantic also allows texts."""
        names = {
            "ge": "minimum",
            "gt": "exclusiveMinimum",
            "le": "maximum",
            "lt": "exclusiveMaximum",
        }
        out: dict[str, Any] = {"type": "number"}
        for name, word in names.items():
            if name in schema:
                out[word] = _number(schema[name])
        steps = [{"multipleOf": _number(schema["multiple_of"])}] if "multiple_of" in schema else []
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if digits is None and places is not None:
            steps.append({"multipleOf": _power(-min(places, _DIGITS))})
        elif digits is not None:
            digits = min(digits, _DIGITS)
            ways = range(digits + 1) if places is None else [min(places, digits)]
            parts = [
                {
                    "multipleOf": _power(-way),
                    "exclusiveMinimum": -_power(digits - way),
                    "exclusiveMaximum": _power(digits - way),
                }
                for way in ways
            ]
            if places is not None and places >= digits:
                # Zero has a digit before the point.
                parts[0]["not"] = {"const": 0}
            steps.append({"anyOf": parts} if len(parts) > 1 else parts[0])
        return _all(out, *steps)

    # ------------------------------------------------------------------ times

    def date_schema(self, schema: Any) -> Any:
        bounds = _moments(schema, datetime.date.today())
        return {
            "type": "string",
            "format": "date",
            "allOf": [{"pattern": "^(?!0000)"}, *_ordered(bounds)],
        }

    def time_schema(self, schema: Any) -> Any:
        out = {"type": "string", "format": "time", "allOf": [{"pattern": "^(?!.*:60)"}]}
        bounds = {
            name: schema[name].isoformat() for name in ("gt", "ge", "lt", "le") if name in schema
        }
        if schema.get("tz_constraint") == "naive" or bounds:
            out["format"] = "partial-time"
        return _all(out, *_ordered(bounds))

    def datetime_schema(self, schema: Any) -> Any:
        out = {
            "type": "string",
            "format": "date-time",
            "allOf": [{"pattern": "^(?!0000)(?!.*:60)"}],
        }
        naive = schema.get("tz_constraint") == "naive"
        now = datetime.datetime.now(None if naive else datetime.timezone.utc).replace(microsecond=0)
        if schema.get("now_op") == "future":
            # The record is checked some time after the schema is made.
            now += datetime.timedelta(minutes=1)
        bounds = [schema[name] for name in ("gt", "ge", "lt", "le") if name in schema]
        if any(bound.tzinfo is None for bound in bounds):
            naive = True
        if naive:
            out["format"] = "partial-date-time"
        if not bounds and "now_op" not in schema:
            return out
        moments = _moments(schema, now)
        if not naive:
            # Moments are in the order of their texts in one zone only.
            out["allOf"].append({"pattern": "Z$"})
            aware = {
                name: schema[name].astimezone(datetime.timezone.utc)
                for name in moments
                if name in schema
            }
            moments = {
                name: aware.get(name, now).replace(tzinfo=None).isoformat() for name in moments
            }
        return _all(out, *_ordered(moments))

    def timedelta_schema(self, schema: Any) -> Any:
        if any(name in schema for name in ("gt", "ge", "lt", "le")):
            return _refused("bounds of durations cannot be said")
        n = "[0-9]{1,4}"
        time = f"T(?:{n}H(?:{n}M)?(?:{n}S)?|{n}M(?:{n}S)?|{n}S)"
        return _texts(f"P(?:{n}W|{n}D(?:{time})?|{time})")

    # ------------------------------------------------------------------ dictionaries

    def dict_schema(self, schema: Any) -> Any:
        out = super().dict_schema(schema)
        patterns = out.pop("patternProperties", None)
        if patterns is not None:
            out["additionalProperties"] = next(iter(patterns.values()))
        out.pop("propertyNames", None)
        if "keys_schema" in schema:
            keys = self.generate_inner(schema["keys_schema"])
            names = self._names(keys)
            if names:
                out["propertyNames"] = names
        return out

    def _names(self, keys: Any) -> dict[str, Any] | None:
        """Return the schema of the texts that stand for keys."""
        keys = self.get_schema_from_definitions(keys["$ref"]) if "$ref" in keys else keys
        kind, values = (
            keys.get("type"),
            keys.get("enum", [keys["const"]] if "const" in keys else None),
        )
        if values is not None and not all(isinstance(value, str) for value in values):
            return _refused("keys are texts, so values of an enumeration must be, too")
        if kind == "integer":
            low, high = keys.get("minimum"), keys.get("maximum")
            low = keys["exclusiveMinimum"] + 1 if "exclusiveMinimum" in keys else low
            high = keys["exclusiveMaximum"] - 1 if "exclusiveMaximum" in keys else high
            if (
                "multipleOf" in keys
                or (low, high) != (None, None)
                and (low not in (0, 1, None) or high is not None)
            ):
                if None in (low, high) or high - low > _MOST_KEYS:
                    return _refused(
                        "bounds of keys cannot be said, other than from 0 or 1 or of a few"
                    )
                step = keys.get("multipleOf", 1)
                return {
                    "enum": [
                        str(key)
                        for key in range(math.ceil(low), math.floor(high) + 1)
                        if key % step == 0
                    ]
                }
            return _texts(
                {None: "0|-?[1-9][0-9]{0,17}", 0: "0|[1-9][0-9]{0,17}", 1: "[1-9][0-9]{0,17}"}[low]
            )
        if kind == "number":
            if keys.keys() - {"type"}:
                return _refused("bounds of keys cannot be said")
            return _texts(r"(?!-0$)-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{0,4}[1-9])?")
        if kind == "boolean":
            return {"enum": ["true", "false"]}
        if kind in ("object", "array", "null"):
            return _refused(f"a key cannot be of the type {kind}")
        # Long names need no limit of their own, which would be an automaton.
        keys = {name: part for name, part in keys.items() if name != "maxLength" or part < 1000}
        return None if keys == {"type": "string"} else keys

    # ------------------------------------------------------------------ sets and defaults

    def set_schema(self, schema: Any) -> Any:
        return _hashable(super().set_schema(schema))

    def frozenset_schema(self, schema: Any) -> Any:
        return _hashable(super().frozenset_schema(schema))

    def custom_error_schema(self, schema: Any) -> Any:
        plain = schema.get("custom_error_type") == "is_hashable"
        return _SCALAR if plain else super().custom_error_schema(schema)

    def default_schema(self, schema: Any) -> Any:
        out = super().default_schema(schema)
        if isinstance(out.get("default"), float) and not math.isfinite(out["default"]):
            del out["default"]
        return out

    # ------------------------------------------------------------------ functions and literals

    def literal_schema(self, schema: Any) -> Any:
        for value in schema["expected"]:
            if isinstance(value, enum.Enum) and not isinstance(value, (str, int)):
                return _refused(f"no JSON is {value}; use its enumeration, or the value")
        return super().literal_schema(schema)

    def generate_inner(self, schema: Any) -> Any:
        function = schema.get("function", {}).get("function") if isinstance(schema, dict) else None
        name = getattr(function, "__qualname__", "")
        if not getattr(function, "__module__", "").startswith("pydantic."):
            return super().generate_inner(schema)
        if name == "ByteSize._validate":
            return {
                "anyOf": [
                    _texts(r"[0-9]{1,6}(?:\.[0-9]{1,3})? ?(?:[KMGTPE]i?)?B"),
                    {"type": "integer", "minimum": 0},
                ]
            }
        return _refused(_FUNCTIONS[name]) if name in _FUNCTIONS else super().generate_inner(schema)


_SCALAR = {"type": ["string", "number", "boolean", "null"]}


def _hashable(schema: Any) -> Any:
    return schema if schema.get("items") else {**schema, "items": _SCALAR}


def _number(value: Any) -> float | int:
    number = float(value)
    return int(number) if number.is_integer() else number


def _power(exponent: int) -> float | int:
    return _number(f"1e{exponent}")


@cache
def _email() -> str:
    try:
        from email_validator import SPECIAL_USE_DOMAIN_NAMES
    except ImportError:
        SPECIAL_USE_DOMAIN_NAMES = []
    taken = "|".join(re.escape(name) for name in SPECIAL_USE_DOMAIN_NAMES)
    local = "[a-zA-Z0-9_+](?:[.-]?[a-zA-Z0-9_+]){0,30}"
    return rf"{local}@(?!(?:[^@]*\.)?(?:{taken})$)(?:{_LABEL}\.){{1,3}}[a-z]{{2,20}}"


def _finished(schema: Any) -> Any:
    """Return a schema in which formats are written out that the type alone knows."""
    if isinstance(schema, list):
        return [_finished(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: _finished(part) for name, part in schema.items() if name != "x-bytes"}
    kind = schema.get("format")
    if kind in ("email", "name-email"):
        out = {**out, "pattern": f"^{_email()}$"}
    elif kind == "regex":
        out = {**out, "pattern": f"^{_REGEX}$"}
    elif kind in ("base64", "base64url") and "x-bytes" not in schema:
        out = {**out, "pattern": f"^{_ascii_in_base64('+/' if kind == 'base64' else '-_')}$"}
    return out


def _ascii_in_base64(more: str) -> str:
    """Return a pattern for texts in base64 whose bytes are ASCII, and so a text."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + more

    def some(clear: int, also: int = 0) -> str:
        chars = [c for i, c in enumerate(alphabet) if not i & clear and not i & also]
        return "[" + "".join(re.escape(c) for c in chars) + "]"

    # The highest bits of the three bytes are in the first, second and third character.
    first, second, third, any_ = some(32), some(8), some(2), some(0)
    ends = f"{first}{some(15)}==|{first}{second}{some(3)}="
    return f"(?:{first}{second}{third}{any_})*(?:{ends})?"

"""The texts of grammars, and how a matcher reads them.

A grammar is a text of Lark, or JSON: `{"grammars": [{KIND: SOURCE}]}` with one of the kinds
`json_schema`, `lark_grammar`, `regex`, `gbnf`, `choice`, `structural_tag`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

import ffwd

from .._arrays import ANY_WHITESPACE, refuse

GrammarFormat = Literal[
    "lark",
    "gbnf",
    "ebnf",
    "cfg",
    "grammar",
    "json_schema",
    "json",
    "regex",
    "choice",
    "llguidance",
]

_OPTIONS = {
    "item_separator",
    "key_separator",
    "whitespace_pattern",
    "whitespace_flexible",
    "coerce_one_of",
    "lenient",
}


def _grammar(kind: str, source: Any) -> str:
    return json.dumps({"grammars": [{kind: source}]}, ensure_ascii=False)


@dataclass
class Parsed:
    """A grammar that was read: its constraint, and the special tokens that it names as text."""

    constraint: ffwd.Constraint
    markers: tuple[str, ...] = ()


def parsed(text: str) -> Parsed:
    """Read a grammar.

    Raises:
        ffwd.Error: It does not parse or is not supported.
    """
    if not isinstance(text, str):
        raise TypeError(f"the grammar is a {type(text).__name__}, expected str")
    if not text.lstrip().startswith("{"):
        return Parsed(ffwd.Constraint.lark(text))
    try:
        document = json.loads(text)
    except ValueError as error:
        raise refuse("grammar", f"is neither Lark nor JSON: {error}") from error
    grammars = document.get("grammars")
    if not isinstance(grammars, list) or not grammars or not isinstance(grammars[0], dict):
        raise refuse("grammar", "has no list `grammars`")
    if len(grammars) > 1:
        raise refuse("grammars", "has several entries", "write them as one grammar")
    return _entry(grammars[0])


def _entry(entry: dict[str, Any]) -> Parsed:
    parts = {name: value for name, value in entry.items() if name != "name" and value is not None}
    if len(parts) != 1:
        raise refuse("grammars/0", f"has the members {sorted(parts)}", "one source is expected")
    ((kind, source),) = parts.items()
    if kind == "json_schema":
        return Parsed(_schema(source))
    if kind == "lark_grammar":
        return Parsed(ffwd.Constraint.lark(source))
    if kind == "regex":
        try:
            return Parsed(ffwd.Constraint.regex(source))
        except ffwd.Error as error:
            error.args = (f"invalid regex: {error}",)
            raise
    if kind == "gbnf":
        return Parsed(ffwd.Constraint.ebnf(source))
    if kind == "choice":
        return Parsed(ffwd.Constraint.choice(source))
    if kind == "structural_tag":
        constraint = ffwd.Constraint.structural_tag(source["tag"], whitespace=ANY_WHITESPACE)
        return Parsed(constraint, tuple(source["markers"]))
    raise refuse(f"grammars/0/{kind}", "is not known")


def _schema(schema: Any) -> ffwd.Constraint:
    options: dict[str, Any] = {}
    if isinstance(schema, dict) and "x-guidance" in schema:
        options = {name: v for name, v in schema["x-guidance"].items() if v is not None}
        schema = {name: value for name, value in schema.items() if name != "x-guidance"}
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise refuse(f"x-guidance/{unknown[0]}", "is not known", f"known are {sorted(_OPTIONS)}")
    if "whitespace_pattern" in options:
        raise refuse("whitespace_pattern", "is given", "use whitespace_flexible and separators")
    separators = options.get("item_separator", ","), options.get("key_separator", ":")
    whitespace: int | str = ANY_WHITESPACE
    if separators == (", ", ": "):
        whitespace = "single_space"
    elif separators != (",", ":"):
        raise refuse("item_separator", f"and key_separator are {separators!r}")
    elif not options.get("whitespace_flexible", True):
        whitespace = "compact"
    return ffwd.Constraint.json_schema(
        json.dumps(schema, ensure_ascii=False), whitespace=whitespace, exponent=True
    )


def _object(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if isinstance(value, str):
        value = json.loads(value)
    if not isinstance(value, dict):
        raise ValueError(f"{name} is no object")
    return value


def grammar_from_json_schema(schema: Any, defaults: Any = None, overrides: Any = None) -> str:
    """Return the grammar of a JSON Schema: JSON text, or a dict or bool.

    Raises:
        ValueError: The text is not JSON, or the options are no objects.
    """
    if isinstance(schema, str):
        schema = json.loads(schema)
    if not isinstance(schema, (dict, bool)):
        raise ValueError("the schema is neither an object nor a boolean")
    options = _object(defaults, "defaults")
    if isinstance(schema, dict):
        options = options | _object(schema.get("x-guidance"), "x-guidance")
    options = options | _object(overrides, "overrides")
    if options:
        schema = {
            **(schema if isinstance(schema, dict) else _of_bool(schema)),
            "x-guidance": options,
        }
    return _grammar("json_schema", schema)


def _of_bool(schema: bool) -> dict[str, Any]:
    return {} if schema else {"not": {}}


def grammar_from_lark(lark: str) -> str:
    """Return the grammar of a text of Lark."""
    return _grammar("lark_grammar", lark)


def grammar_from_regex(regex: str) -> str:
    """Return the grammar of a regular expression."""
    return _grammar("regex", regex)


def grammar_from(format: GrammarFormat, text: str) -> str:  # noqa: A002, a name of llguidance
    """Return the grammar of a text of some format.

    Raises:
        ValueError: The format is not known, or the text of a choice is no list.
    """
    if format == "lark":
        return grammar_from_lark(text)
    if format in ("gbnf", "ebnf", "cfg", "grammar"):
        return _grammar("gbnf", text)
    if format in ("json_schema", "json"):
        return grammar_from_json_schema(text)
    if format == "regex":
        return grammar_from_regex(text)
    if format == "choice":
        choices = json.loads(text) if isinstance(text, str) else list(text)
        if not isinstance(choices, list):
            raise ValueError("the choices are no list")
        return _grammar("choice", choices)
    if format == "llguidance":
        return text
    raise ValueError(f"Unknown grammar type: {format}")


class StructTag:
    """A tag in running text, such as the call of a function.

    Args:
        trigger: The text with which the tag is recognised.
        begin: The text in front of the content; begins with `trigger`.
        grammar: JSON Schema of the content, as dict or JSON text, or a text of Lark.
        end: The text after the content.
    """

    def __init__(self, *, trigger: str, begin: str, grammar: Any, end: str) -> None:
        self.trigger, self.begin, self.grammar, self.end = trigger, begin, grammar, end
        assert len(trigger) > 0, "trigger must not be empty"
        assert begin.startswith(trigger), "begin must start with trigger"

    @staticmethod
    def to_grammar(
        tags: list[StructTag],
        *,
        assume_special: bool = True,
        text_regex: str = r"(.|\n)*",
    ) -> str:
        """Return the grammar of text in which the tags may occur.

        Args:
            tags: The tags, at least one.
            assume_special: Triggers of the form `<...>` that are special tokens are these tokens.
            text_regex: The default only.

        Raises:
            ffwd.Error: `text_regex` is another one.
        """
        assert len(tags) > 0, "tags must not be empty"
        if text_regex != r"(.|\n)*":
            raise refuse("text_regex", f"is {text_regex!r}", "only any text can be between tags")
        made = [
            {"type": "tag", "begin": tag.begin, "content": tag._content(), "end": tag.end}
            for tag in tags
        ]
        triggers = list(dict.fromkeys(tag.trigger for tag in tags))
        body = {"type": "triggered_tags", "triggers": triggers, "tags": made}
        markers = [t for t in triggers if assume_special and t[0] == "<" and t[-1] == ">"]
        tag = {"type": "structural_tag", "format": body}
        return _grammar("structural_tag", {"tag": tag, "markers": markers})

    def _content(self) -> dict[str, Any]:
        source = self.grammar
        if isinstance(source, str) and not source.lstrip().startswith("{"):
            return {"type": "grammar", "grammar": source}
        schema = json.loads(source) if isinstance(source, str) else source
        grammars = schema.get("grammars") if isinstance(schema, dict) else None
        if isinstance(grammars, list) and len(grammars) == 1 and len(schema) == 1:
            ((kind, inner),) = grammars[0].items()
            if kind == "lark_grammar":
                return {"type": "grammar", "grammar": inner}
            schema = inner
        if isinstance(schema, dict):
            schema = {name: value for name, value in schema.items() if name != "x-guidance"}
        return {"type": "json_schema", "json_schema": schema}


class _Compiler:
    """A compiler of texts, deprecated by llguidance."""

    def compile(self, text: str, check: bool = True) -> str:
        """Return the grammar of a text.

        Raises:
            ValueError: `check`, and it is not valid.
        """
        grammar = self._from(text)
        if check:
            parsed(grammar)
        return grammar

    def _from(self, text: str) -> str:
        raise NotImplementedError


class LarkCompiler(_Compiler):
    """Compiles texts of Lark. Deprecated; use `grammar_from`."""

    def _from(self, text: str) -> str:
        return grammar_from_lark(text)


class RegexCompiler(_Compiler):
    """Compiles regular expressions. Deprecated; use `grammar_from`."""

    def _from(self, text: str) -> str:
        return grammar_from_regex(text)


class JsonCompiler(_Compiler):
    """Compiles JSON Schemas. Deprecated; use `grammar_from`."""

    def __init__(
        self,
        separators: tuple[str, str] | None = None,
        whitespace_flexible: bool = False,
        coerce_one_of: bool = False,
        whitespace_pattern: str | None = None,
    ) -> None:
        item, key = separators or (None, None)
        self._options = {
            "item_separator": item,
            "key_separator": key,
            "whitespace_flexible": whitespace_flexible,
            "coerce_one_of": coerce_one_of,
            "whitespace_pattern": whitespace_pattern,
        }

    def _from(self, text: str) -> str:
        return grammar_from_json_schema(text, overrides=self._options)


# Perl classes, and what they are in ASCII.
_ASCII = {
    "d": ("0-9", "0-9"),
    "w": ("0-9a-zA-Z_", "0-9a-zA-Z_"),
    "s": (r" \t\n\r\f\v", r" \t\n\r\f\v"),
}


def regex_to_lark(regex: str, use_ascii: str = "d") -> str:
    r"""Return a regular expression for use between slashes in Lark.

    Args:
        regex: The expression.
        use_ascii: The classes, of `d`, `w` and `s`, that only have characters of ASCII.
    """
    written: list[str] = []
    inside = False
    for part in re.findall(r"\\.|.", regex, re.DOTALL):
        name = part[1:].lower()
        if part == "/":
            part = r"\/"
        elif part == "\n":
            part = r"\n"
        elif part[0] == "\\" and name in _ASCII and name in use_ascii:
            members, _ = _ASCII[name]
            if part[1].islower():
                part = members if inside else f"[{members}]"
            elif not inside:
                part = f"[^{members}]"
        elif part in "[]":
            inside = part == "["
        written.append(part)
    return "".join(written)

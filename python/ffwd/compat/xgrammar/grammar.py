"""`Grammar`: what an output may be, from the sources that XGrammar knows."""

from __future__ import annotations

import json
import re
from typing import Any

import ffwd
from ffwd import _ffwd

from ._refused import ANY_WHITESPACE, refuse
from .config import get_serialization_version
from .exception import DeserializeFormatError, InvalidStructuralTagError, reraise
from .structural_tag import structural_tag_text, typed
from .tokenizer_info import read_serialized

# The most that `max_whitespace_cnt` can ask for.
_MOST_WHITESPACE = 64
_ANY_JSON = '{"type": ["object", "array"]}'
_METHODS = {"json_schema", "regex", "lark", "gbnf", "structural_tag", "then", "or_else", "choice"}


def whitespace_option(
    any_whitespace: bool,
    indent: int | None,
    separators: tuple[str, str] | None,
    max_whitespace_cnt: int | None,
) -> str | int:
    """Return the whitespace of `Constraint.json_schema` for the options of XGrammar.

    Raises:
        ffwd.Error: The text would have indentation, or other separators than those of `json.dumps`
            and the compact ones.
        RuntimeError: `max_whitespace_cnt` is not positive.
    """
    if max_whitespace_cnt is not None and max_whitespace_cnt < 1:
        raise RuntimeError(
            f"max_whitespace_cnt is {max_whitespace_cnt}; expected a positive number"
        )
    if any_whitespace:
        return min(max_whitespace_cnt or ANY_WHITESPACE, _MOST_WHITESPACE)
    if indent is not None:
        raise refuse("indent", f"is {indent}", "leave it out; any_whitespace=True permits it")
    separators = tuple(separators) if separators else (", ", ": ")  # type: ignore[assignment]
    if separators == (", ", ": "):
        return "single_space"
    if separators == (",", ":"):
        return "compact"
    raise refuse("separators", f"are {separators!r}", "use (', ', ': ') or (',', ':')")


def schema_constraint(
    schema: Any,
    any_whitespace: bool = True,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    strict_mode: bool = True,
    max_whitespace_cnt: int | None = None,
    any_order: bool = False,
) -> ffwd.Constraint:
    """Return the constraint of a JSON Schema with the options of XGrammar."""
    whitespace = whitespace_option(any_whitespace, indent, separators, max_whitespace_cnt)
    try:
        return ffwd.Constraint.json_schema(
            schema,
            whitespace=whitespace,
            key_order="any" if any_order else "declared",
            exponent=True,
            closed_objects=strict_mode,
        )
    except ffwd.Error as error:
        reraise(error)


def gbnf_constraint(text: str, root_rule_name: str = "root") -> ffwd.Constraint:
    """Return the constraint of a grammar in GBNF whose first rule has any name."""
    if root_rule_name != "root":
        if re.search(r"^\s*root\s*::=", text, re.MULTILINE):
            raise refuse(
                "root_rule_name", f"is {root_rule_name!r} beside a rule `root`", "rename that rule"
            )
        text = f"{text}\nroot ::= {root_rule_name}\n"
    try:
        return ffwd.Constraint.gbnf(text)
    except ffwd.Error as error:
        reraise(error)


class Grammar:
    """What an output may be. Made by its static methods.

    `str()` gives the text that it was made from.
    """

    def __init__(self, constraint: ffwd.Constraint, text: str) -> None:
        self.constraint = constraint
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Grammar {self._text[:60]!r}>"

    @staticmethod
    def from_ebnf(ebnf_string: str | Grammar, *, root_rule_name: str = "root") -> Grammar:
        """Make a grammar from a text in GBNF. A grammar is returned as it is.

        Raises:
            ffwd.Error, RuntimeError: The text does not parse or is not supported.
        """
        if isinstance(ebnf_string, Grammar):
            return ebnf_string
        return Grammar(gbnf_constraint(ebnf_string, root_rule_name), ebnf_string)

    @staticmethod
    def from_json_schema(
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        print_converted_ebnf: bool = False,
        any_order: bool = False,
    ) -> Grammar:
        """Make a grammar from a JSON Schema.

        Args:
            schema: JSON text, a dict, or a class of pydantic.
            any_whitespace: Permit whitespace at each position.
            indent: Refused unless `any_whitespace`.
            separators: `(", ", ": ")` or `(",", ":")`, without `any_whitespace`.
            strict_mode: Permit declared properties only, where some are declared.
            max_whitespace_cnt: The most whitespace at a position, up to 64.
            print_converted_ebnf: Refused.
            any_order: Permit properties in any order. Required ones are still required.

        Raises:
            ffwd.Error, RuntimeError: The schema is not valid or not supported, or an option has
                another value.
        """
        if print_converted_ebnf:
            raise refuse(
                "print_converted_ebnf", "is true, but schemas are not converted to a grammar"
            )
        constraint = schema_constraint(
            schema, any_whitespace, indent, separators, strict_mode, max_whitespace_cnt, any_order
        )
        return Grammar(constraint, schema if isinstance(schema, str) else repr(schema))

    @staticmethod
    def from_regex(regex_string: str, *, print_converted_ebnf: bool = False) -> Grammar:
        """Make a grammar from a regular expression that the whole output matches.

        Raises:
            ffwd.Error, RuntimeError: The expression does not parse, or `print_converted_ebnf`.
        """
        if print_converted_ebnf:
            raise refuse(
                "print_converted_ebnf", "is true, but patterns are not converted to a grammar"
            )
        try:
            return Grammar(ffwd.Constraint.regex(regex_string), regex_string)
        except ffwd.Error as error:
            reraise(error)

    @staticmethod
    def from_lark(
        lark_string: str,
        *,
        tokenizer_info: Any = None,
        named_grammars: dict[str, Any] | None = None,
    ) -> Grammar:
        """Make a grammar from the subset of Lark's notation that `Constraint.lark` reads.

        Raises:
            ffwd.Error, RuntimeError: The text does not parse or is not supported, or
                `named_grammars` is given.
        """
        del tokenizer_info
        if named_grammars:
            raise refuse("named_grammars", "is given", "write their rules into the grammar")
        try:
            return Grammar(ffwd.Constraint.lark(lark_string), lark_string)
        except ffwd.Error as error:
            reraise(error)

    @staticmethod
    def from_structural_tag(*args: Any, **kwargs: Any) -> Grammar:
        """Make a grammar from a structural tag: an object, JSON text or a dict.

        The older form `from_structural_tag(tags, triggers)` is understood.

        Raises:
            InvalidJSONError, InvalidStructuralTagError: The tag is not valid or not supported.
            TypeError: The arguments are others.
        """
        text = typed(structural_tag_text(args, kwargs))
        try:
            constraint = ffwd.Constraint.structural_tag(
                text, whitespace=ANY_WHITESPACE, closed_objects=True
            )
        except ffwd.Error as error:
            reraise(error, InvalidStructuralTagError)
        return Grammar(constraint, text)

    @staticmethod
    def builtin_json_grammar() -> Grammar:
        """Return the grammar of any JSON object or array, with whitespace at each position."""
        return Grammar(schema_constraint(_ANY_JSON), _ANY_JSON)

    @staticmethod
    def concat(*grammars: Grammar) -> Grammar:
        """Return the grammar of a text of the first, followed by one of the second, and so on."""
        return _combined(grammars, "then")

    @staticmethod
    def union(*grammars: Grammar) -> Grammar:
        """Return the grammar of the texts of any of them."""
        return _combined(grammars, "or_else")

    def serialize_json(self) -> str:
        """Return the grammar as JSON, for `deserialize_json`."""
        call = _call(self.constraint)
        version = get_serialization_version()
        return json.dumps({"text": self._text, "constraint": call, "__VERSION__": version})

    @staticmethod
    def deserialize_json(json_string: str) -> Grammar:
        """Read the text of `serialize_json`.

        Raises:
            InvalidJSONError: The text is not JSON.
            DeserializeVersionError: It is of another version.
            DeserializeFormatError: It has another form.
        """
        parts = read_serialized(json_string)
        try:
            return Grammar(_made(parts["constraint"]), parts["text"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DeserializeFormatError(f"not a serialised Grammar: {error!r}") from error


def _combined(grammars: tuple[Grammar, ...], method: str) -> Grammar:
    if not grammars:
        raise refuse("grammars", "are none")
    constraint = grammars[0].constraint
    try:
        for other in grammars[1:]:
            constraint = getattr(constraint, method)(other.constraint)
    except ffwd.Error as error:
        reraise(error)
    return Grammar(constraint, f" {method} ".join(str(grammar) for grammar in grammars))


def _call(constraint: ffwd.Constraint) -> dict[str, Any]:
    """The call that made a constraint, in values that JSON has."""
    _, (method, arguments) = constraint.__reduce__()  # type: ignore[misc]
    made = {
        name: _call(value) if isinstance(value, ffwd.Constraint) else value
        for name, value in arguments.items()
    }
    return {"method": method, "arguments": made}


def _made(call: dict[str, Any]) -> ffwd.Constraint:
    if call["method"] not in _METHODS:
        raise ValueError(f"unknown method {call['method']!r}")
    arguments = {
        name: _made(value) if name in ("self", "other") else value
        for name, value in call["arguments"].items()
    }
    return _ffwd._make_constraint(call["method"], arguments)

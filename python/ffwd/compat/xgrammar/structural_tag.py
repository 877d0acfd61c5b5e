"""The classes from which programs build structural tags. They only collect members.

Everything is checked when a grammar is made from the tag: `Grammar.from_structural_tag`,
`GrammarCompiler.compile_structural_tag`.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from .exception import InvalidStructuralTagError


def plain(value: Any) -> Any:
    """Return a value of dicts and lists, with the dumps of members that are classes."""
    if isinstance(value, Member):
        return value.model_dump()
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    if hasattr(value, "model_json_schema"):
        return value.model_json_schema()
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return value


class Member:
    """A part of a structural tag: its members by name, given by keyword.

    Raises:
        TypeError: A member is missing, or the part has none of this name.
    """

    _type = ""
    _required: tuple[str, ...] = ()
    _optional: dict[str, Any] = {}

    def __init__(self, **members: Any) -> None:
        kind = members.pop("type", self._type)
        if kind != self._type:
            raise TypeError(f"{type(self).__name__} is of type {self._type!r}, not {kind!r}")
        missing = [name for name in self._required if name not in members]
        unknown = [n for n in members if n not in self._required and n not in self._optional]
        if missing or unknown:
            fault = f"lacks {missing}" if missing else f"has no member {unknown}"
            raise TypeError(f"{type(self).__name__} {fault}")
        self.type = self._type
        for name, value in (copy.deepcopy(self._optional) | members).items():
            setattr(self, name, value)

    def model_dump(self, **_options: Any) -> dict[str, Any]:
        """Return the part as dicts and lists; options are ignored."""
        names = ("type", *self._required, *self._optional)
        return {name: plain(getattr(self, name)) for name in names if hasattr(self, name)}

    def model_dump_json(self, **_options: Any) -> str:
        """Return the part as JSON text; options are ignored."""
        return json.dumps(self.model_dump(), ensure_ascii=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Member) and self.model_dump() == other.model_dump()

    def __repr__(self) -> str:
        members = {name: value for name, value in vars(self).items() if name != "type"}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in members.items())})"


def _member(name: str, kind: str, *required: str, **optional: Any) -> type[Member]:
    """Make the class of a part."""
    about = f"A part of type `{kind}`. Members: {', '.join([*required, *optional]) or 'none'}."
    body = {"_type": kind, "_required": required, "_optional": optional, "__doc__": about}
    return type(name, (Member,), {**body, "__module__": __name__})


ConstStringFormat = _member("ConstStringFormat", "const_string", "value")
JSONSchemaFormat = _member(
    "JSONSchemaFormat",
    "json_schema",
    "json_schema",
    style="json",
    any_order=False,
    max_whitespace_cnt=None,
    excludes=[],
)
AnyTextFormat = _member("AnyTextFormat", "any_text", excludes=[], max_tokens=None, max_chars=None)
TokenFormat = _member("TokenFormat", "token", "token")
ExcludeTokenFormat = _member("ExcludeTokenFormat", "exclude_token", exclude_tokens=[])
AnyTokensFormat = _member("AnyTokensFormat", "any_tokens", exclude_tokens=[], max_tokens=None)
GrammarFormat = _member("GrammarFormat", "grammar", "grammar")
RegexFormat = _member("RegexFormat", "regex", "pattern")
SequenceFormat = _member("SequenceFormat", "sequence", "elements")
OrFormat = _member("OrFormat", "or", "elements")
TagFormat = _member("TagFormat", "tag", "begin", "content", "end")
TriggeredTagsFormat = _member(
    "TriggeredTagsFormat",
    "triggered_tags",
    "triggers",
    "tags",
    at_least_one=False,
    stop_after_first=False,
    excludes=[],
)
TokenTriggeredTagsFormat = _member(
    "TokenTriggeredTagsFormat",
    "token_triggered_tags",
    "trigger_tokens",
    "tags",
    exclude_tokens=[],
    at_least_one=False,
    stop_after_first=False,
)
TagsWithSeparatorFormat = _member(
    "TagsWithSeparatorFormat",
    "tags_with_separator",
    "tags",
    "separator",
    at_least_one=False,
    stop_after_first=False,
)
OptionalFormat = _member("OptionalFormat", "optional", "content")
PlusFormat = _member("PlusFormat", "plus", "content")
StarFormat = _member("StarFormat", "star", "content")
RepeatFormat = _member("RepeatFormat", "repeat", "min", "max", "content")
DispatchFormat = _member("DispatchFormat", "dispatch", "rules", loop=True, excludes=[])
TokenDispatchFormat = _member(
    "TokenDispatchFormat", "token_dispatch", "rules", loop=True, exclude_tokens=[]
)
QwenXMLParameterFormat = _member("QwenXMLParameterFormat", "qwen_xml_parameter", "json_schema")

Format = Member


class StructuralTagItem:
    """A tag of the older interface.

    Args:
        begin: The text in front.
        schema: JSON Schema of the content: JSON text, a dict, or a class of pydantic.
        end: The text after it.
    """

    def __init__(self, *, begin: str, schema: Any, end: str) -> None:
        self.begin = begin
        self.schema_ = schema
        self.end = end

    def tag(self) -> Member:
        """Return the tag as a part of a structural tag."""
        schema = plain(self.schema_)
        if isinstance(schema, str):
            schema = json.loads(schema)
        content = JSONSchemaFormat(json_schema=schema)
        return TagFormat(begin=self.begin, content=content, end=self.end)


class StructuralTag(_member("StructuralTag", "structural_tag", "format")):  # type: ignore[misc]
    """A structural tag. Member: format."""

    @staticmethod
    def from_legacy_structural_tag(
        tags: list[StructuralTagItem], triggers: list[str]
    ) -> StructuralTag:
        """Make one from tags and triggers of the older interface."""
        return StructuralTag(
            format=TriggeredTagsFormat(triggers=triggers, tags=[item.tag() for item in tags])
        )

    @staticmethod
    def from_json(json_str: str | dict[str, Any]) -> StructuralTag:
        """Make one from JSON text or a dict.

        Raises:
            InvalidStructuralTagError: It is no object with a member `format`.
        """
        members = json.loads(json_str) if isinstance(json_str, str) else json_str
        if not isinstance(members, dict) or "format" not in members:
            raise InvalidStructuralTagError("a structural tag is an object with a member `format`")
        return StructuralTag(**members)


def structural_tag_text(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the JSON text of a tag, or of tags and triggers: the arguments of a call."""
    names = (
        ("structural_tag",)
        if len(args) == 1 or "structural_tag" in kwargs
        else ("tags", "triggers")
    )
    values = [*args, *(kwargs[name] for name in names[len(args) :] if name in kwargs)]
    if len(values) != len(names):
        raise TypeError("expected a structural tag, or tags and triggers")
    tag = values[0]
    if len(values) == 2:
        tag = StructuralTag.from_legacy_structural_tag(*values)
    if isinstance(tag, str):
        return tag
    if isinstance(tag, dict):
        return json.dumps(plain(tag), ensure_ascii=False)
    if hasattr(tag, "model_dump_json"):
        return tag.model_dump_json()
    raise TypeError(f"expected a structural tag, got {type(tag).__name__}")


def typed(text: str) -> str:
    """Return the text of a structural tag with its member `type`, which may be left out."""
    try:
        tag = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(tag, dict) and "format" in tag and "type" not in tag:
        return json.dumps({"type": "structural_tag", **tag}, ensure_ascii=False)
    return text

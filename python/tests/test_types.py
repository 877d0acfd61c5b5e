"""What the schema of a type allows, the type takes: random texts of many types, read by pydantic."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import json
import os
import pathlib
import random
import typing
import uuid
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar, Union

import pytest

import ffwd

pydantic = pytest.importorskip("pydantic")
typing_extensions = pytest.importorskip("typing_extensions")
from pydantic import BaseModel, ConfigDict, Field, StringConstraints  # noqa: E402

from ffwd.schemas import record_type  # noqa: E402

LONG = os.environ.get("FFWD_TEST") == "long"
TEXTS = 60 if LONG else 12
COMPILER = ffwd.Compiler(
    ffwd.Vocabulary.from_tokens(
        [bytes([b]) for b in range(256)] + [b"</s>"], eos=256, special=[256]
    )
)


def texts(schema: str, count: int, seed: int) -> list[str]:
    """Random texts that a schema allows: characters at random, then the shortest end."""
    grammar = COMPILER.compile(ffwd.Constraint.json_schema(schema, closed_objects=True))
    words, rng, found = grammar.vocabulary.bitmask_words, random.Random(seed), []
    row = memoryview(bytearray(4 * words)).cast("i")
    for _ in range(count):
        matcher, text, stop = grammar.matcher(), bytearray(), rng.randint(3, 120)
        while len(text) < stop:
            matcher.fill_next_token_bitmask(row)
            allowed = [t for t in range(257) if row[t // 32] >> (t % 32) & 1]
            if 256 in allowed and (len(allowed) == 1 or rng.random() < 0.3):
                break
            allowed = [t for t in allowed if t != 256]
            plain = [t for t in allowed if 32 <= t < 127]
            # Quotes, digits and signs more often than letters, so that values end and differ.
            rare = [t for t in plain if chr(t) in '"0179.-+: ,']
            choice = rng.random()
            token = rng.choice(
                allowed if choice < 0.1 else plain or allowed if choice < 0.7 else rare or allowed
            )
            assert matcher.accept_token(token)
            text.append(token)
        else:
            rest = matcher.shortest_completion()
            assert rest is not None, text
            text += rest
        found.append(text.decode())
    return found


class Color(enum.Enum):
    red = "red"
    blue = "blue"


class Number(enum.IntEnum):
    one = 1
    two = 2


class Mixed(enum.Enum):
    one = 1
    text = "x"
    none = None


class Bits(enum.IntFlag):
    a = 1
    b = 2


class Pair(typing.NamedTuple):
    a: int
    b: str = "x"


def of(*names: str) -> list[Any]:
    return [getattr(pydantic, name) for name in names if hasattr(pydantic, name)]


def text(**constraints: Any) -> Any:
    return Annotated[str, StringConstraints(**constraints)]


def with_(kind: Any, **constraints: Any) -> Any:
    return Annotated[kind, Field(**constraints)]


D, DAY, MOMENT = decimal.Decimal, dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12, 30, 15)
UTC = dt.timezone.utc
PATTERNS = [
    r"^\d{3}$",
    r"^\w+ \w+$",
    r"\A[a-c]+\z",
    r"^(?x) a b c $",
    r"^\p{Lu}\pL*$",
    r"^(?P<year>\d{4})-[A-Z]{2}$",
    r"(?i)^inv-[0-9]{3}$",
    "^[[:alpha:]]+$",
    "[[:^digit:]]",
    r"^\W+$",
    r"^\S+\s\S+$",
    r"\bx\b",
    r"^[^\d\s]{2}$",
    "^[a-z&&[^aeiou]]+$",
    "^a.b$",
    "(?s)^a.b$",
    "x|y",
    "^(?:ab)*$",
    r"^[\w.-]+$",
    "a",
    "",
    "^é+$",
    r"^\D$",
    r"^[\p{Greek}]{2,4}$",
    "^[a-z-]{1,3}$",
    r"\.$",
]
KEYS = [
    int,
    float,
    bool,
    str,
    uuid.UUID,
    dt.date,
    dt.datetime,
    dt.time,
    dt.timedelta,
    Color,
    Literal["x", "y"],
    D,
    text(pattern="^[a-z]{2}$"),
    text(min_length=2, max_length=3),
    text(strip_whitespace=True, min_length=1),
    with_(int, ge=0),
    with_(int, ge=1),
    with_(int, ge=3, le=9),
    with_(int, gt=0),
    ipaddress.IPv4Address,
    pathlib.Path,
    bytes,
    *of("HttpUrl", "UUID4", "PositiveInt", "NonNegativeInt"),
    Annotated[int, Field(multiple_of=5, ge=0, le=50)],
    Union[int, str],
    Optional[str],
]
SIMPLE = [
    int,
    float,
    bool,
    str,
    bytes,
    type(None),
    D,
    dict,
    list,
    object,
    Any,
    tuple,
    set,
    uuid.UUID,
    dt.date,
    dt.time,
    dt.datetime,
    dt.timedelta,
    Color,
    Number,
    Mixed,
    Bits,
    Pair,
    pathlib.Path,
    complex,
    typing.Pattern,
    collections.Counter,
    typing.Hashable,
    ipaddress.IPv4Address,
    ipaddress.IPv4Interface,
    ipaddress.IPv4Network,
    ipaddress.IPv6Address,
    ipaddress.IPv6Interface,
    ipaddress.IPv6Network,
]
NAMES = (
    "StrictInt StrictFloat StrictBool StrictStr PositiveInt NegativeInt NonNegativeInt NonPositiveInt PositiveFloat NegativeFloat "
    "NonNegativeFloat NonPositiveFloat FiniteFloat UUID1 UUID3 UUID4 UUID5 UUID6 UUID7 UUID8 Base64Bytes Base64Str Base64UrlBytes "
    "Base64UrlStr SecretStr SecretBytes ByteSize PastDate FutureDate AwareDatetime NaiveDatetime PastDatetime FutureDatetime HttpUrl "
    "AnyUrl AnyHttpUrl FileUrl FtpUrl WebsocketUrl AnyWebsocketUrl PostgresDsn CockroachDsn AmqpDsn RedisDsn MongoDsn KafkaDsn NatsDsn "
    "MySQLDsn MariaDBDsn ClickHouseDsn SnowflakeDsn EmailStr NameEmail IPvAnyAddress IPvAnyInterface IPvAnyNetwork StrictBytes"
).split()
SIMPLE += of(*NAMES)
BOUNDED = [
    *(text(pattern=pattern) for pattern in PATTERNS),
    *(text(pattern=pattern, strip_whitespace=True, max_length=30) for pattern in PATTERNS),
    text(min_length=3),
    text(max_length=2),
    text(strip_whitespace=True, min_length=3, max_length=5),
    text(to_lower=True, min_length=3),
    text(to_upper=True, pattern="^[A-Z]+$"),
    text(strict=True),
    *(
        with_(int, **{name: bound})
        for name in ("gt", "ge", "lt", "le", "multiple_of")
        for bound in (7, 1000)
    ),
    *(with_(float, **{name: bound}) for name in ("gt", "ge", "lt", "le") for bound in (0, -2.5)),
    with_(float, multiple_of=0.5),
    with_(float, gt=0, lt=1),
    with_(int, gt=-3, lt=3),
    with_(float, allow_inf_nan=True),
    *(
        with_(D, **{name: D(bound)})
        for name in ("gt", "ge", "lt", "le")
        for bound in ("0", "-2.5", "99.99")
    ),
    *(with_(D, max_digits=digits) for digits in (1, 3, 6, 20)),
    *(with_(D, decimal_places=places) for places in (0, 2, 20)),
    with_(D, max_digits=6, decimal_places=2, gt=0),
    with_(D, max_digits=2, decimal_places=2),
    with_(D, max_digits=5, decimal_places=0),
    with_(D, multiple_of=D("0.05")),
    with_(D, max_digits=4, ge=D("10"), le=D("20")),
    with_(D, allow_inf_nan=True),
    *(with_(dt.date, **{name: DAY}) for name in ("gt", "ge", "lt", "le")),
    *(with_(dt.datetime, **{name: MOMENT}) for name in ("gt", "ge", "lt", "le")),
    *(
        with_(dt.datetime, **{name: MOMENT.replace(tzinfo=UTC)})
        for name in ("gt", "ge", "lt", "le")
    ),
    *(with_(dt.time, **{name: dt.time(12, 30)}) for name in ("gt", "ge", "lt", "le")),
    with_(dt.date, gt=DAY, lt=dt.date(2025, 1, 1)),
    with_(bytes, max_length=3),
    with_(bytes, min_length=2),
    with_(list[int], min_length=1, max_length=2),
    with_(set[int], min_length=2, max_length=3),
    with_(frozenset[str], max_length=1),
    with_(collections.deque[int], max_length=2),
    with_(dict[str, int], min_length=1, max_length=2),
    with_(dict[int, int], min_length=2),
    with_(tuple[int, ...], min_length=1),
    with_(Literal["a", "b"], description="x"),
    pathlib.PurePosixPath,
]
BUILT = [
    list[int],
    list[str],
    tuple[int, str],
    tuple[int, ...],
    tuple[()],
    set[Literal["a", "b"]],
    frozenset[int],
    typing.Sequence[int],
    typing.Iterable[int],
    typing.Mapping[str, int],
    collections.OrderedDict[str, int],
    collections.defaultdict[str, list[int]],
    collections.deque[Color],
    Optional[int],
    Union[int, str],
    Union[int, None, str],
    Literal[1, "a", True, None, -3],
    Literal["a"],
    Literal[Number.one],
    list[Color],
    list[dt.date],
    list[Optional[dt.datetime]],
    dict[str, Any],
    dict[str, dict[int, int]],
    typing.Deque[uuid.UUID],
    Union[dt.date, dt.datetime],
    Union[float, bool],
    list[Union[int, Color]],
    tuple[Color, Number, Mixed],
    Annotated[Union[int, str], Field(description="x")],
    typing_extensions.TypeAliasType("Alias", list[int]),
    pydantic.Secret[int],
    pydantic.Secret[dt.date],
    dict[Color, list[D]],
    set[tuple[Literal[0, 1], Literal[0, 1]]],
    list[pydantic.HttpUrl],
    Optional[pydantic.EmailStr],
    list[bytes],
    list[pathlib.Path],
    *(dict[key, int] for key in KEYS),
    *(dict[str, dict[key, bool]] for key in KEYS),
    *(list[dict[key, Color]] for key in KEYS[:12]),
    *(Optional[kind] for kind in SIMPLE[:30]),
    *(list[kind] for kind in SIMPLE[10:60]),
]
TYPES = SIMPLE + BOUNDED + BUILT

#: Types that a schema cannot say exactly, with a word of the reason.
REFUSED = [
    (pydantic.Json[int], "JSON inside"),
    (pydantic.Json, "JSON inside"),
    (pydantic.FilePath, "exists"),
    (pydantic.DirectoryPath, "exists"),
    (pydantic.NewPath, "free"),
    (pydantic.ImportString, "imported"),
    (dict[tuple[int, int], int], "key"),
    (dict[Number, int], "enumeration"),
    (with_(dt.timedelta, gt=dt.timedelta(1)), "durations"),
    (dict[with_(int, le=10**6), int], "bounds of keys"),
    (typing.Callable[[int], int], "Schema"),
    (dict[None, int], "key"),
    (Literal[Color.red], "use its enumeration"),
]

T = TypeVar("T")


class Pos(BaseModel):
    lat: float = Field(ge=-90, le=90)
    lon: float = Field(ge=-180, le=180)


class Car(BaseModel):
    kind: Literal["car", "van"]
    doors: Literal[3, 5]


class Bike(BaseModel):
    kind: Literal["bike"]
    gears: int = Field(ge=1, le=30)


class Trip(BaseModel):
    what: Annotated[Union[Car, Bike], Field(discriminator="kind")]
    more: list[Annotated[Union[Car, Bike], Field(discriminator="kind")]] = []


class Node(BaseModel):
    name: Literal["a", "b"]
    kids: list["Node"] = Field(default=[], max_length=2)


class Even(BaseModel):
    odd: Optional["Odd"]


class Odd(BaseModel):
    even: Optional[Even]


Even.model_rebuild()


class Aliased(BaseModel):
    from_: Literal["x"] = Field(alias="from")
    class_: int = Field(
        validation_alias=pydantic.AliasChoices("class", "klass"), serialization_alias="out"
    )
    deep: int = Field(validation_alias=pydantic.AliasPath("a"), default=3)


class ByName(BaseModel):
    model_config = ConfigDict(populate_by_name=True, alias_generator=lambda name: name.upper())
    full: Literal["Ada"]


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    w: int

    @pydantic.computed_field
    @property
    def area(self) -> int:
        return self.w * self.w


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]
    w: int


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, str_min_length=1, str_max_length=9)
    name: str


class PythonPatterns(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    a: text(pattern=r"a(?=b)")
    b: text(pattern=r"[a-z]+\Z")


class Encoded(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    a: bytes


class Hex(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex")
    a: bytes


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    a: int
    b: dt.date
    c: Color
    d: uuid.UUID
    e: tuple[int, str]
    f: float
    g: dict[int, str] = {}


class Defaults(BaseModel):
    a: float = float("nan")
    b: float = float("inf")
    c: Optional[int] = 5
    d: set[int] = {1}
    e: bytes = b"\xff"
    f: dt.timedelta = dt.timedelta(1)
    g: list[int] = Field(default_factory=lambda: [1])


class Validated(BaseModel):
    when: dt.date
    who: Annotated[str, pydantic.BeforeValidator(str.strip)]


class Page(BaseModel, Generic[T]):
    items: list[T] = Field(max_length=2)
    next: Optional[T] = None


class Ids(pydantic.RootModel[list[int]]):
    pass


class Invoice(BaseModel):
    number: text(pattern=r"^(?i)inv-\d{3}$")
    day: pydantic.PastDate
    total: with_(D, max_digits=6, decimal_places=2, ge=0)
    mail: Optional[pydantic.EmailStr] = None
    site: Optional[pydantic.HttpUrl] = None
    rows: dict[pydantic.PositiveInt, D] = {}


class Enums(BaseModel):
    model_config = ConfigDict(use_enum_values=True)
    a: Color
    b: Mixed
    c: Number


@dataclasses.dataclass
class Place:
    lat: float = 0.0
    tags: list[str] = dataclasses.field(default_factory=list)


@pydantic.dataclasses.dataclass
class Order:
    id: uuid.UUID
    count: pydantic.PositiveInt = 1


class Part(typing_extensions.TypedDict, total=False):
    a: typing_extensions.Required[int]
    b: typing_extensions.NotRequired[Literal["z"]]


class Whole(typing_extensions.TypedDict):
    parts: list[Part]
    on: dt.datetime


MODELS = [
    Pos,
    Car,
    Bike,
    Trip,
    Node,
    Even,
    Odd,
    Aliased,
    ByName,
    Computed,
    Extra,
    Stripped,
    PythonPatterns,
    Encoded,
    Hex,
    Strict,
    Defaults,
    Validated,
    Page[int],
    Page[Color],
    Page[Pos],
    Ids,
    Invoice,
    Enums,
    Place,
    Order,
    Part,
    Whole,
    Pair,
    list[Pos],
    dict[str, Trip],
    Optional[Invoice],
    Union[Car, Bike],
    tuple[Pos, Ids],
    list[Place],
    dict[int, Order],
    list[Whole],
    Union[Pos, None],
    Annotated[Trip, Field(description="x")],
    list[Node],
]


def wrong(kind: Any, count: int) -> list[tuple[str, str]]:
    record = record_type(kind)
    found = []
    for made in texts(record.schema, count, seed=len(record.schema)):
        try:
            record.read(made)
        except Exception as error:  # noqa: BLE001
            found.append((made, str(error)))
    return found


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: str(kind)[:60])
def test_a_type_takes_what_its_schema_allows(kind: Any) -> None:
    model = pydantic.create_model("A", v=(kind, ...))
    assert not wrong(model, TEXTS)


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: str(kind)[:60])
def test_a_model_takes_what_its_schema_allows(kind: Any) -> None:
    assert not wrong(kind, TEXTS)


@pytest.mark.parametrize("kind, word", REFUSED, ids=lambda kind: str(kind)[:60])
def test_what_no_schema_says_is_refused_with_its_place(kind: Any, word: str) -> None:
    model = pydantic.create_model("A", v=(kind, ...))
    with pytest.raises(TypeError, match=word) as raised:
        record_type(model)
    assert word == "Schema" or "/properties/v" in str(raised.value)


def test_there_are_many_types() -> None:
    assert len(TYPES) >= 300 and len(MODELS) >= 40
    assert json.loads(record_type(Defaults).schema)["properties"].keys() == set("abcdefg")

"""Types in, instances out: pydantic's models, dataclasses and what they contain."""

import datetime
import decimal
import enum
import json
import os
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, Union

import pytest

import ffwd

from .conftest import INVOICE, INVOICE_SCHEMA, LETTERS

pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")


class Currency(enum.Enum):
    EUR = "EUR"
    USD = "USD"


class Invoice(pydantic.BaseModel):
    invoice_number: str
    vendor: str
    customer: str
    issue_date: datetime.date
    total: float
    currency: Currency


@dataclass
class Line:
    name: str
    amount: Optional[int]


@dataclass
class Order:
    """An order."""

    customer: str
    kind: Literal["order", "invoice"]
    urgent: bool
    placed: datetime.date
    currency: Currency
    line: Line
    lines: list[Line] = field(default_factory=list)
    notes: Optional[dict[str, int]] = None


def test_a_model_gives_an_instance(engine):
    invoice = engine.extract(INVOICE, Invoice)
    assert type(invoice) is Invoice
    assert invoice.invoice_number == "INV-20417"
    assert invoice.currency is Currency.EUR
    assert type(invoice.issue_date) is datetime.date
    assert invoice.total == 1840.0


def test_a_model_gives_what_its_schema_gives(engine):
    schema = engine.extractor(Invoice).schema
    assert json.loads(schema)["properties"].keys() == INVOICE_SCHEMA["properties"].keys()
    for text in [INVOICE, *LETTERS]:
        record = engine.extract(text, schema)
        assert engine.extract(text, Invoice) == Invoice.model_validate(record)


def test_a_dataclass_gives_an_instance_with_its_parts(engine):
    found = [engine.extract(text, Order, max_tokens=400) for text in LETTERS]
    for order in found:
        assert type(order) is Order
        assert type(order.line) is Line and all(type(line) is Line for line in order.lines)
        assert order.kind in ("order", "invoice") and isinstance(order.urgent, bool)
        assert isinstance(order.currency, Currency) and type(order.placed) is datetime.date
        assert order.line.amount is None or type(order.line.amount) is int
        assert order.notes is None or all(type(v) is int for v in order.notes.values())


def test_other_types_give_their_instances(engine):
    from typing_extensions import TypedDict  # pydantic depends on it

    class Pair(TypedDict):
        name: str
        number: int

    # Without a bound a small model may go on to the token limit.
    few = Annotated[list[Line], pydantic.Field(min_length=1, max_length=3)]
    lines = engine.extract("name: desk lamp, amount: 3\nname: oak chair, amount: 2", few)
    assert isinstance(lines, list) and 1 <= len(lines) <= 3
    assert all(type(line) is Line for line in lines)
    assert engine.extract(LETTERS[0], Pair).keys() == {"name", "number"}
    assert isinstance(engine.extract(LETTERS[0], bool), bool)
    assert isinstance(engine.extract(LETTERS[0], Union[int, None]), (int, type(None)))
    bounded = engine.extract(LETTERS[0], Annotated[int, pydantic.Field(ge=3, le=5)])
    assert 3 <= bounded <= 5


@pytest.mark.parametrize(
    "kind",
    [
        datetime.datetime,
        datetime.time,
        datetime.timedelta,
        decimal.Decimal,
        uuid.UUID,
        tuple[int, str],
        set[int],
        float,
        dict[str, float],
        Any,
        Annotated[decimal.Decimal, pydantic.Field(ge=0, le=100)],
    ],
    ids=str,
)
def test_types_of_the_library_have_schemas(engine, kind):
    @dataclass
    class Holder:
        value: kind

    try:
        record = engine.extract("On 3 May 2024 at 12:30 it was 12.50.", Holder, max_tokens=300)
    except (ffwd.Truncated, ffwd.InvalidRecord) as error:
        # A schema says less than pydantic checks: durations have a limit.
        assert error.text
        return
    assert type(record) is Holder


def test_descriptions_and_aliases_reach_the_model(engine):
    class Letter(pydantic.BaseModel):
        sender: str = pydantic.Field(alias="from", description="who wrote it")

    extractor = engine.extractor(Letter)
    assert "who wrote it" in extractor.prompt("Hello from Ann.")
    assert '"title":' not in json.dumps(json.loads(extractor.schema)["properties"])
    assert isinstance(extractor.extract("Hello from Ann.").sender, str)


def test_examples_are_instances_or_plain_values(engine):
    line = Line("lamp", 2)
    prompts = {
        engine.extractor(Line, examples=[("Two lamps.", record)]).prompt("Three chairs.")
        for record in (line, {"name": "lamp", "amount": 2})
    }
    assert len(prompts) == 1 and '{"name":"lamp","amount":2}' in prompts.pop()
    with pytest.raises(pydantic.ValidationError, match="amount"):
        engine.extractor(Line, examples=[("Two lamps.", {"name": "lamp", "amount": "two"})])


def test_a_record_that_a_validator_refuses_is_an_error_with_the_record(engine):
    class Strict(pydantic.BaseModel):
        vendor: str

        @pydantic.field_validator("vendor")
        @classmethod
        def refuse(cls, value):
            raise ValueError("never good")

    with pytest.raises(ffwd.InvalidRecord, match="never good") as caught:
        engine.extract(INVOICE, Strict)
    error = caught.value
    assert error.kind == "invalid_record" and error.record.keys() == {"vendor"}
    assert json.loads(error.text) == error.record
    assert isinstance(error.__cause__, pydantic.ValidationError)


def test_what_is_no_type_is_an_error(engine):
    for wrong in (5, 1.5, object()):
        with pytest.raises(TypeError, match="has no JSON Schema"):
            engine.extract(INVOICE, wrong)

    class Opaque:
        pass

    @dataclass
    class Holder:
        opaque: Opaque

    with pytest.raises(TypeError, match="Opaque"):
        engine.extract(INVOICE, Holder)


def test_types_without_pydantic_say_what_is_missing(engine, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pydantic", None)
    with pytest.raises(ImportError, match=r"pip install 'ffwd-llm\[runtime\]'"):
        engine.extract(INVOICE, Order)
    assert engine.extract(INVOICE, INVOICE_SCHEMA)["invoice_number"] == "INV-20417"


#: Fields of a random model. `python/tests/test_types.py` has many more, without a language model.
RANDOM = [
    int, bool, Currency, uuid.UUID, datetime.date, datetime.time, datetime.datetime, decimal.Decimal, bytes, Order,
    Literal[1, "a", True, None], Optional[datetime.date], list[Currency], dict[int, bool], dict[datetime.date, int], set[int],
    *(getattr(pydantic, name) for name in (
        "HttpUrl AnyUrl FileUrl PostgresDsn Base64Str Base64Bytes Base64UrlStr ByteSize PastDate FutureDate AwareDatetime "
        "NaiveDatetime PastDatetime UUID4 UUID7 IPvAnyNetwork IPvAnyAddress PositiveInt FiniteFloat SecretStr"
    ).split()),
    Annotated[decimal.Decimal, pydantic.Field(max_digits=6, decimal_places=2, gt=0)],
    Annotated[str, pydantic.StringConstraints(pattern=r"^(?P<kind>INV|ORD)-\d{4}$")],
    Annotated[str, pydantic.StringConstraints(strip_whitespace=True, min_length=1, max_length=20)],
    Annotated[str, pydantic.StringConstraints(pattern="(?i)^[[:alpha:]]+$", max_length=12)],
]


def test_random_extractions_are_of_their_type(engine):
    """Records that a hot model writes; `FFWD_TYPE_CHECKS` sets their number."""
    rounds = max(1, int(os.environ.get("FFWD_TYPE_CHECKS", 80)) // len(RANDOM))
    options = {"temperature": 3.0, "max_tokens": 200, "close_before_limit": True, "errors": "return"}
    for kind in RANDOM:
        model = pydantic.create_model("A", v=(kind, ...))
        extractor, found = engine.extractor(model), 0
        for first in range(0, rounds, 8):
            # A batch has one seed, so its texts differ.
            texts = LETTERS[: min(8, rounds - first)]
            for record in extractor.extract_many(texts, seed=first, **options):
                # A record that does not end within the limit is none of a wrong type.
                assert isinstance(record, (model, ffwd.Truncated)), (kind, record)
                found += isinstance(record, model)
        assert found > rounds // 2, kind

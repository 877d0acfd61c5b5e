"""Texts under constraints: those of the program, whole and in pieces."""

import json
import re

import pytest

import ffwd

from .conftest import DATA, INVOICE, run_program

CONSTRAINTS = {
    "regex": (
        ["--regex", "20[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]"],
        lambda: ffwd.Constraint.regex("20[0-9]{2}-(0[1-9]|1[0-2])-[0-3][0-9]"),
    ),
    "choice": (
        ["-c", "spam", "-c", "not spam"],
        lambda: ffwd.Constraint.choice(["spam", "not spam"]),
    ),
    "object": (["--json-object"], lambda: ffwd.Constraint.json_object()),
    "schema": (
        ["-s", DATA / "invoice.schema.json"],
        lambda: ffwd.Constraint.json_schema((DATA / "invoice.schema.json").read_text()),
    ),
    "gbnf": (
        ["--grammar", DATA / "expression.gbnf"],
        lambda: ffwd.Constraint.gbnf((DATA / "expression.gbnf").read_text()),
    ),
    "lark": (
        ["--grammar", DATA / "query.lark"],
        lambda: ffwd.Constraint.lark((DATA / "query.lark").read_text()),
    ),
    "substring": (
        ["--substring", DATA / "invoice.txt", "--whole-words"],
        lambda: ffwd.Constraint.substring(INVOICE, bounds="words"),
    ),
    "tag": (
        ["--structural-tag", DATA / "tools.structural_tag.json"],
        lambda: ffwd.Constraint.structural_tag((DATA / "tools.structural_tag.json").read_text()),
    ),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_texts_are_those_of_the_program(engine, name):
    flags, constraint = CONSTRAINTS[name]
    prompt = "The answer: "
    options = {"max_tokens": 60, "close_before_limit": True}
    printed = run_program("generate", prompt, *flags, "-n", 60, "--close-before-limit")
    is_json = name in ("object", "schema")
    if is_json:
        # The program ends values that repeat themselves.
        options |= {"guard": True, "end_at_words": True}
    found = engine.generate(prompt, constraint(), **options)
    assert found.text == printed.removesuffix("\n")
    assert found.complete
    assert engine.decode(found.tokens).decode() == found.text
    assert engine.generate(prompt, constraint(), mode="off", **options).text == found.text


def test_an_output_has_its_parts(engine):
    output = engine.generate("Pay by ", ffwd.Constraint.regex("[0-9]{3}"), logprobs=True)
    assert re.fullmatch("[0-9]{3}", output.text) and output.text == output.answer
    assert output.finish.reason == "stop" and output.stats.finish == "stop"
    assert len(output.logprobs) == len(output.tokens) == output.stats.tokens
    assert all(known.masked <= 0 and 0 <= known.legal_mass <= 1 + 1e-6 for known in output.logprobs)


def test_a_conversation_is_rendered(engine):
    messages = [
        {"role": "system", "content": "Answer in one word."},
        {"role": "user", "content": "Yes or no?"},
    ]
    chosen = engine.generate(messages, ffwd.Constraint.choice(["yes", "no"]))
    printed = run_program(
        "generate", "Yes or no?", "--system", "Answer in one word.", "-c", "yes", "-c", "no"
    )
    assert chosen.text == printed.strip()
    with pytest.raises(ffwd.Error, match="role"):
        engine.generate([{"content": "no role"}])
    with pytest.raises(TypeError, match="expected str or a list of messages"):
        engine.generate(5)


def test_endings(engine):
    free = engine.generate("One two three", max_tokens=12)
    assert free.complete and free.finish.reason in ("stop", "length")
    cut = engine.generate("x", ffwd.Constraint.regex("[a-z ]{200}"), max_tokens=5)
    assert (cut.complete, cut.finish.reason, cut.stats.tokens) == (False, "length", 5)
    closed = engine.generate(
        "x", ffwd.Constraint.regex("[a-z ]{3,200}"), max_tokens=5, close_before_limit=True
    )
    assert closed.complete
    letter = free.text[3]
    stopped = engine.generate("One two three", max_tokens=12, stop=letter)
    assert stopped.text == free.text.split(letter)[0]
    assert (stopped.finish.reason, stopped.finish.stop) == ("stop_text", letter)


def test_thinking_ends_in_an_answer(engine):
    output = engine.generate(
        "Think.", ffwd.Constraint.choice(["yes", "no"]), think_until="END", think_budget=5
    )
    assert output.answer in ("yes", "no") and output.text.endswith("END" + output.answer)


def test_pieces_are_the_text(engine):
    constraint = ffwd.Constraint.json_schema((DATA / "invoice.schema.json").read_text())
    stream = engine.stream(INVOICE, constraint)
    with pytest.raises(RuntimeError, match="not complete"):
        stream.output
    pieces = list(stream)
    assert len(pieces) > 1
    assert "".join(pieces) == stream.output.text == engine.generate(INVOICE, constraint).text
    assert stream.output.stats.tokens == len(stream.output.tokens)
    assert list(stream) == []


def test_a_stream_can_be_left(engine):
    with engine.stream("x", ffwd.Constraint.regex("[a-z ]{400}")) as stream:
        next(stream)
    assert list(stream) == []
    with pytest.raises(RuntimeError):
        stream.output


def test_errors_of_a_stream_come_from_the_iterator(engine):
    stream = engine.stream("")
    with pytest.raises(ffwd.Error, match="the prompt is empty"):
        next(stream)
    with pytest.raises(StopIteration):
        next(stream)


def test_partial_records_grow_to_the_record(engine):
    schema = json.loads((DATA / "invoice.schema.json").read_text())
    stream = engine.extract_streaming(INVOICE, schema)
    parts = list(stream)
    assert parts[-1].value == stream.record == engine.extract(INVOICE, schema)
    assert "" in parts[-1].done and {f"/{name}" for name in schema["properties"]} <= parts[-1].done
    for before, after in zip(parts, parts[1:]):
        assert before.done <= after.done
        for pointer in before.done - {""}:
            assert before.value[pointer[1:]] == after.value[pointer[1:]]
    strings = [part.value["vendor"] for part in parts if part.value and part.value.get("vendor")]
    assert all(strings[-1].startswith(text) for text in strings)


def test_a_streamed_record_is_an_instance(engine):
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed")

    class Invoice(pydantic.BaseModel):
        vendor: str
        total: float

    stream = engine.extract_streaming(INVOICE, Invoice)
    values = [part.value for part in stream]
    assert stream.record == Invoice(**values[-1]) == engine.extract(INVOICE, Invoice)


def test_nested_parts_are_followed(engine):
    schema = {
        "type": "object",
        "properties": {
            "buyer": {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
            },
            "words": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3},
        },
        "required": ["buyer", "words"],
    }
    stream = engine.extract_streaming(INVOICE, schema)
    parts = list(stream)
    assert parts[-1].value == stream.record
    assert {"/buyer/name", "/words/0", "/words/1"} <= parts[-1].done

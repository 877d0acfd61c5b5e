"""Records of JSON Schemas: those that the program writes, and what is known about them."""

import json

import pytest

import ffwd

from .conftest import INVOICE, INVOICE_SCHEMA, LETTERS, cases, run_program

TICKET = {
    "type": "object",
    "properties": {
        "customer": {"type": "string"},
        "kind": {"enum": ["invoice", "order", "complaint", "other"]},
        "total": {"type": ["number", "null"]},
    },
    "required": ["customer", "kind", "total"],
}


def test_records_are_those_of_the_program(engine, tmp_path):
    chosen = cases(step=25)
    assert len(chosen) > 5
    for case in chosen:
        (tmp_path / "text").write_text(case["text"])
        (tmp_path / "schema").write_text(json.dumps(case["schema"]))
        printed = run_program("extract", tmp_path / "text", "--schema", tmp_path / "schema")
        found = engine.extract(case["text"], case["schema"], details=True)
        assert found.text == printed.strip(), case["id"]
        assert found.record == json.loads(printed)


def test_options_are_those_of_the_program(engine, tmp_path):
    (tmp_path / "text").write_text(LETTERS[0])
    (tmp_path / "schema").write_text(json.dumps(TICKET))
    (tmp_path / "example").write_text(
        json.dumps(
            {"text": "Kim wants 2.", "record": {"customer": "Kim", "kind": "order", "total": 2}}
        )
    )
    command = ["extract", tmp_path / "text", "-s", tmp_path / "schema"]
    for flags, options in [
        (["--mode", "off"], {"mode": "off"}),
        (["--temperature", "0.9", "--seed", "5"], {"temperature": 0.9, "seed": 5}),
        (["--top-k", "5", "--temperature", "1.5"], {"top_k": 5, "temperature": 1.5}),
        (["--verbatim"], {"verbatim": True}),
        (["--verbatim", "--whole-words"], {"verbatim": True, "whole_words": True}),
        (["--whitespace", "single"], {"whitespace": "single_space"}),
        (["--any-order"], {"key_order": "any"}),
        (
            ["--instructions", "The customer is the sender."],
            {"instructions": "The customer is the sender."},
        ),
        (
            ["--example", tmp_path / "example"],
            {"examples": [("Kim wants 2.", {"customer": "Kim", "kind": "order", "total": 2})]},
        ),
        (["--system", "Be exact."], {"system": "Be exact."}),
    ]:
        printed = run_program(*command, *flags).strip()
        assert engine.extract(LETTERS[0], TICKET, details=True, **options).text == printed, flags
        shown = run_program(*command, *flags, "--show-prompt").strip()
        own = {k: v for k, v in options.items() if k in ffwd.options.SCHEMA_OPTIONS}
        assert engine.extractor(TICKET, **own).prompt(LETTERS[0]).strip() == shown, flags


def test_sampling_depends_on_the_seed(engine):
    records = {
        engine.extract(INVOICE, INVOICE_SCHEMA, details=True, temperature=2.0, seed=seed).text
        for seed in range(6)
    }
    again = engine.extract(INVOICE, INVOICE_SCHEMA, details=True, temperature=2.0, seed=3).text
    assert len(records) > 1 and again in records


def test_exact_writes_what_off_writes_in_fewer_forwards(engine):
    fast = engine.extract(INVOICE, INVOICE_SCHEMA, details=True)
    slow = engine.extract(INVOICE, INVOICE_SCHEMA, details=True, mode="off")
    assert fast.text == slow.text
    assert slow.stats.forwards == slow.stats.tokens + 1 or slow.stats.forwards == slow.stats.tokens
    assert fast.stats.forwards < slow.stats.forwards
    assert fast.stats.accepted <= fast.stats.drafted
    assert sum(fast.stats.drafted_by_source.values()) == fast.stats.drafted


def test_spans_quote_the_text(engine):
    text = "Zoë Öz — " + INVOICE
    found = engine.extract(text, INVOICE_SCHEMA, details=True)
    assert found.spans
    for pointer, spans in found.spans.items():
        value = found.record[pointer[1:]]
        for span in spans:
            quoted = text[span.start : span.end]
            assert text.encode()[span.byte_start : span.byte_end].decode() == quoted
            assert quoted == value or float(quoted) == value
    # A date that is written otherwise has none.
    assert "/issue_date" not in found.spans


def test_verbatim_strings_are_in_the_text(engine):
    for text in [*LETTERS, "\ufeff\r\n\U0001f600 " + LETTERS[0].replace("\n", "\r\n")]:
        found = engine.extract(text, TICKET, details=True, verbatim=True)
        spans = found.spans["/customer"]
        assert {text[span.start : span.end] for span in spans} == {found.record["customer"]}


def test_confidence_is_that_of_the_program(engine, tmp_path):
    (tmp_path / "text").write_text(LETTERS[2])
    (tmp_path / "schema").write_text(json.dumps(TICKET))
    command = [
        "extract",
        tmp_path / "text",
        "-s",
        tmp_path / "schema",
        "--confidence",
        "--alternatives",
    ]
    printed = json.loads(run_program(*command))["confidence"]
    found = engine.extract(LETTERS[2], TICKET, details=True, alternatives=True).confidence
    assert found.keys() == printed.keys() and "/kind" in found
    for pointer, value in found.items():
        want = printed[pointer]
        assert (value.probability, value.margin, value.legal_mass) == (
            pytest.approx(want["probability"], rel=1e-6),
            pytest.approx(want["margin"], rel=1e-6),
            pytest.approx(want["legal_mass"], rel=1e-6),
        )
        listed = [(entry["value"], entry["probability"]) for entry in want.get("alternatives", [])]
        assert [v for v, _ in value.alternatives] == [v for v, _ in listed]
        assert [p for _, p in value.alternatives] == pytest.approx([p for _, p in listed], rel=1e-6)
    kinds = dict(found["/kind"].alternatives)
    assert set(kinds) == set(TICKET["properties"]["kind"]["enum"])
    assert sum(kinds.values()) == pytest.approx(1, abs=1e-6)


def test_confidence_needs_details(engine):
    for option in ("confidence", "alternatives"):
        with pytest.raises(ValueError, match="details=True"):
            engine.extract(INVOICE, INVOICE_SCHEMA, **{option: True})


def test_a_schema_is_a_text_a_mapping_or_a_truth_value(engine):
    wanted = engine.extract(INVOICE, INVOICE_SCHEMA)
    assert engine.extract(INVOICE, json.dumps(INVOICE_SCHEMA)) == wanted
    assert engine.extract(INVOICE, json.dumps(INVOICE_SCHEMA).encode()) == wanted
    anything = engine.extractor(True)
    assert json.loads(anything.schema) is True


def test_large_numbers_keep_their_digits(engine):
    number = 9007199254740993
    schema = {"properties": {"number": {"const": number}}, "required": ["number"]}
    assert engine.extract("The number.", schema) == {"number": number}


def test_warnings_about_a_schema_are_there(engine):
    schema = {"properties": {"name": {"type": "string", "format": "surname"}}, "required": ["name"]}
    (warning,) = engine.extractor(schema).warnings
    assert (warning.kind, warning.pointer) == ("unknown_format", "/properties/name/format")
    assert isinstance(warning, ffwd.ConstraintWarning)


def test_documents_and_open_objects(engine):
    schema = {"properties": {"name": {"$ref": "names"}}, "required": ["name"]}
    names = {"names": '{"enum": ["Ann", "Bo"]}'}
    assert engine.extract("From Bo.", schema, documents=names)["name"] in ("Ann", "Bo")
    open_schema = {"properties": {"a": {"const": 1}}, "required": ["a", "b"], "maxProperties": 2}
    record = engine.extract("A text.", open_schema, open_objects=True, max_tokens=200)
    assert record["a"] == 1 and "b" in record


def test_the_statistics_are_those_of_the_program(engine, tmp_path):
    (tmp_path / "text").write_text(INVOICE)
    (tmp_path / "schema").write_text(json.dumps(INVOICE_SCHEMA))
    stats = tmp_path / "stats"
    run_program(
        "extract", tmp_path / "text", "-s", tmp_path / "schema", "--stats", stats, "--mode", "off"
    )
    printed = json.loads(stats.read_text())
    printed = printed[0] if isinstance(printed, list) else printed
    found = engine.extract(INVOICE, INVOICE_SCHEMA, details=True, mode="off").stats
    optional = {"guarded", "shortened", "survival", "spent"}
    assert printed.keys() | optional == set(vars(found)) | optional | (printed.keys() & {"gate"})
    for name in (
        "tokens",
        "forwards",
        "prompt_tokens",
        "forced",
        "drafted",
        "accepted",
        "finish",
        "mode",
    ):
        assert getattr(found, name) == printed[name], name

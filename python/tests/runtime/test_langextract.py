"""The provider for langextract, found by langextract itself."""

import warnings

import pytest

pytest.importorskip("ffwd_runtime", reason="the package ffwd-llm-runtime is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lx = pytest.importorskip("langextract", reason="langextract is not installed")

from ffwd.langextract import FfwdSchema, _document  # noqa: E402

EXAMPLES = [
    lx.data.ExampleData(
        text="Ann Lee pays 12 EUR to Bob.",
        extractions=[
            lx.data.Extraction("person", "Ann Lee", attributes={"role": "payer"}),
            lx.data.Extraction("amount", "12 EUR"),
        ],
    )
]
TEXT = "Zoë Öz pays 7.50 EUR to Max."


def extract(text, **more):
    return lx.extract(
        text,
        prompt_description="Extract persons and amounts, with their exact text.",
        examples=EXAMPLES,
        model_id="ffwd",
        show_progress=False,
        **more,
    )


def test_texts_of_extractions_are_found_in_the_document():
    # At least two, which the small model would not find by itself.
    schema = FfwdSchema.from_examples(EXAMPLES).schema_dict | {"type": "object"}
    schema["properties"]["extractions"] |= {"minItems": 2, "maxItems": 3}
    found = extract(TEXT, output_schema=schema).extractions
    assert len(found) >= 2
    for extraction in found:
        assert extraction.extraction_text in TEXT
        assert extraction.extraction_class in ("person", "amount")
        wanted = {"role"} if extraction.extraction_class == "person" else set()
        assert set(extraction.attributes or {}) == wanted
    assert any(one.alignment_status == lx.data.AlignmentStatus.MATCH_EXACT for one in found)
    assert extract(TEXT).extractions is not None


def test_the_document_is_what_stands_behind_the_examples():
    prompts = lx.prompting.PromptTemplateStructured("Extract.", EXAMPLES)
    handler = lx.core.format_handler.FormatHandler()
    render = lx.prompting.QAPromptGenerator(prompts, handler).render
    for text in (TEXT, "a\nQ: b", EXAMPLES[0].text):
        assert _document(render(text), EXAMPLES[-1].text) == text
    assert _document(render(TEXT), None) == TEXT


def test_schemas_of_the_caller_hold():
    kind = {"type": "object", "properties": {"kind": {"enum": ["bill", "letter"]}}, "required": ["kind"]}
    items = {"type": "array", "items": kind, "minItems": 1, "maxItems": 2}
    schema = {"type": "object", "properties": {"extractions": items}, "required": ["extractions"]}
    found = extract(TEXT, output_schema=schema).extractions
    assert 1 <= len(found) <= 2
    assert all(extraction.extraction_text in ("bill", "letter") for extraction in found)
    with pytest.raises(lx.exceptions.InferenceConfigError, match="no_such"):
        extract(TEXT, language_model_params={"no_such": 1})


def test_only_texts_that_the_examples_copy_are_copied():
    normal = lx.data.Extraction("date", "2026-01-02", attributes={"parts": ["2026", "01"]})
    examples = [*EXAMPLES, lx.data.ExampleData(text="On 2 January.", extractions=[normal])]
    items = FfwdSchema.from_examples(examples).schema_dict["properties"]["extractions"]["items"]["anyOf"]
    by_name = {item["required"][0]: item["properties"] for item in items}
    assert [name for name, item in by_name.items() if item[name].get("x-verbatim")] == ["person", "amount"]
    assert by_name["date"]["date_attributes"]["properties"]["parts"]["type"] == "array"

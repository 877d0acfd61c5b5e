"""Hostile input gives one clear error with its fields."""

import os
import subprocess
import sys

import pytest

import ffwd

from .conftest import INVOICE, INVOICE_SCHEMA, ROOT


def test_a_refused_schema_has_pointer_and_hint(engine):
    with pytest.raises(ffwd.Error) as caught:
        engine.extract(INVOICE, {"properties": {"a": {"type": "strin"}}})
    assert (caught.value.kind, caught.value.pointer) == ("invalid_schema", "/properties/a/type")
    with pytest.raises(ffwd.Error, match="schema") as caught:
        engine.extract(INVOICE, "{not json")
    assert caught.value.kind == "invalid_json"
    with pytest.raises(ffwd.Error) as caught:
        engine.extract(INVOICE, {"type": "object", "properties": {"a": False}, "required": ["a"]})
    assert caught.value.kind == "unsatisfiable"
    with pytest.raises(ffwd.Error):
        engine.extract(INVOICE, "[" * 100_000)


def test_texts_that_cannot_be_used(engine):
    for text, kind in [
        ("", "invalid_option"),
        (" \n\t", "invalid_option"),
        ("word " * 40_000, "prompt_too_long"),
    ]:
        with pytest.raises(ffwd.Error) as caught:
            engine.extract(text, INVOICE_SCHEMA)
        assert caught.value.kind == kind and caught.value.hint
    with pytest.raises(TypeError):
        engine.extract(b"bytes", INVOICE_SCHEMA)
    with pytest.raises(UnicodeEncodeError):
        engine.extract("\ud800", INVOICE_SCHEMA)


def test_a_cut_record_has_path_part_text_and_statistics(engine):
    schema = {"properties": {"note": {"type": "string", "minLength": 90}}, "required": ["note"]}
    with pytest.raises(ffwd.Truncated, match="ends after 12 tokens") as caught:
        engine.extract("A short note.", schema, max_tokens=12)
    error = caught.value
    assert isinstance(error, ffwd.Error)
    assert (error.kind, error.path, error.pointer) == ("incomplete", "/note", "/note")
    assert error.partial.startswith('"') and error.text == '{"note":' + error.partial
    assert (
        error.stats.tokens == 12 and error.stats.finish == "length" and "--max-tokens" in error.hint
    )
    assert ffwd.Truncated("own").stats is None

    stream = engine.extract_streaming("A short note.", schema, max_tokens=12)
    with pytest.raises(ffwd.Truncated) as caught:
        list(stream)
    assert (caught.value.text, caught.value.stats.tokens) == (error.text, 12)


@pytest.mark.parametrize(
    "options, kind, message",
    [
        ({"max_tokens": 0}, ValueError, "max_tokens is 0"),
        ({"max_tokens": -1}, ValueError, "max_tokens is -1"),
        ({"seed": -1}, ValueError, "seed is -1"),
        ({"seed": 1 << 64}, ValueError, "seed is"),
        ({"temperature": -1.0}, ffwd.Error, "temperature is -1"),
        ({"temperature": float("nan")}, ffwd.Error, "temperature is NaN"),
        ({"top_p": 0.0}, ffwd.Error, "top_p is 0"),
        ({"top_k": 0}, ffwd.Error, "top_k is 0"),
        ({"logit_bias": {-1: 1.0}}, ValueError, "logit_bias is .*-1"),
        ({"logit_bias": {3: float("nan")}}, ffwd.Error, "bias of token 3"),
        ({"mode": "fast"}, ValueError, "the modes are off, exact"),
        ({"stop": ""}, ValueError, "a stop text is empty"),
        ({"temprature": 1.0}, TypeError, "temprature"),
        ({"whitespace": "tabs"}, ValueError, "whitespace"),
        ({"key_order": "sorted"}, ValueError, "key_order"),
        ({"prompt": "no placeholder"}, ffwd.Error, "text"),
        ({"examples": [("A text.", {"invoice_number": 1})]}, ffwd.Error, "example"),
    ],
    ids=str,
)
def test_wrong_options_are_named(engine, options, kind, message):
    with pytest.raises(kind, match=message):
        engine.extract(INVOICE, INVOICE_SCHEMA, **options)


def test_what_is_no_model(engine, tmp_path):
    for content in (b"", b"GGUF", b"GGUF" + b"\xff" * 100, b"not a model" * 100):
        path = tmp_path / "model.gguf"
        path.write_bytes(content)
        with pytest.raises(ffwd.Error, match="model.gguf"):
            ffwd.Engine(path)
    with pytest.raises(ffwd.Error, match="no such file or folder"):
        ffwd.Engine(tmp_path / "missing")
    with pytest.raises(ffwd.Error):
        ffwd.Engine(tmp_path)
    with pytest.raises(TypeError):
        ffwd.Engine(5)
    for options in ({"precision": "q1"}, {"kv": "q1"}, {"threads": 0}, {"max_context": 0}):
        with pytest.raises(ValueError):
            ffwd.Engine(**options)


def test_a_model_file_is_loaded(engine):
    model = ffwd.Engine(ROOT / "crates/runtime/assets/extract-5m" / "model-q8_0.gguf", max_context=300)
    assert not model.has_draft and engine.has_draft
    assert model.context_size == 300 and "extract-5m" in repr(model)
    assert model.extract(INVOICE, INVOICE_SCHEMA) == engine.extract(INVOICE, INVOICE_SCHEMA)
    draft = ROOT / "crates/runtime/assets/extract-draft-1m"
    both = ffwd.Engine(ROOT / "crates/runtime/assets/extract-5m", draft=draft / "model-q8_0.gguf")
    assert both.has_draft and not ffwd.Engine.embedded(draft=False).has_draft


def test_a_constraint_is_needed_not_its_text(engine):
    with pytest.raises(TypeError, match="expected ffwd.Constraint"):
        engine.generate("x", "[0-9]+")
    with pytest.raises(ValueError, match="out of range"):
        engine.decode([engine.logits_size])


def test_each_engine_has_threads_of_its_own(engine):
    one, three = ffwd.Engine.embedded(threads=1), ffwd.Engine.embedded(threads=3)
    assert (one.threads, three.threads) == (1, 3)
    assert one.extract(INVOICE, INVOICE_SCHEMA) == three.extract(INVOICE, INVOICE_SCHEMA)
    code = "import ffwd; print(ffwd.Engine.embedded().threads)"
    env = {**os.environ, "CANDLE_NUM_THREADS": "5"}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert (found.stdout, found.stderr) == ("5\n", "")


def test_without_the_package_of_the_runtime_an_engine_says_so():
    code = (
        "import sys; sys.modules['ffwd_runtime'] = None; import ffwd\n"
        "try: ffwd.Engine.embedded()\nexcept ImportError as error: print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'ffwd-llm[runtime]'" in found.stdout, found.stderr


def test_the_import_loads_no_runtime():
    code = "import sys, ffwd; print({'ffwd_runtime', 'pydantic', 'tqdm'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (found.stdout, found.stderr) == ("set()\n", "")

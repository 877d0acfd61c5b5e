"""Hostile and wrong input: one clear exception, never a panic, and the state stays usable."""

import json
import re
import threading

import pytest
from conftest import SMALL, TOKENIZER

import ffwd

SCHEMA_FAULTS = [
    ('{"type": "strin"}', "invalid_schema", "/type"),
    ('{"properties": {"a": {"$ref": "#/nowhere"}}}', None, "/properties/a/$ref"),
    ("{", "invalid_json", None),
    ("", "invalid_json", None),
    ('{"type": "string", "minLength": 5, "maxLength": 2}', "unsatisfiable", None),
    ("[" * 100_000, None, None),
    ('{"a":' * 100_000, None, None),
    ("nul", "invalid_json", None),
    ("\x00", "invalid_json", None),
]


@pytest.mark.parametrize("schema, kind, pointer", SCHEMA_FAULTS)
def test_schemas_with_faults(schema, kind, pointer):
    with pytest.raises(ffwd.Error) as caught:
        ffwd.Constraint.json_schema(schema)
    error = caught.value
    assert isinstance(error, ValueError)
    assert error.kind and error.message and error.message in str(error)
    if kind:
        assert error.kind == kind
    if pointer:
        assert error.pointer == pointer and f"#{pointer}" in str(error)


def test_errors_have_lines_and_columns_and_hints():
    with pytest.raises(ffwd.Error) as caught:
        ffwd.Constraint.json_schema('{\n  "type": oops}')
    assert (caught.value.kind, caught.value.line) == ("invalid_json", 2)
    assert caught.value.column and caught.value.column > 1
    with pytest.raises(ffwd.Error) as caught:
        ffwd.Constraint.regex("ab(c")
    assert (caught.value.kind, caught.value.line, caught.value.column) == ("invalid_pattern", 1, 3)
    with pytest.raises(ffwd.Error) as caught:
        ffwd.Constraint.gbnf('root ::= "a"\n  | other')
    assert (caught.value.line, caught.value.column) == (2, 5)
    with pytest.raises(ffwd.Error) as caught:
        ffwd.Constraint.choice([])
    assert caught.value.kind == "invalid_option" and caught.value.hint
    assert ffwd.Error("text").kind is None


def test_warnings_are_objects_and_errors_when_strict():
    schema = {"type": "string", "maxLenght": 3}
    (warning,) = ffwd.Constraint.json_schema(schema).warnings
    assert (warning.kind, warning.pointer) == ("unknown_keyword", "/maxLenght")
    assert "maxLength" in warning.message and warning.message in str(warning)
    assert warning in {warning} and "unknown_keyword" in repr(warning)
    with pytest.raises(ffwd.Error, match="strict") as caught:
        ffwd.Constraint.json_schema(schema, strict=True)
    assert caught.value.kind == "unsupported"
    assert ffwd.Constraint.json_schema({"type": "string"}, strict=True).warnings == []


def test_schemas_of_other_kinds(small_compiler):
    class Model:
        @classmethod
        def model_json_schema(cls):
            return {"enum": ["a"]}

    for schema in [Model, Model(), {"enum": ["a"]}, '{"enum": ["a"]}', b'{"enum": ["a"]}']:
        grammar = small_compiler.compile(ffwd.Constraint.json_schema(schema))
        assert grammar.matcher().find_jump_forward_string() == '"a"'
    documents = {"https://example.com/a": '{"enum": ["a"]}'}
    constraint = ffwd.Constraint.json_schema({"$ref": "https://example.com/a"}, documents=documents)
    assert small_compiler.compile(constraint).matcher().find_jump_forward_string() == '"a"'
    nested = []
    nested.append(nested)
    for schema, error in [
        (re.Match, TypeError),
        (object(), TypeError),
        ({"a": object()}, TypeError),
        ({"minimum": float("nan")}, ValueError),
        (nested, ValueError),
        (b"\xff", ValueError),
        ("\ud800", ValueError),
        (None, ffwd.Error),
        (7, ffwd.Error),
    ]:
        with pytest.raises(error):
            ffwd.Constraint.json_schema(schema)


def test_options_of_json(small_compiler):
    schema = {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": 2}},
              "required": ["a", "b"], "additionalProperties": False}

    def accepts(text, **options):
        grammar = small_compiler.compile(ffwd.Constraint.json_schema(schema, **options))
        matcher = grammar.matcher()
        return matcher.accept_string(text) and matcher.is_accepting()

    assert accepts('{"a":1,"b":2}') and not accepts('{"a": 1, "b": 2}')
    assert accepts('{"a": 1, "b": 2}', whitespace="single_space")
    assert accepts('{ "a":1,"b":2}', whitespace=1) and not accepts('{  "a":1,"b":2}', whitespace=1)
    assert accepts('{"b":2,"a":1}', key_order="any") and not accepts('{"b":2,"a":1}')
    for options in [{"whitespace": "none"}, {"whitespace": 0}, {"whitespace": 65}, {"whitespace": -1},
                    {"whitespace": 1.5}, {"key_order": "sorted"}]:
        with pytest.raises(ValueError, match="expected"):
            ffwd.Constraint.json_schema(schema, **options)
    with pytest.raises(ValueError, match="expected"):
        ffwd.Constraint.substring("a", bounds="lines")
    with pytest.raises(ValueError, match="expected"):
        ffwd.Constraint.substring("a", min_chars=-1)


def test_tokens_out_of_range(small, small_compiler):
    matcher = small_compiler.compile(ffwd.Constraint.choice(["abc"])).matcher()
    for token in [-1, small.logits_size, 2**31, 2**32, 2**63, 2**200, -(2**200)]:
        for call in [matcher.accept_token, small.token_bytes]:
            with pytest.raises(ValueError, match="out of range"):
                call(token)
        for call in [matcher.accept_tokens, matcher.validate_tokens, small.decode]:
            with pytest.raises(ValueError, match="out of range"):
                call([0, token])
    for token in [1.5, "a", None, [0]]:
        with pytest.raises(TypeError):
            matcher.accept_token(token)
    assert matcher.num_accepted == 0
    # Ids of padded logits are in range and never legal.
    assert not matcher.accept_token(small.logits_size - 1)
    assert small.token_bytes(small.logits_size - 1) == b""


def test_rollback_out_of_range(small_compiler):
    matcher = small_compiler.compile(ffwd.Constraint.regex("a*")).matcher()
    assert matcher.accept_string("aa")
    for count in [3, -1, 2**62]:
        with pytest.raises(ValueError, match="2 were accepted"):
            matcher.rollback(count)
    matcher.rollback(0)
    assert matcher.num_accepted == 2
    matcher.rollback()
    assert matcher.num_accepted == 1


def test_vocabularies_with_faults(tmp_path):
    for tokens, eos, options in [
        ([], 0, {}),
        ([b"a"], 1, {}),
        ([b"a"], -1, {}),
        ([b"a"], [0, 9], {}),
        ([b"a", b""], 1, {"special": [2]}),
        ([b"a", b""], 1, {"logits_size": 1}),
        ([b"a", b""], 1, {"logits_size": -5}),
        ([b"a", b""], 1, {"logits_size": 1 << 40}),
    ]:
        with pytest.raises(ValueError):
            ffwd.Vocabulary.from_tokens(tokens, eos=eos, **options)
    with pytest.raises(TypeError):
        ffwd.Vocabulary.from_tokens(["a"], eos=0)
    with pytest.raises(ffwd.Error) as caught:
        ffwd.Vocabulary.from_file(tmp_path / "tokenizer.json")
    assert caught.value.kind == "io"
    for text in ["", "{}", "[]", '{"model": {"type": "WordPiece"}}', "\x00" * 100, b"\xff\xfe"]:
        with pytest.raises(ffwd.Error) as caught:
            ffwd.Vocabulary.from_json(text)
        assert caught.value.kind == "tokenizer"
    with pytest.raises(ffwd.Error):
        ffwd.Vocabulary.from_file(TOKENIZER, logits_size=3)
    with pytest.raises(ValueError, match="out of range"):
        ffwd.Vocabulary.from_file(TOKENIZER, eos=1 << 30)
    with pytest.raises(TypeError, match="backend"):
        ffwd.Vocabulary.from_transformers(object())
    with pytest.raises(ffwd.Error, match="no token has the byte"):
        ffwd.Vocabulary.from_tokens([b"a", b""], eos=1).encode("ab")


def test_a_vocabulary_without_the_bytes_of_a_constraint():
    vocabulary = ffwd.Vocabulary.from_tokens([b"a", b""], eos=1)
    with pytest.raises(ffwd.Error) as caught:
        ffwd.Compiler(vocabulary).compile(ffwd.Constraint.choice(["b"]))
    assert caught.value.kind == "unsatisfiable"


def test_vocabularies_know_their_tokens(real, small):
    assert len(small) == len(SMALL) + 1 and small.logits_size == len(small) + 9
    assert small.bitmask_words == -(-small.logits_size // 32) and small.eos == [len(SMALL)]
    assert [small.token_bytes(i) for i in range(len(SMALL))] == SMALL
    assert small.token_bytes(len(SMALL)) == b""
    assert small.decode(small.encode('{"a":12}')) == b'{"a":12}'
    text = 'an invoice of 12.50 €: "é"'
    assert real.decode(real.encode(text)) == text.encode()
    again = ffwd.Vocabulary.from_json(TOKENIZER.read_text(), eos=5, logits_size=len(real) + 100)
    assert again.eos == [5] and again.logits_size == len(real) + 100


def test_a_tokenizer_of_transformers_is_read_by_its_backend(real):
    class Backend:
        def to_str(self):
            return TOKENIZER.read_text()

    class Tokenizer:
        backend_tokenizer = Backend()
        eos_token_id = 7

    vocabulary = ffwd.Vocabulary.from_transformers(Tokenizer(), logits_size=len(real) + 64)
    assert (vocabulary.eos, vocabulary.logits_size) == ([7], len(real) + 64)
    assert vocabulary.encode("a date") == real.encode("a date")
    assert ffwd.Vocabulary.from_transformers(Backend()).encode("a") == real.encode("a")


def test_tokenizers_of_the_hub_are_read(real):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER))
    vocabulary = ffwd.Vocabulary.from_transformers(tokenizer)
    assert len(vocabulary) == len(real) and vocabulary.encode("a date") == real.encode("a date")


def test_hostile_grammars(small_compiler):
    for constraint in [
        lambda: ffwd.Constraint.regex("(a{1000}){1000}{1000}"),
        lambda: ffwd.Constraint.regex("(" * 50_000),
        lambda: ffwd.Constraint.gbnf("root ::= root"),
        lambda: ffwd.Constraint.gbnf("root ::= " + "(" * 50_000),
        lambda: ffwd.Constraint.lark("start: start start"),
        lambda: ffwd.Constraint.ebnf(""),
        lambda: ffwd.Constraint.structural_tag("{}"),
        lambda: ffwd.Constraint.structural_tag({"type": "structural_tag", "format": {"type": "x"}}),
        lambda: ffwd.Constraint.substring(""),
        lambda: ffwd.Constraint.json_schema({"allOf": [{"type": "string"}, {"type": "number"}]}),
    ]:
        with pytest.raises(ffwd.Error) as caught:
            small_compiler.compile(constraint())
        assert caught.value.kind and len(str(caught.value)) < 2_000
    # The compiler is not harmed.
    assert small_compiler.compile(ffwd.Constraint.choice(["a"])).matcher().accept_string("a")


def test_one_matcher_in_two_threads_is_refused_or_served(small_compiler):
    matcher = small_compiler.compile(ffwd.Constraint.json_object()).matcher()
    bitmask = ffwd.allocate_token_bitmask(1, small_compiler.vocabulary)
    others = []

    def fill():
        for _ in range(300):
            try:
                ffwd.fill_batch([matcher], bitmask)
            except RuntimeError:
                pass
            except BaseException as error:  # noqa: BLE001
                others.append(error)

    threads = [threading.Thread(target=fill) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not others


def test_json_of_python_keeps_its_text(small_compiler, real_compiler):
    schema = {"enum": ["é\u2028\"\\"]}
    forced = real_compiler.compile(ffwd.Constraint.json_schema(schema)).matcher()
    assert json.loads(forced.find_jump_forward_string()) == schema["enum"][0]

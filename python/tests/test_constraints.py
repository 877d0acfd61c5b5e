"""Constraints over tokens, tool calls, combinations, schemas of types, and explanations."""

import dataclasses
import itertools
import pickle
import re
from typing import Optional

import pytest

import ffwd
from conftest import SMALL, legal_bits, row_of

END = len(SMALL)


def texts_of(vocabulary, constraint, most=4):
    """All outputs of at most `most` tokens, found by trying every token."""
    found = set()
    todo = [(ffwd.Compiler(vocabulary).compile(constraint).matcher(), ())]
    while todo:
        matcher, tokens = todo.pop()
        if matcher.is_accepting():
            found.add(vocabulary.decode(tokens).decode())
        if len(tokens) < most:
            for token in range(END):
                fork = matcher.fork()
                if fork.accept_token(token):
                    todo.append((fork, (*tokens, token)))
    return found


def test_labels_have_one_sequence_of_tokens(small):
    constraint = ffwd.Constraint.labels(["abc", "bc", "a1"], lead="nothing")
    matcher = ffwd.Compiler(small).compile(constraint).matcher()
    bitmask = ffwd.allocate_token_bitmask(1, small)
    matcher.fill_next_token_bitmask(bitmask)
    firsts = {small.encode(label)[0] for label in ("abc", "bc", "a1")}
    assert legal_bits(row_of(bitmask)) == firsts
    assert texts_of(small, constraint) == {"abc", "bc", "a1"}


def test_several_labels_and_trees(small):
    several = ffwd.Constraint.labels(["a", "b"], lead="nothing", separator=",", at_most=2)
    assert texts_of(small, several) == {"a", "b", "a,b", "b,a"}
    repeats = ffwd.Constraint.labels(
        ["a", "b"], lead="nothing", separator=",", at_least=2, at_most=2, repeats=True
    )
    assert texts_of(small, repeats) == {"a,a", "a,b", "b,a", "b,b"}
    tree = {"a": ["b", "c"], "b": None}
    paths = ffwd.Constraint.labels(tree, lead="nothing", path_separator=".")
    assert texts_of(small, paths) == {"a.b", "a.c", "b"}
    whole = ffwd.Constraint.labels(tree, lead="nothing", path_separator=".", levels="all")
    assert texts_of(small, whole) == {"a", "a.b", "a.c", "b"}


def test_labels_that_are_wrong(small):
    with pytest.raises(TypeError, match="list of str"):
        ffwd.Constraint.labels("ab")
    with pytest.raises(ValueError, match='lead is "no"'):
        ffwd.Constraint.labels(["a"], lead="no")
    with pytest.raises(ValueError, match="levels"):
        ffwd.Constraint.labels(["a"], levels="some")
    twice = ffwd.Constraint.labels(["a", "a"], lead="nothing")
    with pytest.raises(ffwd.Error) as error:
        ffwd.Compiler(small).compile(twice)
    assert error.value.kind == "invalid_labels"


def test_masks_of_tokens_and_machines(small):
    a, b, one = (SMALL.index(text) for text in (b"a", b"b", b"1"))
    masks = ffwd.Constraint.token_masks([[a, b], one], at_most=2)
    assert texts_of(small, masks) == {"a1", "b1"} | {
        "".join(parts) for parts in itertools.product("ab", "1", "ab", "1")
    }
    machine = ffwd.Constraint.token_fsm(
        [(0, [a], 1), (1, b, 1), (1, one, 2)], accept=[2], names={1: "letters"}
    )
    assert texts_of(small, machine) == {"a1", "ab1", "abb1"}
    unbounded = ffwd.Constraint.token_masks([a], unbounded=True)
    assert texts_of(small, unbounded) == {"a", "aa", "aaa", "aaaa"}
    with pytest.raises(ffwd.Error, match="no positions"):
        ffwd.Constraint.token_masks([])
    with pytest.raises(ValueError, match="out of range"):
        ffwd.Constraint.token_masks([[-1]])
    with pytest.raises(ffwd.Error, match="letters"):
        far = ffwd.Constraint.token_fsm([(0, a, 1), (1, 9999, 0)], accept=[0], names={1: "letters"})
        ffwd.Compiler(small).compile(far)


def test_combinations_are_those_of_their_texts(small):
    ab, word = ffwd.Constraint.choice(["ab", "b", "c1"]), ffwd.Constraint.regex("[abc]{1,2}")
    left, right = texts_of(small, ab), texts_of(small, word)
    assert texts_of(small, ab | word) == left | right
    assert texts_of(small, ab & word) == left & right
    short = {text for text in texts_of(small, ab + word) if len(text) <= 3}
    assert short == {a + b for a in left for b in right if len(a + b) <= 3}
    assert texts_of(small, word & ~ab) == right - left
    marked = ffwd.Constraint.choice(["1"]).after_marker("b")
    assert {t for t in texts_of(small, marked, 3) if len(t) <= 3} == {
        text for text in texts_of(small, ffwd.Constraint.regex("[^b]*b1"), 3) if len(text) <= 3
    }
    assert ab.then(word).or_else(ab).negated().and_also(word) is not None
    schema = ffwd.Constraint.json_object()
    with pytest.raises(ffwd.Error) as error:
        schema & word
    assert error.value.kind == "unsupported"
    with pytest.raises(TypeError):
        ab + "text"


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "required": ["a"],
                "additionalProperties": False,
            },
        },
    }
]


def test_tool_calls(real_compiler):
    required = ffwd.Constraint.tools(TOOLS, "hermes", choice="required")
    matcher = real_compiler.compile(required).matcher()
    call = '<tool_call>\n{"name": "add", "arguments": {"a":12}}\n</tool_call>'
    assert matcher.accept_string(call) and matcher.is_accepting()
    assert not real_compiler.compile(required).matcher().accept_string("Hello")
    auto = ffwd.Constraint.tools(TOOLS, "hermes")
    assert real_compiler.compile(auto).matcher().accept_string("Hello. " + call)
    named = ffwd.Constraint.tools(TOOLS, "hermes", choice="add")
    assert real_compiler.compile(named).matcher().accept_string(call)
    with pytest.raises(ffwd.Error, match="add"):
        ffwd.Constraint.tools(TOOLS, "hermes", choice="subtract")
    with pytest.raises(ffwd.Error, match="no style"):
        ffwd.Constraint.tools(TOOLS, "elvish")
    broken = [{"name": "x", "parameters": {"type": "strin"}}]
    with pytest.raises(ffwd.Error) as error:
        ffwd.Constraint.tools(broken, "hermes")
    assert error.value.pointer == "/0/parameters/type"


def test_patterns_and_sources(small_compiler):
    matcher = small_compiler.compile(ffwd.Constraint.pattern("'ab' DIGIT+")).matcher()
    assert matcher.accept_string("ab12") and matcher.is_accepting()
    schema = {"type": "string", "x-verbatim": True}
    grammar = small_compiler.compile(ffwd.Constraint.json_schema(schema, source="abc 12"))
    assert grammar.matcher().accept_string('"abc 12"')
    assert not grammar.matcher().accept_string('"bca')
    with pytest.raises(ValueError, match="bounds"):
        ffwd.Constraint.json_schema(schema, source="a", bounds="lines")


def test_made_constraints_can_be_pickled(small):
    ab = ffwd.Constraint.choice(["ab", "b"])
    made = [
        ffwd.Constraint.labels({"a": ["b"], "b": None}, lead="nothing", path_separator="."),
        ffwd.Constraint.labels(iter(["a", "b"]), lead="nothing", separator=",", at_most=2),
        ffwd.Constraint.token_masks([[1, 2], 3]),
        ffwd.Constraint.token_fsm([(0, [1], 1)], accept=[1]),
        ffwd.Constraint.pattern("'a' DIGIT"),
        ab + ab,
        (ab | ffwd.Constraint.regex("c{1,3}")) & ~ab,
        ab.after_marker("c"),
        ffwd.Constraint.json_schema({"const": "a"}, source="a b"),
    ]
    for constraint in made:
        copy = pickle.loads(pickle.dumps(constraint))
        assert texts_of(small, copy, 3) == texts_of(small, constraint, 3)
    tools = pickle.loads(pickle.dumps(ffwd.Constraint.tools(TOOLS, "glm", choice="add")))
    assert isinstance(tools, ffwd.Constraint)


def test_schemas_of_types(small_compiler):
    pydantic = pytest.importorskip("pydantic")

    @dataclasses.dataclass
    class Point:
        a: int
        b: Optional[bool] = None

    for schema, text in [
        (Point, '{"a":1,"b":true}'),
        (pydantic.TypeAdapter(list[int]), "[1,2]"),
        (list[bool], "[true,false]"),
        (int, "12"),
        (Optional[int], "null"),
    ]:
        matcher = small_compiler.compile(ffwd.Constraint.json_schema(schema)).matcher()
        assert matcher.accept_string(text) and matcher.is_accepting(), schema
    with pytest.raises(TypeError, match="no schema"):
        ffwd.Constraint.json_schema(re.Match)


def test_explanations(small):
    matcher = ffwd.Compiler(small).compile(ffwd.Constraint.choice(["abc", "ab1"])).matcher()
    for token in range(small.logits_size):
        explained = matcher.explain(token)
        assert explained.legal == matcher.fork().accept_token(token), token
        assert explained.reason and str(explained) == explained.reason
    wrong = matcher.explain("abb")
    assert (wrong.legal, wrong.fits, wrong.expected) == (False, 2, b"1c")
    assert wrong.reason == "byte 2, 'b', is not legal there; could be: '1' 'c'"
    assert set(wrong.examples) == {SMALL.index(b"1"), SMALL.index(b"c")}
    assert matcher.explain(b"abc").legal and matcher.explain(b"abc").may_end
    assert "may not end yet" in matcher.explain(END).reason
    assert "no token of its own" in matcher.explain("ab\n").reason
    assert matcher.num_accepted == 0
    matcher.accept_tokens([SMALL.index(b"abc"), END])
    assert "nothing follows" in matcher.explain(0).reason
    with pytest.raises(ValueError, match="out of range"):
        matcher.explain(9999)


def test_positions_and_completions(small):
    schema = {"properties": {"a": {"type": "array", "items": {"enum": [1, 2]}}}, "required": ["a"]}
    matcher = ffwd.Compiler(small).compile(ffwd.Constraint.json_schema(schema)).matcher()
    assert matcher.path() == ""
    matcher.accept_string('{"a":[1,')
    assert matcher.path() == "/a/1"
    completion = matcher.shortest_completion()
    assert completion in (b"1]}", b"2]}")
    assert matcher.shortest_completion(max_bytes=1) is None
    assert matcher.accept_string(completion) and matcher.is_accepting()

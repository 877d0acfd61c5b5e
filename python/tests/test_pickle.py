"""A constraint can be pickled: it is made again by the call that made it."""

import pickle

import pytest

import ffwd

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"$ref": "http://x/d"},
        "b": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["a"],
}
TAG = {
    "type": "structural_tag",
    "format": {"type": "json_schema", "json_schema": SCHEMA["properties"]["b"]},
}
CONSTRAINTS = {
    "schema": lambda: ffwd.Constraint.json_schema(
        SCHEMA,
        whitespace=3,
        key_order="any",
        closed_objects=True,
        documents={"http://x/d": '{"type": "boolean"}'},
    ),
    "object": lambda: ffwd.Constraint.json_object(whitespace="single_space"),
    "regex": lambda: ffwd.Constraint.regex("[ab]+[0-9]{2}"),
    "choice": lambda: ffwd.Constraint.choice(["true", "null"]),
    "lark": lambda: ffwd.Constraint.lark('start: "ab" | "1" start'),
    "gbnf": lambda: ffwd.Constraint.gbnf('root ::= "a" | "[" root "]"'),
    "ebnf": lambda: ffwd.Constraint.ebnf('start: "tr" "ue"'),
    "tag": lambda: ffwd.Constraint.structural_tag(TAG, whitespace="compact"),
    "substring": lambda: ffwd.Constraint.substring("abc 12 abc", bounds="characters", min_chars=2),
}
TEXTS = ['{"a":', '{ "b": [', "{", "[", "ab12", "true", "1", "[a]", "bc", "abc 1", '{"b":[1]']


def behaviour(compiler, constraint):
    """What a constraint accepts of each text, and its legal tokens there."""
    grammar = compiler.compile(constraint)
    found = []
    for text in TEXTS:
        matcher = grammar.matcher()
        accepted = matcher.accept_string(text)
        found.append((accepted, matcher.count_legal_tokens() if accepted else None))
    return found


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_pickled_constraint_is_the_same(name, small_compiler):
    constraint = CONSTRAINTS[name]()
    copy = pickle.loads(pickle.dumps(constraint))
    assert behaviour(small_compiler, copy) == behaviour(small_compiler, constraint)
    assert copy.warnings == constraint.warnings


def test_a_class_is_pickled_as_its_schema():
    class Answer:
        @staticmethod
        def model_json_schema():
            return {"enum": [1, 2]}

    copy = pickle.loads(pickle.dumps(ffwd.Constraint.json_schema(Answer)))
    assert isinstance(copy, ffwd.Constraint)


def test_options_are_kept():
    schema = '{"type": "string", "unknown-keyword": 1}'
    assert pickle.loads(pickle.dumps(ffwd.Constraint.json_schema(schema))).warnings
    method, arguments = ffwd.Constraint.regex("a", strict=True).__reduce__()[1]
    assert (method, arguments) == ("regex", {"pattern": "a", "strict": True})

"""Masks against slow references, and the state that they follow."""

import random
import re

import pytest
from conftest import SMALL, legal_bits, row_of

import ffwd

# Finite languages: which tokens are legal follows from the list of all texts.
FINITE = [
    ["abc", "ab0", "a", "12.5", "true"],
    ["", "cab", "cabbc", "null"],
    ['{"a":1}', '{"a":12}', '{"b":[]}', "[1,2]"],
]

CONSTRAINTS = [
    lambda: ffwd.Constraint.choice(FINITE[0]),
    lambda: ffwd.Constraint.regex("[abc]{2,5}(12)*"),
    lambda: ffwd.Constraint.json_schema({"type": "object", "properties": {"a": {"type": "integer"}}}),
    lambda: ffwd.Constraint.json_object(),
    lambda: ffwd.Constraint.gbnf('root ::= "a" root "b" | "c"'),
    lambda: ffwd.Constraint.lark('start: "a"+ "bc"?'),
    lambda: ffwd.Constraint.substring("abc 12 abc", bounds="words"),
]


def mask(matcher):
    bitmask = ffwd.allocate_token_bitmask(1, matcher.vocabulary)
    matcher.fill_next_token_bitmask(bitmask)
    return legal_bits(row_of(bitmask))


@pytest.mark.parametrize("texts", FINITE)
def test_masks_are_those_of_the_list_of_texts(small, small_compiler, texts):
    matcher = small_compiler.compile(ffwd.Constraint.choice(texts)).matcher()
    rng = random.Random(1)
    for _ in range(50):
        matcher.reset()
        written = b""
        while True:
            rest = [t.encode()[len(written):] for t in texts if t.encode().startswith(written)]
            legal = {i for i, token in enumerate(SMALL) if token and any(r.startswith(token) for r in rest)}
            legal |= set(small.eos) if b"" in rest else set()
            assert mask(matcher) == legal
            assert matcher.count_legal_tokens() == len(legal)
            assert matcher.is_accepting() == (b"" in rest)
            assert matcher.must_end() == (rest == [b""])
            token = rng.choice(sorted(legal))
            assert matcher.accept_token(token)
            if token in small.eos:
                assert matcher.is_terminated() and mask(matcher) == set(small.eos)
                break
            written += SMALL[token]
        assert written.decode() in texts


@pytest.mark.parametrize("make", CONSTRAINTS)
def test_masks_are_those_of_one_by_one_acceptance(small, small_compiler, make):
    """A token is legal if and only if it is accepted, and every walk can be completed."""
    grammar = small_compiler.compile(make())
    rng = random.Random(7)
    for _ in range(10):
        matcher = grammar.matcher()
        for _ in range(25):
            legal = mask(matcher)
            assert legal, "a mask is never empty"
            for token in range(small.logits_size):
                copy = matcher.fork()
                assert copy.accept_token(token) == (token in legal)
                assert copy.num_accepted == matcher.num_accepted + (token in legal)
                assert matcher.validate_tokens([token]) == (token in legal)
            token = rng.choice(sorted(legal))
            assert matcher.accept_token(token)
            if matcher.is_terminated():
                break


def test_outputs_match_the_regular_expression(small_compiler, small):
    pattern = "[abc]{2,5}(12)*"
    grammar = small_compiler.compile(ffwd.Constraint.regex(pattern))
    rng = random.Random(3)
    for _ in range(100):
        matcher, tokens = grammar.matcher(), []
        while not matcher.is_terminated():
            tokens.append(rng.choice(sorted(mask(matcher))))
            assert matcher.accept_token(tokens[-1])
        assert re.fullmatch(pattern, small.decode(tokens).decode())


def test_rollback_and_fork_restore_the_state(small_compiler):
    grammar = small_compiler.compile(ffwd.Constraint.json_object())
    matcher, rng = grammar.matcher(), random.Random(5)
    masks = []
    while not matcher.is_terminated() and len(masks) < 60:
        masks.append(mask(matcher))
        assert matcher.accept_token(rng.choice(sorted(masks[-1])))
    count = matcher.num_accepted
    fork = matcher.fork()
    for back in range(1, count + 1):
        matcher.rollback(1)
        assert mask(matcher) == masks[count - back]
        other = fork.fork()
        other.rollback(back)
        assert mask(other) == masks[count - back]
    assert fork.num_accepted == count and matcher.num_accepted == 0
    fork.reset()
    assert mask(fork) == masks[0]


def test_end_tokens_count_in_validation_and_rollback(small, small_compiler):
    end = small.eos[0]
    matcher = small_compiler.compile(ffwd.Constraint.choice(["a", "ab"])).matcher()
    a, b = SMALL.index(b"a"), SMALL.index(b"b")
    assert matcher.validate_tokens([a, b, end]) == 3
    assert matcher.validate_tokens([a, end, b]) == 2
    assert matcher.validate_tokens([end]) == 0
    assert matcher.accept_tokens([a, end, end]) == 2
    assert matcher.is_terminated() and matcher.num_accepted == 2
    assert not matcher.accept_token(b)
    matcher.rollback(2)
    assert matcher.num_accepted == 0 and matcher.accept_token(a)


def test_texts_are_accepted_whatever_their_tokens(small_compiler):
    matcher = small_compiler.compile(ffwd.Constraint.choice(["abc", "abcabc"])).matcher()
    assert not matcher.accept_string("abd")
    assert not matcher.accept_string("abz")
    assert matcher.num_accepted == 0
    assert matcher.accept_string(b"ab") and matcher.accept_string("c")
    assert matcher.is_accepting()
    matcher.rollback(2)
    assert matcher.find_jump_forward_string() == "bc"


def test_forced_text_and_tokens(real, real_compiler, small_compiler):
    schema = {"type": "object", "properties": {"vendor": {"enum": ["é1"]}}, "required": ["vendor"]}
    matcher = real_compiler.compile(ffwd.Constraint.json_schema(schema, closed_objects=True)).matcher()
    text = '{"vendor":"é1"}'
    assert matcher.find_jump_forward_string() == text
    assert matcher.forced_bytes() == text.encode()
    tokens = matcher.forced_tokens()
    assert text.encode().startswith(real.decode(tokens)) and tokens
    assert matcher.validate_tokens(tokens) == len(tokens)
    # "é" and "è" share their first byte: half a character is no text.
    matcher = real_compiler.compile(ffwd.Constraint.choice(["é", "è"])).matcher()
    assert matcher.find_jump_forward_string() == "" and matcher.forced_bytes() == b"\xc3"
    matcher = small_compiler.compile(ffwd.Constraint.choice(["abc12"])).matcher()
    assert [SMALL[t] for t in matcher.forced_tokens()] == [b"abc", b"12"]


def test_structural_tags(real, real_compiler):
    tag = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f="],
           "tags": [{"begin": "<f=add>", "end": "</f>",
                     "content": {"type": "json_schema", "json_schema": {"const": [1]}}}]}}
    matcher = real_compiler.compile(ffwd.Constraint.structural_tag(tag)).matcher()
    assert matcher.accept_string("free text <f=")
    assert matcher.find_jump_forward_string().startswith("add>[1]</f>")

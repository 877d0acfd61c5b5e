"""Drafts of forced runs against the run itself."""

import json
import random

import pytest

import ffwd

SCHEMA = {
    "type": "object",
    "properties": {
        "first_name": {"type": "string", "maxLength": 4},
        "kind": {"enum": ["private_customer", "private_company"]},
        "text": {"const": "a constant of several words " * 4},
    },
    "required": ["first_name", "kind", "text"],
    "additionalProperties": False,
}


def states(compiler, seed):
    """Matchers along a random walk of whole tokens."""
    rng = random.Random(seed)
    vocabulary = compiler.vocabulary
    matcher = compiler.compile(ffwd.Constraint.json_schema(json.dumps(SCHEMA))).matcher()
    last = None
    while not matcher.is_terminated() and matcher.num_accepted < 60:
        yield matcher, last
        ids = list(range(len(vocabulary)))
        rng.shuffle(ids)
        last = next(token for token in ids if matcher.accept_token(token))


@pytest.mark.parametrize("limit", [1, 3, 8, 200])
def test_a_draft_is_the_start_of_the_run(real_compiler, small_compiler, limit):
    """Its tokens are legal, at most `limit`, and with room they are the whole run."""
    drafted = 0
    for compiler in (real_compiler, small_compiler):
        vocabulary = compiler.vocabulary
        if compiler is small_compiler:
            constraint = ffwd.Constraint.choice(["abcabc12", "abcabc34"])
            found = [(compiler.compile(constraint).matcher(), None)]
        else:
            found = states(compiler, limit)
        for matcher, last in found:
            run = matcher.forced_bytes()
            for given in (None, last):
                draft = matcher.forced_draft(limit, given)
                assert len(draft) <= limit
                assert matcher.validate_tokens(draft) == len(draft)
                assert run.startswith(vocabulary.decode(draft))
                if limit == 200:
                    assert vocabulary.decode(draft) == run
                assert bool(draft) == bool(run)
                drafted += len(draft)
    assert drafted > 0


def test_wrong_arguments_are_refused(small_compiler):
    matcher = small_compiler.compile(ffwd.Constraint.choice(["abc"])).matcher()
    assert matcher.forced_draft(0) == []
    with pytest.raises(ValueError, match="limit"):
        matcher.forced_draft(-1)
    with pytest.raises(ValueError, match="out of range"):
        matcher.forced_draft(3, 10**6)

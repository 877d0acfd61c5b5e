"""Batches: equal to single fills, drafts, threads."""

import random
import threading
import time

import pytest
from conftest import legal_bits, row_of

import ffwd

SCHEMAS = [
    {"type": "object", "properties": {"a": {"type": "string", "maxLength": 12}, "b": {"type": "number"}}},
    {"type": "array", "items": {"enum": ["red", "green", 3, None]}},
    {"type": "string", "pattern": "^[a-f]{3,9}$"},
    {"type": "object", "additionalProperties": {"type": "boolean"}},
]


def walks(compiler, count, seed):
    """Matchers somewhere inside of their outputs."""
    rng = random.Random(seed)
    bitmask = ffwd.allocate_token_bitmask(1, compiler.vocabulary)
    matchers = []
    for i in range(count):
        schema = SCHEMAS[i % len(SCHEMAS)]
        matcher = compiler.compile(ffwd.Constraint.json_schema(schema)).matcher()
        for _ in range(rng.randrange(8)):
            matcher.fill_next_token_bitmask(bitmask)
            if not matcher.accept_token(rng.choice(sorted(legal_bits(row_of(bitmask))))):
                raise AssertionError("a legal token was refused")
            if matcher.is_terminated():
                break
        matchers.append(matcher)
    return matchers


def reference(matcher, draft):
    """The masks of a draft chain, one at a time, on a fork."""
    fork, rows, legal = matcher.fork(), [], 0
    for token in [None, *draft]:
        if token is not None:
            if len(rows) != legal + 1 or not fork.accept_token(token):
                rows.append(None)
                continue
            legal += 1
        bitmask = ffwd.allocate_token_bitmask(1, matcher.vocabulary)
        fork.fill_next_token_bitmask(bitmask)
        rows.append(row_of(bitmask))
    return rows, legal


def test_tokens_of_a_batch_are_accepted_as_single_ones(real_compiler):
    rng = random.Random(3)
    matchers = walks(real_compiler, 48, 2)
    others = [matcher.fork() for matcher in matchers]
    bitmask = ffwd.allocate_token_bitmask(len(matchers), real_compiler.vocabulary)
    accepted, ended = set(), 0
    for _ in range(6):
        ffwd.fill_batch(matchers, bitmask)
        tokens = [rng.choice([*legal_bits(row_of(bitmask, i)), rng.randrange(200)]) for i in range(48)]
        found = ffwd.advance_batch(matchers, tokens, bitmask)
        ended += sum(other.is_terminated() for other in others)
        expected = [
            not other.is_terminated() and other.accept_token(token)
            for other, token in zip(others, tokens, strict=True)
        ]
        assert found == expected
        for i, other in enumerate(others):
            assert row_of(bitmask, i) == reference(other, [])[0][0]
        accepted |= set(found)
    assert accepted == {False, True} and ended
    with pytest.raises(ValueError, match="2 tokens for 1 matchers"):
        ffwd.advance_batch(others[:1], [1, 2], bitmask)
    with pytest.raises(ValueError, match="a matcher occurs twice"):
        ffwd.advance_batch(others[:1] * 2, [1, 2], bitmask)
    assert ffwd.advance_batch([], [], bitmask) == []


def test_a_batch_equals_single_fills(real_compiler):
    matchers = walks(real_compiler, 48, 1)
    bitmask = ffwd.allocate_token_bitmask(len(matchers), real_compiler.vocabulary)
    assert ffwd.fill_batch(matchers, bitmask) == [0] * len(matchers)
    for i, matcher in enumerate(matchers):
        assert row_of(bitmask, i) == reference(matcher, [])[0][0]


def test_indices_choose_the_rows_and_leave_the_others(real_compiler):
    matchers = walks(real_compiler, 3, 2)
    bitmask = ffwd.allocate_token_bitmask(9, real_compiler.vocabulary)
    ffwd.fill_batch(matchers, bitmask, indices=[7, 0, 4])
    for row, matcher in zip([7, 0, 4], matchers):
        assert row_of(bitmask, row) == reference(matcher, [])[0][0]
    for row in {1, 2, 3, 5, 6, 8}:
        assert set(row_of(bitmask, row)) == {-1}


@pytest.mark.parametrize("with_indices", [False, True])
def test_draft_chains_equal_steps_and_are_undone(real, real_compiler, with_indices):
    rng = random.Random(11)
    matchers = walks(real_compiler, 24, 3)
    drafts = []
    for i, matcher in enumerate(matchers):
        draft, fork = [], matcher.fork()
        bitmask = ffwd.allocate_token_bitmask(1, real)
        for _ in range(rng.randrange(5)):
            fork.fill_next_token_bitmask(bitmask)
            draft.append(rng.choice(sorted(legal_bits(row_of(bitmask)))))
            fork.accept_token(draft[-1])
        if i % 3 == 0:
            draft.insert(rng.randrange(len(draft) + 1), rng.randrange(len(real)))
        drafts.append(draft if draft or i % 2 else None)
    longest = max(len(draft or []) for draft in drafts)
    before = [(m.num_accepted, reference(m, [])) for m in matchers]
    bitmask = ffwd.allocate_token_bitmask(len(matchers) * (longest + 1), real)
    for row in range(len(matchers) * (longest + 1)):
        matchers[0].fill_next_token_bitmask(bitmask, row)
    first = [i * (longest + 1) for i in range(len(matchers))]
    indices = list(reversed(first)) if with_indices else None
    legal = ffwd.fill_batch(matchers, bitmask, indices=indices, drafts=drafts)
    assert [(m.num_accepted, reference(m, [])) for m in matchers] == before
    for matcher, draft, row, found in zip(matchers, drafts, indices or first, legal):
        rows, expected = reference(matcher, draft or [])
        assert found == expected == matcher.validate_tokens(draft or [])
        for j, words in enumerate(rows):
            if words is None:
                assert set(row_of(bitmask, row + j)) == {-1}
            else:
                assert row_of(bitmask, row + j) == words
        if not with_indices:
            for j in range(len(rows), longest + 1):
                assert set(row_of(bitmask, row + j)) == {-1}


def test_a_batch_refuses_what_does_not_fit(real, real_compiler):
    one, two = walks(real_compiler, 2, 4)
    bitmask = ffwd.allocate_token_bitmask(2, real)
    with pytest.raises(ValueError, match="twice"):
        ffwd.fill_batch([one, one], bitmask)
    with pytest.raises(ValueError, match="twice"):
        ffwd.fill_batch([one, two], bitmask, indices=[1, 1])
    with pytest.raises(ValueError, match="out of range"):
        ffwd.fill_batch([one, two], bitmask, indices=[0, 2])
    with pytest.raises(ValueError, match="out of range"):
        ffwd.fill_batch([one], bitmask, indices=[-1])
    with pytest.raises(ValueError, match="out of range"):
        ffwd.fill_batch([one, two], bitmask, drafts=[[1], None])
    with pytest.raises(ValueError, match="out of range"):
        ffwd.fill_batch([one], bitmask, drafts=[[len(real)]])
    with pytest.raises(ValueError, match="1 indices for 2 matchers"):
        ffwd.fill_batch([one, two], bitmask, indices=[0])
    with pytest.raises(ValueError, match="3 drafts for 2 matchers"):
        ffwd.fill_batch([one, two], bitmask, drafts=[None, None, None])
    with pytest.raises(TypeError):
        ffwd.fill_batch([one, "two"], bitmask)
    assert ffwd.fill_batch([], bitmask) == []


def cold_batch(compiler, count):
    """Matchers whose masks are not made yet."""
    matchers = []
    for i in range(count):
        schema = {"type": "string", "pattern": f"^([a-z]{{2,{i + 9}}} ?[^q{i}]*){{1,{i + 5}}}$"}
        matchers.append(compiler.compile(ffwd.Constraint.json_schema(schema)).matcher())
    return matchers


def test_other_threads_run_while_a_batch_is_filled(real, real_compiler):
    """With Python's lock held, the other thread could not run inside of a call."""
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.perf_counter())

    matchers = cold_batch(real_compiler, 64)
    bitmask = ffwd.allocate_token_bitmask(len(matchers), real)
    thread = threading.Thread(target=tick)
    thread.start()
    inside = 0
    try:
        for _ in range(200):
            start = time.perf_counter()
            ffwd.fill_batch(matchers, bitmask)
            end = time.perf_counter()
            inside += sum(start < t < end for t in ticks)
            ticks.clear()
            if inside:
                break
            matchers = cold_batch(real_compiler, 64)
    finally:
        stop.set()
        thread.join()
    assert inside > 0


def test_matchers_of_one_grammar_in_many_threads(real, real_compiler):
    grammar = real_compiler.compile(ffwd.Constraint.json_schema(SCHEMAS[0]))
    tokens = real.encode('{"a":"some text","b":12.5}')
    expected, failures = reference(grammar.matcher(), tokens), []

    def walk():
        try:
            for _ in range(20):
                if reference(grammar.matcher(), tokens) != expected:
                    failures.append("another mask")
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=walk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert expected[1] == len(tokens) and not failures


def test_a_child_process_fills_batches_too(real, real_compiler):
    """The threads of the parent are gone after a fork."""
    import os

    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    bitmask = ffwd.allocate_token_bitmask(64, real)
    ffwd.fill_batch(cold_batch(real_compiler, 64), bitmask)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ffwd.fill_batch(cold_batch(real_compiler, 64), bitmask)
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    raise AssertionError("the child waits without end")

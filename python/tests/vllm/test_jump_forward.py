"""Forced runs as drafts, and the gate that holds them back, without an engine."""

import json
from types import SimpleNamespace

from vllm_helpers import *  # noqa: F403, I001  (skips the file: it must come first)
from vllm_helpers import INVOICE, Kind, make_backend
import pytest
from vllm.v1.outputs import DraftTokenIds
from vllm.v1.structured_output import ConstraintBounds

from ffwd.vllm import JumpForward, jump_forward
from ffwd.vllm.gate import Gate, Record

LIMIT = 8


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def scheduler(backend, requests, bounds=ConstraintBounds(0, 0), drafter=None):
    manager = SimpleNamespace(backend=backend, _get_constraint_bounds=lambda *_: bounds)
    return SimpleNamespace(
        structured_output_manager=manager,
        num_spec_tokens=LIMIT,
        requests=requests,
        vllm_config=SimpleNamespace(speculative_config=SimpleNamespace(model=drafter)),
    )


def request(grammar, tokens, **state):
    return SimpleNamespace(
        all_token_ids=tokens,
        num_tokens=len(tokens),
        is_finished=lambda: state.get("finished", False),
        is_prefill_chunk=state.get("prefill", False),
        structured_output_request=grammar and SimpleNamespace(grammar=grammar),
    )


@pytest.fixture
def fresh(tokenizer, reference):
    return make_backend(tokenizer, reference.logits_size)


def test_forced_runs_come_in_front(fresh, reference):
    """Each draft is legal, at most as long as there is room, and reaches as far as the run."""
    grammar = fresh.compile_grammar(Kind.JSON, json.dumps(INVOICE))
    vendor = reference.encode('{"number":"INV-12345"')
    assert grammar.accept_tokens("r", vendor)
    prompt = reference.encode("x") + vendor
    state = scheduler(fresh, {"r": request(grammar, prompt)})
    own = reference.encode('"Bright')
    drafts = jump_forward.lead(state, DraftTokenIds(["r"], [own]))
    found = drafts.draft_token_ids[0]
    assert 0 < len(found) <= LIMIT and grammar.validate_tokens(found) == found
    assert reference.decode(found) == b',"vendor":"'
    longer = found + own[1:]
    again = jump_forward.lead(state, DraftTokenIds(["r"], [longer]))
    assert again.draft_token_ids == [longer]
    short = jump_forward.lead(state, DraftTokenIds(["r"], [found[:1]]))
    assert short.draft_token_ids == [found]


def test_copies_stand_behind_forced_runs(fresh, reference):
    """The package's drafter copies what follows the last tokens elsewhere, as far as it is legal."""
    start = reference.encode('{"number":"INV-12345"')
    source = reference.encode('the "vendor":"Bright Ltd, at the sea"')
    tokens = source + reference.encode("x") + start
    drafts = {}
    for drafter in (None, "ffwd.vllm.JumpForward"):
        grammar = fresh.compile_grammar(Kind.JSON, json.dumps(INVOICE))
        assert grammar.accept_tokens("r", start)
        state = scheduler(fresh, {"r": request(grammar, tokens)}, drafter=drafter)
        (drafts[drafter],) = jump_forward.lead(state, DraftTokenIds(["r"], [[]])).draft_token_ids
    forced, found = drafts.values()
    copy = found[len(forced) :]
    assert reference.decode(forced) == b',"vendor":"' and found[: len(forced)] == forced
    assert len(found) == LIMIT and grammar.validate_tokens(found) == found
    assert any(source[i : i + len(copy)] == copy for i in range(len(source)))
    record = grammar.record
    assert (record.forced.drafted, record.copied.drafted) == (len(forced), len(copy))
    # All that was forced is accepted and a part of the copy, and the model chooses the next token.
    tokens = [*tokens, *found[: len(forced) + 1], 0]
    fresh.gate.observe(record, len(tokens))
    assert record.forced.acceptance == 1.0
    assert record.copied.acceptance == pytest.approx(0.5 + 0.25 * (1 / len(copy) - 0.5))


def test_copies_that_fail_are_left_out(fresh, reference):
    """Copies of a text that the model does not continue pause, and come again."""
    grammar = fresh.compile_grammar(Kind.REGEX, "[ab]*")
    a, b = reference.encode("a")[0], reference.encode("b")[0]
    tokens, made = [a, b, b, b, b, a], []
    for _ in range(60):
        state = scheduler(fresh, {"r": request(grammar, tokens)}, drafter="ffwd.vllm.JumpForward")
        (draft,) = jump_forward.lead(state, DraftTokenIds(["r"], [[]])).draft_token_ids
        made.append(len(draft))
        # Another token than the copied one.
        token = b if not draft or draft[0] == a else a
        assert grammar.accept_tokens("r", [token])
        tokens = [*tokens, token]
    assert made[0] > 0 and 0 < sum(map(bool, made[10:])) < 15


def test_the_tokens_of_the_model_are_learned(fresh, reference):
    """Where the model writes a run in other tokens, the next request drafts these."""
    habits = fresh.habits
    start = reference.encode('{"number":"INV-12345"')
    comma, quote = reference.encode(",")[0], reference.encode('"')[0]
    written = [comma, quote, *reference.encode("vendor"), *reference.encode('":"')]
    drafts = []
    for _ in range(2):
        grammar = fresh.compile_grammar(Kind.JSON, json.dumps(INVOICE))
        assert grammar.accept_tokens("r", start)
        tokens = reference.encode("x") + start
        state = scheduler(fresh, {"r": request(grammar, tokens)})
        drafts.append(jump_forward.lead(state, DraftTokenIds(["r"], [[]])).draft_token_ids[0])
        # The model rejects the draft and writes the run in tokens of its own, one a step.
        for token in [*written, *reference.encode("Bright")]:
            assert grammar.accept_tokens("r", [token])
            tokens = [*tokens, token]
            state.requests["r"] = request(grammar, tokens)
            jump_forward.lead(state, DraftTokenIds(["r"], [[]]))
    assert drafts[0] != written and drafts[1] == written
    assert reference.decode(drafts[0]) == reference.decode(written)
    assert len(habits) > 0


def test_habits_are_bounded_and_wait_for_the_end_of_a_run(reference, monkeypatch):
    from ffwd.vllm import habits as module

    monkeypatch.setattr(module, "MAX_RUNS", 4)
    habits = module.Habits(reference)
    abc = reference.encode("abcabc")
    letters = [reference.encode(letter)[0] for letter in "abcabc"]
    assert not habits.learn(abc, letters[:3]) and habits.draft(abc) == abc
    assert habits.learn(abc, letters) and habits.draft(abc) == letters
    beyond = reference.encode("abcab")
    assert habits.learn(beyond, [*letters[:4], reference.encode("bc")[0]])
    assert habits.draft(beyond) == letters[:4]
    assert habits.learn(abc, [reference.eos[0]]) and habits.draft(abc) == letters
    for number in range(20):
        run = reference.encode(f"run {number}")
        assert habits.learn(run, run)
    assert len(habits) == 4 and habits.draft(abc) == abc


def test_other_requests_keep_their_drafts(fresh):
    make = lambda: fresh.compile_grammar(Kind.CHOICE, '["yes"]')  # noqa: E731
    ended = make()
    vocabulary = fresh.grammars.vocabulary
    ended.accept_tokens("r", [*vocabulary.encode("yes"), vocabulary.eos[0]])
    requests = {
        "plain": request(None, [5]),
        "done": request(make(), [5], finished=True),
        "prompt": request(make(), [5], prefill=True),
        "ended": request(ended, [5]),
    }
    ids = [*requests, "gone"]
    given = DraftTokenIds(ids, [[i] for i in range(len(ids))])
    assert jump_forward.lead(scheduler(fresh, requests), given) == given
    assert jump_forward.lead(scheduler(object(), requests), given) is given
    thinking = scheduler(fresh, {"r": request(make(), [5])}, ConstraintBounds(1, 1))
    one = DraftTokenIds(["r"], [[9]])
    assert jump_forward.lead(thinking, one) == one


def test_the_drafter_without_drafts():
    drafter = JumpForward(None)
    drafter.load_model(None)
    assert drafter.propose([[1], [], [2, 3]], None, None, slot_mappings=None) == [[], [], []]


def steps(gate, clock, cost, batches, drafts):
    """Let the gate see steps of these sizes."""
    for requests, drafted in zip(batches, drafts):
        ids = [str(i) for i in range(requests)]
        gate.begins(ids, drafted)
        clock.now += cost(requests, drafted)
        gate.ended(ids)


@pytest.mark.parametrize("step, each, token", [(0.02, 0.001, 0.002), (0.001, 0.002, 0.0005)])
def test_the_gate_finds_the_costs(step, each, token):
    clock = Clock()
    gate = Gate(clock)
    assert gate.costs(1) is None
    batches = [1 + i % 5 for i in range(80)]
    drafts = [i * 7 % 11 for i in range(80)]
    cost = lambda requests, drafted: step + each * requests + token * drafted  # noqa: E731
    steps(gate, clock, cost, batches, drafts)
    gate.begins(["0"], 2)  # a prompt comes in: the step is not counted
    clock.now += 5.0
    gate.ended(["0", "new"])
    for size in (1, 4, 32):
        assert gate.costs(size) == pytest.approx((step + each * size, token), rel=1e-6)
        expected = token / ((step + each * size) / size)
        assert gate.least_share(size) == pytest.approx(expected)
    assert gate.least_share(1) < gate.least_share(64)


def test_the_gate_knows_the_costs_of_a_batch_of_one_size():
    clock = Clock()
    gate = Gate(clock)
    steps(gate, clock, lambda n, d: 0.03 + 0.004 * d, [8] * 60, [i % 9 for i in range(60)])
    assert gate.costs(8) == pytest.approx((0.03, 0.004), rel=1e-6)
    # An accepted token saves 30 / 8 milliseconds and costs 4: not even sure drafts pay.
    assert gate.least_share(8) > 1
    record = Record()
    assert [gate.pays(record.forced, 8) for _ in range(48)].count(True) == 3
    steps(gate, clock, lambda n, d: 0.03 + 0.0004 * d, [8] * 400, [i % 9 for i in range(400)])
    assert all(gate.pays(Record().forced, 8) for _ in range(8))


def test_without_drafts_the_costs_stay_unknown():
    clock = Clock()
    gate = Gate(clock)
    steps(gate, clock, lambda n, d: 0.03, [4] * 60, [0] * 60)
    assert gate.costs(4) is None and gate.pays(Record().forced, 4)


def test_the_gate_turns_off_what_does_not_pay_and_tries_again():
    gate, record = Gate(Clock()), Record()
    assert gate.pays(record.forced, 1)
    tokens = 10
    for _ in range(12):  # all drafts are rejected: one new token each
        record.forced.drafted, record.tokens = 6, tokens
        tokens += 1
        gate.observe(record, tokens)
    decisions = [gate.pays(record.forced, 1) for _ in range(64)]
    assert decisions.count(True) == 4
    for _ in range(12):  # all are accepted: the forced tokens and a sampled one
        record.forced.drafted, record.tokens = 6, tokens
        tokens += 7
        gate.observe(record, tokens)
    assert all(gate.pays(record.forced, 1) for _ in range(8))
    assert record.forced.acceptance == pytest.approx(1.0, abs=0.05)


def test_jump_forward_can_be_switched_off(monkeypatch):
    assert jump_forward.enabled()
    for value in ("0", "false", "OFF"):
        monkeypatch.setenv("FFWD_VLLM_JUMP_FORWARD", value)
        assert not jump_forward.enabled()

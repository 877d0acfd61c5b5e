"""Forced runs as drafts, and the gate that holds them back, without an engine."""

import json
from types import SimpleNamespace

from vllm_kit import *  # noqa: F403, I001  (skips the file: it must come first)
from vllm_kit import INVOICE, Kind, make_backend
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


def scheduler(backend, requests, bounds=ConstraintBounds(0, 0)):
    manager = SimpleNamespace(backend=backend, _get_constraint_bounds=lambda *_: bounds)
    return SimpleNamespace(
        structured_output_manager=manager, num_spec_tokens=LIMIT, requests=requests
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


@pytest.mark.parametrize("step, token", [(0.020, 0.001), (0.001, 0.002)])
def test_the_gate_finds_the_costs(step, token):
    clock = Clock()
    gate = Gate(clock)
    assert gate.costs() is None
    for i in range(60):
        rows = 4 + i % 7
        gate.begins(["a", "b"], rows)
        clock.now += step + token * rows
        gate.ended(["a", "b"])
        if i % 10 == 0:  # a prompt comes in: the step is not counted
            gate.begins(["a", "b"], 2)
            clock.now += 5.0
            gate.ended(["a", "b", "c"])
    found = gate.costs()
    assert found == pytest.approx((step, token), rel=1e-6)
    assert gate.least_share(4) == pytest.approx(token / (step / 4 + token))
    assert gate.least_share(1) < gate.least_share(64) < 1.0


def test_the_gate_turns_off_what_does_not_pay_and_tries_again():
    gate, record = Gate(Clock()), Record()
    assert gate.pays(record, 1)
    tokens = 10
    for _ in range(12):  # all drafts are rejected: one new token each
        record.forced, record.tokens = 6, tokens
        tokens += 1
        gate.observe(record, tokens)
    decisions = [gate.pays(record, 1) for _ in range(64)]
    assert decisions.count(True) == 4
    for _ in range(12):  # all are accepted: the forced tokens and a sampled one
        record.forced, record.tokens = 6, tokens
        tokens += 7
        gate.observe(record, tokens)
    assert all(gate.pays(record, 1) for _ in range(8))
    assert record.acceptance == pytest.approx(1.0, abs=0.05)


def test_jump_forward_can_be_switched_off(monkeypatch):
    assert jump_forward.enabled()
    for value in ("0", "false", "OFF"):
        monkeypatch.setenv("FFWD_VLLM_JUMP_FORWARD", value)
        assert not jump_forward.enabled()

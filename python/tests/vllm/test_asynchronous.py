"""Jump-forward on the asynchronous scheduler, in an engine in this process, and the choice of its way."""

import json
import os
import random

from vllm_helpers import *  # noqa: F403, I001  (skips the file: it must come first)
from vllm_helpers import INVOICE, MODEL
import pytest

from ffwd.vllm import jump_forward
from ffwd.vllm.pace import Pace
from test_engine import sampling

TEXTS = [
    f"Invoice INV-2{i}417 of {name}, total {i}84.00 EUR. As JSON:"
    for i, name in enumerate(["Acme", "Bright Glacier Consulting", "Nordwind Paper", "Kestrel Tools"])
]


class Engine:
    """A clock, and an engine whose ways take these seconds for a token."""

    def __init__(self, ahead, known):
        self.now, self.seconds = 0.0, (ahead, known)
        self.pace = Pace(lambda: self.now)

    def run(self, requests, steps):
        """Return in how many of the steps outputs came first."""
        count = 0
        for _ in range(steps):
            known = self.pace.known(requests)
            count += known
            tokens = requests * (3 if known else 1)
            self.now += tokens * self.seconds[known]
            self.pace.note(requests, tokens)
        return count


@pytest.mark.parametrize("ahead, known", [(2.0, 1.0), (1.0, 1.1)])
def test_the_faster_way_is_taken_and_the_other_is_tried_ever_less(ahead, known):
    engine = Engine(ahead, known)
    engine.run(4, 200)
    shares = [engine.run(4, 2000) / 2000 for _ in range(6)]
    wrong = [1 - share if known < ahead else share for share in shares]
    assert wrong[0] < 0.1 and max(wrong[3:]) <= 0.02
    # Another number of requests is another question, and the answer may change.
    engine.seconds = (known, ahead)
    assert (engine.run(64, 2000) > 1000) == (ahead < known)
    engine.run(4, 20_000)
    assert (engine.run(4, 2000) > 1000) == (ahead < known)


def test_pauses_are_not_counted():
    engine = Engine(1.0, 1.0)
    for _ in range(500):
        assert engine.pace.known(2)
        engine.pace.note(2, 2)
        engine.now += 100.0
        engine.pace.note(0, 0)


@pytest.fixture(scope="module")
def llm():
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", FFWD_VLLM_ASYNC="1")
    from vllm import LLM

    yield LLM(
        model=MODEL,
        dtype="float32",
        max_model_len=512,
        max_num_seqs=16,
        enforce_eager=True,
        enable_prefix_caching=False,
        num_gpu_blocks_override=9,
        structured_outputs_config={"backend": "ffwd"},
        speculative_config={"model": "ffwd.vllm.JumpForward", "num_speculative_tokens": 8},
    )
    del os.environ["FFWD_VLLM_ASYNC"]


def core(llm):
    return llm.llm_engine.engine_core.engine_core


def generate(llm, monkeypatch, way, **options):
    """The texts of all requests, with outputs first as `way` says for each step."""
    from vllm.sampling_params import StructuredOutputsParams

    monkeypatch.setattr(Pace, "known", lambda *_: way())
    params = sampling(StructuredOutputsParams(json=INVOICE), **options)
    found = llm.generate(TEXTS, params, use_tqdm=False)
    return [[output.token_ids for output in one.outputs] for one in found]


OPTIONS = [{}, {"repetition_penalty": 1.3, "presence_penalty": 0.5}]


@pytest.mark.parametrize("options", OPTIONS, ids=["greedy", "penalties"])
def test_both_ways_and_their_changes_give_the_text_without_drafts(llm, monkeypatch, options):
    assert llm.llm_engine.vllm_config.scheduler_config.async_scheduling
    rng = random.Random(5)
    with monkeypatch.context() as patch:
        patch.setattr(jump_forward, "lead", lambda _, d: type(d)(d.req_ids, [[] for _ in d.req_ids]))
        plain = generate(llm, patch, lambda: False, **options)
    for way in (lambda: True, lambda: False, lambda: rng.random() < 0.5, lambda: rng.random() < 0.5):
        assert generate(llm, monkeypatch, way, **options) == plain


def test_several_outputs_of_a_prompt_are_whole(llm, monkeypatch):
    from vllm.sampling_params import StructuredOutputsParams

    rng = random.Random(6)
    monkeypatch.setattr(Pace, "known", lambda *_: rng.random() < 0.5)
    params = sampling(StructuredOutputsParams(json=INVOICE), n=3, temperature=1.0, seed=2, max_tokens=120)
    for one in llm.generate(TEXTS, params, use_tqdm=False):
        assert len(one.outputs) == 3
        for output in one.outputs:
            assert output.finish_reason == "length" or set(json.loads(output.text)) == set(INVOICE["required"])


def test_forced_runs_save_forwards(llm, monkeypatch):
    executor = core(llm).model_executor
    original, steps = executor.execute_model, []

    def counted(output, *args, **kwargs):
        steps.append(output.total_num_scheduled_tokens > 0)
        return original(output, *args, **kwargs)

    monkeypatch.setattr(executor, "execute_model", counted)
    generate(llm, monkeypatch, lambda: False)
    ahead = sum(steps)
    steps.clear()
    monkeypatch.setattr("ffwd.vllm.gate.Gate.pays", lambda *_: True)
    generate(llm, monkeypatch, lambda: True)
    assert sum(steps) < 0.7 * ahead, (sum(steps), ahead)


def test_preempted_and_aborted_requests_do_no_harm(llm, monkeypatch):
    from vllm.sampling_params import StructuredOutputsParams

    rng = random.Random(9)
    monkeypatch.setattr(Pace, "known", lambda *_: rng.random() < 0.5)
    long = {"type": "object", "properties": {"text": {"type": "string", "minLength": 700}}}
    params = sampling(StructuredOutputsParams(json={**long, "required": ["text"]}), max_tokens=150)
    short = sampling(StructuredOutputsParams(json=INVOICE))
    expected = [one[0] for one in generate(llm, monkeypatch, lambda: False)]
    engine = llm.llm_engine
    for i in range(8):
        engine.add_request(f"long {i}", TEXTS[0], params)
    for i, text in enumerate(TEXTS):
        engine.add_request(f"short {i}", text, short)
    scheduler, preempted, found = core(llm).scheduler, 0, {}
    preempt = scheduler._preempt_request

    def counted(*args, **kwargs):
        nonlocal preempted
        preempted += 1
        return preempt(*args, **kwargs)

    monkeypatch.setattr(scheduler, "_preempt_request", counted)
    step = 0
    while engine.has_unfinished_requests():
        step += 1
        for output in engine.step():
            if output.finished:
                found[output.request_id] = list(output.outputs[0].token_ids)
        if step in (20, 40, 60):
            engine.abort_request([f"long {step // 20}"])
    assert preempted and [found[f"short {i}"] for i in range(4)] == [list(one) for one in expected]
    assert all(len(found[name]) == 150 for name in ("long 0", "long 4", "long 7"))

"""Time inside the backend, and what a new schema costs its neighbours, in one engine of vLLM.

    python bench/vllm_overhead.py MODEL --backend ffwd
    python bench/vllm_overhead.py MODEL --backend xgrammar

32 requests decode a fixed number of tokens under a warm schema. The calls of the manager are timed.
Then, in rounds, a further request comes in every few steps: with a schema that was never seen, with
one that is known, or without a constraint.
"""

import argparse
import os
import random
import statistics
import time

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR")

import ffwd.vllm
from vllm_workloads import closed, job

ffwd.vllm.register()

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.structured_output import StructuredOutputManager

REQUESTS, TOKENS, EVERY = 32, 40, 4
CALLS = ("grammar_init", "grammar_bitmask", "accept_tokens", "validate_tokens", "_create_grammar")


class Timer:
    """Sums the time of the manager's calls."""

    def __init__(self):
        self.seconds = dict.fromkeys(CALLS, 0.0)

    def watch(self):
        for name in CALLS:
            setattr(StructuredOutputManager, name, self.timed(name))

    def timed(self, name):
        original = getattr(StructuredOutputManager, name)

        def call(*args, **kwargs):
            began = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds[name] += time.perf_counter() - began

        return call


def params(schema, tokens=TOKENS):
    wanted = schema and StructuredOutputsParams(json=schema)
    return SamplingParams(
        temperature=0, max_tokens=tokens, ignore_eos=True, structured_outputs=wanted
    )


def fresh(rng):
    """A schema that no one has seen."""
    names = [f"field_{rng.randrange(10**9)}" for _ in range(12)]
    return closed(**{name: {"type": "string", "maxLength": rng.randrange(5, 60)} for name in names})


class Engine:
    def __init__(self, model, backend):
        compact = {"disable_any_whitespace": True} if backend == "xgrammar" else {}
        self.llm = LLM(
            model,
            dtype="bfloat16",
            max_model_len=512,
            max_num_seqs=REQUESTS + 8,
            enforce_eager=True,
            enable_prefix_caching=False,
            disable_log_stats=True,
            structured_outputs_config={"backend": backend, **compact},
        )
        self.engine = self.llm.llm_engine
        self.number = 0

    def add(self, prompt, sampling):
        self.number += 1
        self.engine.add_request(str(self.number), prompt, sampling)

    def run(self, constrained, newcomer=None):
        """Decode the neighbours; return the seconds from the first token to the last."""
        for i in range(REQUESTS):
            prompt, schema = job("long", i)
            self.add(prompt, params(schema if constrained else None))
        steps, began = 0, None
        while self.engine.has_unfinished_requests():
            self.engine.step()
            steps += 1
            if steps == 3:
                began = time.perf_counter()
            if newcomer and steps > 3 and steps % EVERY == 0 and steps < TOKENS - 4:
                self.add("Write JSON.", params(newcomer(), tokens=2))
        return time.perf_counter() - began, steps - 3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--backend", default="ffwd")
    parser.add_argument("--rounds", type=int, default=4)
    arguments = parser.parse_args()
    engine = Engine(arguments.model, arguments.backend)
    rng = random.Random(5)
    known = fresh(rng)
    engine.run(True, lambda: known)
    timer = Timer()
    timer.watch()
    kinds = {
        "free": lambda: engine.run(False),
        "constrained": lambda: engine.run(True),
        "with known schemas": lambda: engine.run(True, lambda: known),
        "with new schemas": lambda: engine.run(True, lambda: fresh(rng)),
        "with free newcomers": lambda: engine.run(True, lambda: None),
    }
    found = {kind: [] for kind in kinds}
    inside = []
    for _ in range(arguments.rounds):
        order = list(kinds)
        rng.shuffle(order)
        for kind in order:
            before = dict(timer.seconds)
            seconds, steps = kinds[kind]()
            found[kind].append(1000 * seconds / steps)
            if kind == "constrained":
                inside.append({k: 1000 * (timer.seconds[k] - before[k]) / steps for k in CALLS})
    print(f"{arguments.backend}, {REQUESTS} requests, milliseconds a step, medians")
    for kind, values in found.items():
        print(f"  {kind}: {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")
    step = statistics.median(found["constrained"])
    for name in ("grammar_bitmask", "accept_tokens"):
        one = statistics.median(call[name] for call in inside)
        print(f"  {name}: {one:.3f} ms a step, {100 * one / step:.2f} %")


if __name__ == "__main__":
    main()

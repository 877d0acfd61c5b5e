"""Engines of vLLM in interleaved rounds: seconds, forwards and tokens of each.

    python bench/vllm_modes.py MODEL --rounds 3 --kinds schema,text --batches 1,8,32

Each mode is an engine in a process of its own; all are started first. In each round every mode
decodes the same prompts, greedily, in another order each time. `free` is without a constraint.
With `FFWD_BENCH_LOCKS=FILE,FILE` the rounds run while these files are locked.
"""

import argparse
import fcntl
import json
import os
import random
import statistics
import time
from contextlib import ExitStack, contextmanager

os.environ.update(VLLM_LOGGING_LEVEL="ERROR")
# Several engines share the memory.
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")

import ffwd.vllm
from vllm_workloads import LONG, job

ffwd.vllm.register()

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams

NGRAM = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
JUMP = {"model": "ffwd.vllm.JumpForward"}
# Backend, drafter, jump-forward, asynchronous scheduler.
MODES = {
    "ffwd": ("ffwd", None, "1", "1"),
    "xgrammar": ("xgrammar", None, "1", "1"),
    "xgrammar, synchronous": ("xgrammar", None, "1", "0"),
    "ffwd, n-gram": ("ffwd", NGRAM, "0", "0"),
    "ffwd, jump-forward": ("ffwd", JUMP, "1", "1"),
    "ffwd, jump-forward, synchronous": ("ffwd", JUMP, "1", "0"),
    "ffwd, jump-forward and n-gram": ("ffwd", NGRAM, "1", "0"),
    "free": ("ffwd", None, "1", "1"),
}


def start(model, mode, drafts, rows):
    backend, drafter, jump, asynchronous = MODES[mode]
    os.environ["FFWD_VLLM_JUMP_FORWARD"] = jump
    # vLLM turns the asynchronous scheduler off on processors.
    os.environ["FFWD_VLLM_ASYNC"] = asynchronous
    compact = {"disable_any_whitespace": True} if backend == "xgrammar" else {}
    began = time.perf_counter()
    llm = LLM(
        model,
        dtype="bfloat16",
        max_model_len=512,
        max_num_seqs=rows,
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=False,
        structured_outputs_config={"backend": backend, **compact},
        speculative_config=drafter and {"num_speculative_tokens": drafts, **drafter},
    )
    print(f"# {mode}: started in {time.perf_counter() - began:.0f} s", flush=True)
    return llm


def steps(llm):
    """Number of the engine's steps so far."""
    metrics = {metric.name: metric for metric in llm.get_metrics()}
    return metrics["vllm:iteration_tokens_total"].count


def run(llm, mode, jobs):
    messages = [[{"role": "user", "content": prompt}] for prompt, _ in jobs]
    make = lambda schema: None if mode == "free" else StructuredOutputsParams(json=schema)
    params = [
        SamplingParams(
            temperature=0,
            max_tokens=48 if schema is LONG else 72 if mode == "free" else 120,
            ignore_eos=mode == "free",
            structured_outputs=make(schema),
        )
        for _, schema in jobs
    ]
    before, began = steps(llm), time.perf_counter()
    found = llm.chat(messages, params, use_tqdm=False)
    seconds = time.perf_counter() - began
    outputs = [result.outputs[0] for result in found]
    return {
        "seconds": seconds,
        "steps": steps(llm) - before,
        "tokens": sum(len(output.token_ids) for output in outputs),
        "texts": [output.text for output in outputs],
    }


@contextmanager
def locked(most=None):
    """Hold the lock files of the environment."""
    paths = [path for path in os.environ.get("FFWD_BENCH_LOCKS", "").split(",") if path]
    with ExitStack() as stack:
        for path in paths[:most]:
            fcntl.flock(stack.enter_context(open(path)), fcntl.LOCK_EX)
        yield


def measure(engines, kind, batch, rounds, rng):
    """One line for each mode: medians over the rounds."""
    results = {mode: [] for mode in engines}
    with locked():
        for number in range(rounds):
            jobs = [job(kind, 1000 * number + i) for i in range(max(batch, 2))]
            modes = list(engines)
            rng.shuffle(modes)
            for mode in modes:
                parts = [jobs] if batch > 1 else [[one] for one in jobs]
                found = [run(engines[mode], mode, part) for part in parts]
                total = {k: sum(f[k] for f in found) for k in ("seconds", "steps", "tokens")}
                results[mode].append({**total, "texts": sum((f["texts"] for f in found), [])})
    for mode, found in results.items():
        rate = statistics.median(f["tokens"] / f["seconds"] for f in found)
        line = {
            "kind": kind,
            "batch": batch,
            "mode": mode,
            "seconds": round(statistics.median(f["seconds"] for f in found), 3),
            "steps": statistics.median(f["steps"] for f in found),
            "tokens": statistics.median(f["tokens"] for f in found),
            "tokens_per_second": round(rate, 1),
            "all_seconds": [round(f["seconds"], 2) for f in found],
        }
        if "ffwd" in results:
            pairs = [
                (a, b)
                for one, other in zip(found, results["ffwd"])
                for a, b in zip(one["texts"], other["texts"])
            ]
            line["same_text"] = f"{sum(a == b for a, b in pairs)}/{len(pairs)}"
        print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--modes", default=";".join(MODES))
    parser.add_argument("--kinds", default="schema,text")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--drafts", type=int, default=8)
    arguments = parser.parse_args()
    rng = random.Random(1)
    batches = [int(batch) for batch in arguments.batches.split(",")]
    engines = {}
    with locked(1):
        for mode in arguments.modes.split(";"):
            engines[mode] = start(arguments.model, mode, arguments.drafts, max(batches))
            run(engines[mode], mode, [job(kind, 7) for kind in arguments.kinds.split(",")])
    for kind in arguments.kinds.split(","):
        for batch in batches:
            measure(engines, kind, batch, arguments.rounds, rng)


if __name__ == "__main__":
    main()

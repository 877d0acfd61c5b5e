"""Whether jump-forward changes what vLLM writes.

    python bench/vllm_equality.py MODEL --dtype float32 --count 250 --first 0
    FFWD_VLLM_ASYNC=1 python bench/vllm_equality.py MODEL --drafter jump   # asynchronous scheduler

Greedy: each prompt is decoded without drafts and with forced runs, in front of n-gram drafts or
alone, in one engine. Where the tokens differ, the gap between the logits of the two at the first difference is
printed. Sampled: a small constraint is sampled many times with and without drafts, and the counts
are compared by chi-square.
"""

import argparse
import collections
import json
import os

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR")

import ffwd.vllm
from vllm_workloads import closed, job

ffwd.vllm.register()

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams

from ffwd.vllm import jump_forward

LEAD = jump_forward.lead
DRAFTERS = {
    "ngram": {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4},
    "jump": {"model": "ffwd.vllm.JumpForward"},
}


def without(scheduler, drafted):
    """No drafts at all."""
    return type(drafted)(drafted.req_ids, [[] for _ in drafted.req_ids])


def generate(llm, drafts, prompts, params):
    """Decode with drafts or without; return the outputs and the number of forwards."""
    jump_forward.lead = LEAD if drafts else without
    executor = llm.llm_engine.engine_core.engine_core.model_executor
    original, forwards = executor.execute_model, []

    def counted(*args, **kwargs):
        forwards.append(1)
        return original(*args, **kwargs)

    executor.execute_model = counted
    messages = [[{"role": "user", "content": prompt}] for prompt in prompts]
    found = llm.chat(messages, params, use_tqdm=False)
    executor.execute_model = original
    return [result.outputs[0] for result in found], len(forwards)


def greedy(llm, arguments):
    """Compare in batches, so that a run that is cut short has said what it found."""
    seeds = range(arguments.first, arguments.first + arguments.count)
    for start in range(0, len(seeds), arguments.batch):
        part = seeds[start : start + arguments.batch]
        compare(llm, arguments, [job("mixed", seed) for seed in part])


def compare(llm, arguments, jobs):
    prompts = [prompt for prompt, _ in jobs]
    make = lambda **more: [
        SamplingParams(
            temperature=0,
            max_tokens=arguments.tokens,
            structured_outputs=StructuredOutputsParams(json=schema),
            **more,
        )
        for _, schema in jobs
    ]
    plain, steps = generate(llm, False, prompts, make())
    jumped, fewer = generate(llm, True, prompts, make())
    pairs = [(list(a.token_ids), list(b.token_ids)) for a, b in zip(plain, jumped)]
    differ = [i for i, (a, b) in enumerate(pairs) if a != b]
    print(
        f"greedy: {len(pairs) - len(differ)} of {len(pairs)} equal, "
        f"{sum(len(a) for a, _ in pairs)} tokens, "
        f"forwards {steps} without and {fewer} with drafts",
        flush=True,
    )
    for i in differ:
        a, b = pairs[i]
        at = next((j for j, (x, y) in enumerate(zip(a, b)) if x != y), None)
        if at is None:
            print(f"  request {i}: lengths {len(a)} and {len(b)}")
            continue
        again = SamplingParams(
            temperature=0,
            max_tokens=at + 1,
            logprobs=20,
            structured_outputs=StructuredOutputsParams(json=jobs[i][1]),
        )
        output = generate(llm, False, [prompts[i]], again)[0][0]
        row = output.logprobs[at] if len(output.logprobs) > at else {}
        values = [row[t].logprob if t in row else None for t in (a[at], b[at])]
        gap = abs(values[0] - values[1]) if None not in values else None
        print(f"  request {i}, token {at}: {a[at]} or {b[at]}, gap {gap}", flush=True)


def sampled(llm, count):
    schema = closed(
        answer={"enum": ["yes", "no", "not_yet"]}, level={"type": "integer", "minimum": 1, "maximum": 3}
    )
    prompt = "Is it raining? Answer in JSON."
    counts = []
    for drafts in (False, True):
        params = [
            SamplingParams(
                temperature=1.3,
                max_tokens=24,
                seed=seed + 100_000 * drafts,
                structured_outputs=StructuredOutputsParams(json=schema),
            )
            for seed in range(count)
        ]
        found, forwards = generate(llm, drafts, [prompt] * count, params)
        counts.append(collections.Counter(output.text for output in found))
        print(f"sampled, drafts {drafts}: {forwards} forwards, {dict(counts[-1])}")
    # Rare outcomes are joined: each cell has at least five in expectation.
    keys = [k for k in counts[0] | counts[1] if counts[0][k] + counts[1][k] >= 10]
    table = [[c[k] for k in keys] + [count - sum(c[k] for k in keys)] for c in counts]
    cells = [(a, b) for a, b in zip(*table) if a + b]
    chi = sum((a - b) ** 2 / (a + b) for a, b in cells)
    print(f"chi-square {chi:.2f} with {len(cells) - 1} degrees of freedom")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--drafter", choices=["ngram", "jump"], default="ngram")
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--samples", type=int, default=0)
    arguments = parser.parse_args()
    llm = LLM(
        arguments.model,
        dtype=arguments.dtype,
        max_model_len=512,
        max_num_seqs=64,
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=True,
        structured_outputs_config={"backend": "ffwd"},
        speculative_config={"num_speculative_tokens": 8, **DRAFTERS[arguments.drafter]},
    )
    scheduler = llm.llm_engine.vllm_config.scheduler_config
    print(f"asynchronous scheduler: {scheduler.async_scheduling}", flush=True)
    if arguments.count:
        greedy(llm, arguments)
    if arguments.samples:
        sampled(llm, arguments.samples)


if __name__ == "__main__":
    main()

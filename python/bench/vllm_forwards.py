"""Forwards, seconds and tokens of one engine of vLLM in each mode of drafting.

    python bench/vllm_forwards.py MODEL --kinds schema,text --batches 1,8,32

One engine in this process decodes the same prompts without drafts, with forced runs, and with copies behind
them. The scheduler is synchronous in all of them.
"""

import argparse
import os
import time

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR")

import ffwd.vllm
from vllm_workloads import job

ffwd.vllm.register()

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams

from ffwd.vllm import jump_forward

LEAD, COPIED = jump_forward.lead, jump_forward._copied


def without(scheduler, drafted):
    return type(drafted)(drafted.req_ids, [[] for _ in drafted.req_ids])


def forced(scheduler, drafted):
    jump_forward._copied = lambda *_: []
    return LEAD(scheduler, drafted)


def forced_and_copied(scheduler, drafted):
    jump_forward._copied = COPIED
    return LEAD(scheduler, drafted)


MODES = {"none": without, "forced": forced, "forced and copied": forced_and_copied}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--kinds", default="schema,text")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--drafts", type=int, default=8)
    arguments = parser.parse_args()
    llm = LLM(
        arguments.model,
        dtype="bfloat16",
        max_model_len=512,
        max_num_seqs=32,
        enforce_eager=True,
        enable_prefix_caching=False,
        disable_log_stats=True,
        structured_outputs_config={"backend": "ffwd"},
        speculative_config={
            "model": "ffwd.vllm.JumpForward",
            "num_speculative_tokens": arguments.drafts,
        },
        async_scheduling=False,
    )
    executor = llm.llm_engine.engine_core.engine_core.model_executor
    original, rows = executor.execute_model, []

    def execute_model(output, *args, **kwargs):
        rows.append(output.total_num_scheduled_tokens)
        return original(output, *args, **kwargs)

    executor.execute_model = execute_model
    for kind in arguments.kinds.split(","):
        for batch in map(int, arguments.batches.split(",")):
            jobs = [job(kind, i) for i in range(batch)]
            for mode, lead in MODES.items():
                jump_forward.lead = lead
                rows.clear()
                began = time.perf_counter()
                found = llm.chat(
                    [[{"role": "user", "content": prompt}] for prompt, _ in jobs],
                    [
                        SamplingParams(
                            temperature=0,
                            max_tokens=120,
                            structured_outputs=StructuredOutputsParams(json=schema),
                        )
                        for _, schema in jobs
                    ],
                    use_tqdm=False,
                )
                seconds = time.perf_counter() - began
                gate = llm.llm_engine.engine_core.engine_core.structured_output_manager.backend.gate
                tokens = sum(len(result.outputs[0].token_ids) for result in found)
                print(
                    f"{kind}, {batch}, {mode}: {sum(map(bool, rows))} forwards, {tokens} tokens, "
                    f"{sum(rows)} rows, {seconds:.2f} s, accepted {gate.acceptance}, "
                    f"costs {gate.costs(batch)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

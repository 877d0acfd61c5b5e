"""Time of a request inside vLLM's structured-output backends, at the level of Python.

    pip install 'ffwd-llm[vllm]'
    FFWD_BENCH_DIR=../../shared/bench python bench/backends.py [SCHEMAS] [--tokenizer FOLDER]

Each backend is the class that vLLM makes, called as vLLM calls it: compile a schema, then fill a row
of a tensor and accept a token for each token of a valid instance. The backends run in turns of some
schemas on the same tokens, each schema once. A schema that one of them refuses is left out and
counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch
import transformers
from vllm.v1.structured_output.backend_guidance import GuidanceBackend
from vllm.v1.structured_output.backend_types import StructuredOutputOptions
from vllm.v1.structured_output.backend_xgrammar import XgrammarBackend

from ffwd.vllm.backend import Backend

# Schemas of one backend before the next one's turn.
TURN = 20

BENCH = Path(os.environ.get("FFWD_BENCH_DIR", "../../shared/bench"))


def sample(count):
    """Schemas with their first valid instance, spread over the sample."""
    packed = BENCH / "maskbench-dev-sample.jsonl.zst"
    text = subprocess.run(["zstd", "-dc", packed], capture_output=True, check=True).stdout
    lines = [json.loads(line) for line in text.split(b"\n") if line]
    valid = [
        (entry, next(test["data"] for test in entry["tests"] if test["valid"]))
        for entry in lines
        if any(test["valid"] for test in entry["tests"])
    ]
    for entry, data in valid[:: max(1, len(valid) // count)][:count]:
        yield json.dumps(entry["schema"]), json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def config(tokenizer):
    """The parts of vLLM's configuration that the backends read."""
    options = SimpleNamespace(
        disable_any_whitespace=False, disable_additional_properties=False, backend="auto"
    )
    model = SimpleNamespace(
        hf_config=SimpleNamespace(model_type="llama"), get_vocab_size=lambda: len(tokenizer),
        try_get_generation_config=dict,
    )
    return SimpleNamespace(
        structured_outputs_config=options, model_config=model, speculative_config=None
    )


def request(backend, bitmask, schema, tokens):
    """Seconds of compiling, of each fill and of each accept; None if a token is refused."""
    start = time.perf_counter()
    grammar = backend.compile_grammar(StructuredOutputOptions.JSON, schema)
    compiled = time.perf_counter() - start
    fills, accepts = [], []
    for token in tokens:
        start = time.perf_counter()
        grammar.fill_bitmask(bitmask, 0)
        filled = time.perf_counter()
        if not grammar.accept_tokens("request", [token]):
            return None
        accepts.append(time.perf_counter() - filled)
        fills.append(filled - start)
    return compiled, fills, accepts


def run(backends, tokenizer, entries):
    """Requests of each backend where all of them serve, and how many each left out."""
    rows = {name: [] for name in backends}
    left_out = dict.fromkeys(backends, 0)
    masks = {name: backend.allocate_token_bitmask(1) for name, backend in backends.items()}
    entries = [
        (schema, tokenizer.encode(data, add_special_tokens=False)) for schema, data in entries
    ]
    names = list(backends)
    for turn, first in enumerate(range(0, len(entries), TURN)):
        block = entries[first : first + TURN]
        found = [{} for _ in block]
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            for measured, (schema, tokens) in zip(found, block, strict=True):
                try:
                    measured[name] = request(backends[name], masks[name], schema, tokens)
                except Exception:  # Each backend has exceptions of its own.
                    measured[name] = None
        for measured in found:
            for name in names:
                left_out[name] += measured[name] is None
                if None not in measured.values():
                    rows[name].append(measured[name])
    return rows, left_out


def main():
    arguments = argparse.ArgumentParser(description="Time a request in vLLM's backends.")
    arguments.add_argument("schemas", nargs="?", type=int, default=200)
    arguments.add_argument("--tokenizer", default=BENCH / "tokenizers" / "llama3")
    options = arguments.parse_args()
    if not (BENCH / "maskbench-dev-sample.jsonl.zst").exists():
        sys.exit(f"no benchmark data in {BENCH}; set FFWD_BENCH_DIR")
    torch.set_num_threads(1)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(Path(options.tokenizer) / "tokenizer.json"),
        eos_token="<|eot_id|>" if "llama3" in str(options.tokenizer) else "<|im_end|>",
    )
    settings = config(tokenizer)
    backends = {}
    for name, kind in [("ffwd", Backend), ("xgrammar", XgrammarBackend), ("guidance", GuidanceBackend)]:
        start = time.perf_counter()
        backends[name] = kind(settings, tokenizer=tokenizer, vocab_size=len(tokenizer))
        print(f"{name}: ready in {time.perf_counter() - start:.2f} s")
    rows, left_out = run(backends, tokenizer, sample(options.schemas))
    print("| backend | left out | compile ms | fill us, mean | median | p99 | accept us | request ms |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, requests in rows.items():
        fills = sorted(1e6 * t for _, times, _ in requests for t in times)
        accepts = [1e6 * t for _, _, times in requests for t in times]
        whole = [1e3 * (c + sum(f)) for c, f, _ in requests]
        print(
            f"| {name} | {left_out[name]} | {1e3 * statistics.mean(c for c, _, _ in requests):.3f} "
            f"| {statistics.mean(fills):.1f} | {statistics.median(fills):.1f} "
            f"| {fills[int(0.99 * len(fills))]:.1f} | {statistics.mean(accepts):.2f} "
            f"| {statistics.mean(whole):.3f} |"
        )
    print(f"{len(rows['ffwd'])} schemas, {sum(len(f) for _, f, _ in rows['ffwd'])} masks")


if __name__ == "__main__":
    main()

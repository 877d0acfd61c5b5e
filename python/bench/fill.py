"""Time of compiling and filling, at the level of Python, beside llguidance.

    pip install llguidance numpy tokenizers      # and this package
    FFWD_BENCH_DIR=../../shared/bench python bench/fill.py [SCHEMAS]

For each schema of the sample: compile it, then walk one valid instance token by token, with a mask
before each token. Both engines run in turns on the same tokens. An instance that one of them does
not accept is left out and counted.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import ffwd
import llguidance
import llguidance.numpy

BENCH = Path(os.environ.get("FFWD_BENCH_DIR", "../../shared/bench"))
TOKENIZER = BENCH / "tokenizers" / "llama3" / "tokenizer.json"


def sample(count):
    """Schemas with their first valid instance, spread over the sample."""
    packed = BENCH / "maskbench-dev-sample.jsonl.zst"
    text = subprocess.run(["zstd", "-dc", packed], capture_output=True, check=True).stdout
    lines = [json.loads(line) for line in text.split(b"\n") if line]
    entries = []
    for entry in lines[:: max(1, len(lines) // count)]:
        valid = [test["data"] for test in entry["tests"] if test["valid"]]
        if valid:
            data = json.dumps(valid[0], ensure_ascii=False, separators=(",", ":"))
            entries.append((entry["id"], json.dumps(entry["schema"]), data))
    return entries


def walk(fill, accept, tokens):
    """Times of the masks in seconds, or None if a token is refused."""
    times = []
    for token in tokens:
        start = time.perf_counter()
        fill()
        times.append(time.perf_counter() - start)
        if not accept(token):
            return None
    return times


class Ffwd:
    def __init__(self, vocabulary):
        self.compiler = ffwd.Compiler(vocabulary)
        self.compiler.warm_up()
        self.bitmask = ffwd.allocate_token_bitmask(1, vocabulary)

    def compile(self, schema):
        return self.compiler.compile(ffwd.Constraint.json_schema(schema)).matcher()

    def walk(self, matcher, tokens):
        return walk(lambda: matcher.fill_next_token_bitmask(self.bitmask), matcher.accept_token, tokens)


class Llguidance:
    def __init__(self, vocabulary):
        size = vocabulary.logits_size
        self.tokenizer = llguidance.LLTokenizer(TOKENIZER.read_text(), n_vocab=size)
        self.bitmask = llguidance.numpy.allocate_token_bitmask(1, size)

    def compile(self, schema):
        defaults = {"whitespace_flexible": False}
        grammar = llguidance.LLMatcher.grammar_from_json_schema(schema, defaults=defaults)
        matcher = llguidance.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def walk(self, matcher, tokens):
        fill = llguidance.numpy.fill_next_token_bitmask
        return walk(lambda: fill(matcher, self.bitmask, 0), matcher.consume_token, tokens)


def main():
    if not TOKENIZER.exists():
        sys.exit(f"no benchmark data in {BENCH}; set FFWD_BENCH_DIR")
    vocabulary = ffwd.Vocabulary.from_file(TOKENIZER)
    engines = {"ffwd": Ffwd(vocabulary), "llguidance": Llguidance(vocabulary)}
    rows = {name: [] for name in engines}
    left_out = {name: 0 for name in engines}
    for number, (_, schema, data) in enumerate(sample(int(sys.argv[1]) if sys.argv[1:] else 100)):
        tokens = vocabulary.encode(data)
        found = {}
        order = list(engines.items())
        for name, engine in order if number % 2 else reversed(order):
            start = time.perf_counter()
            try:
                matcher = engine.compile(schema)
            except ValueError:
                continue
            compiled = time.perf_counter() - start
            times = engine.walk(matcher, tokens)
            if times is not None:
                found[name] = (compiled, times)
        for name in engines:
            left_out[name] += name not in found
            if len(found) == len(engines):
                rows[name].append(found[name])
    for name, all_times in rows.items():
        fills = sorted(t for _, times in all_times for t in times)
        micro = [1e6 * t for t in fills]
        print(
            f"{name}: {len(all_times)} schemas ({left_out[name]} left out by it), {len(fills)} masks; "
            f"compile {1e3 * statistics.mean(c for c, _ in all_times):.3f} ms mean, "
            f"{1e3 * statistics.median(c for c, _ in all_times):.3f} median; "
            f"mask {statistics.mean(micro):.1f} us mean, {statistics.median(micro):.1f} median, "
            f"{micro[int(0.99 * len(micro))]:.1f} p99; "
            f"request {1e3 * statistics.mean(c + sum(t) for c, t in all_times):.3f} ms mean"
        )


if __name__ == "__main__":
    main()

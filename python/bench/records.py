"""Milliseconds per record: Python and the program, on the same texts with the same schema.

    cargo build --release && python python/bench/records.py [--texts N] [--rounds N]

Rounds are interleaved, and the best of each is printed. The time of the program is that of its whole
run, so it contains the start and the loading of the model; Python's contains neither.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import ffwd

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"]},
        "number": {"type": ["number", "null"]},
        "date": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
    },
    "required": ["name", "number", "date"],
}


def texts(count):
    lines = (ROOT / "tests/data/eval/synthetic_heldout.jsonl").read_text().splitlines()
    return [json.loads(line)["text"] for line in lines][:count]


def program(folder, batch):
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    output = folder / f"records-{batch}.jsonl"
    output.unlink(missing_ok=True)
    command = [target / "release/ffwd", "extract", folder / "texts.jsonl", "--text-field", "text"]
    command += ["-s", folder / "schema.json", "--batch", str(batch), "-o", output]
    subprocess.run(command, check=True, capture_output=True)
    return [json.loads(line)["record"] for line in output.read_text().splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    chosen = texts(args.texts)
    engine = ffwd.Engine.embedded()
    extractor = engine.extractor(SCHEMA)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "schema.json").write_text(json.dumps(SCHEMA))
        (folder / "texts.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in chosen))
        ways = {
            "Python, extract": lambda: [extractor.extract(text) for text in chosen],
            "Python, extract_many, batch 16": lambda: list(
                extractor.extract_many(chosen, batch=16)
            ),
            "program, batch 1": lambda: program(folder, 1),
            "program, batch 16": lambda: program(folder, 16),
        }
        seconds = {way: [] for way in ways}
        records = {}
        for _ in range(args.rounds):
            for way, run in ways.items():
                start = time.perf_counter()
                records[way] = run()
                seconds[way].append(time.perf_counter() - start)
    assert len({json.dumps(found) for found in records.values()}) == 1, "the records differ"
    print("| way | ms per record |\n| --- | --- |")
    for way, found in seconds.items():
        print(f"| {way} | {1000 * min(found) / len(chosen):.1f} |")
    tokens = [extractor.extract(text, details=True).stats for text in chosen]
    share = sum(stats.seconds for stats in tokens)
    print(
        f"\n{len(chosen)} texts; {1000 * share / len(chosen):.1f} ms of a record are the generation"
    )


if __name__ == "__main__":
    main()

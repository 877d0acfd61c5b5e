#!/bin/sh
# Measures anew, and writes the results into the tables of README.md, docs/engine.md and docs/exactness.md. Takes about ten minutes on a
# machine that has nothing else to do; needs the benchmark data (FFWD_BENCH_DIR, or ../shared/bench).
set -eu
cd "$(dirname "$0")/.."
FFWD_WRITE_TABLES=1
export FFWD_WRITE_TABLES
cargo bench --no-default-features --features bench-llguidance --bench maskbench
cargo bench --no-default-features --bench engine
RAYON_NUM_THREADS=1 cargo run --release --example evaluate -- \
    tests/data/eval/synthetic_seen.jsonl tests/data/eval/handwritten_dev.jsonl
cargo bench --no-default-features --bench hostile
cargo bench --no-default-features --bench threads
RAYON_NUM_THREADS=1 cargo run --release --example distances

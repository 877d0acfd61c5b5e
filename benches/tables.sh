#!/bin/sh
# Measures anew and writes the results into the tables of docs/benchmarks.md. Takes about ten minutes on
# an idle machine. Needs the benchmark data (FFWD_BENCH_DIR, or ../shared/bench).
set -eu
cd "$(dirname "$0")/.."
FFWD_WRITE_TABLES=1
export FFWD_WRITE_TABLES
cargo run --release -p ffwd-maskbench --features ffwd-maskbench/llguidance
cargo bench --no-default-features --bench engine
RAYON_NUM_THREADS=1 cargo run --release --example evaluate -- \
    tests/data/eval/synthetic_seen.jsonl tests/data/eval/handwritten_dev.jsonl
RAYON_NUM_THREADS=1 cargo run --release --example grounding -- tests/data/eval/handwritten_dev.jsonl
cargo bench --no-default-features --bench adversarial
cargo bench --no-default-features --bench threads
RAYON_NUM_THREADS=1 cargo bench --bench mode_divergence

#!/bin/sh
# Measures anew, and writes results as JSON into benches/record, tables into docs/benchmarks.md, and
# curves into docs/pictures. Run it on an idle machine: the first part takes about ten minutes, the
# second some more.
#
#   benches/tables.sh              # engine and decoding
#   benches/tables.sh engine       # masks, operations, evaluations, threads; needs the benchmark data
#                                  # (FFWD_BENCH_DIR, or ../shared/bench)
#   benches/tables.sh grammars     # needs TOKENIZER=tokenizer.json, that of Llama 3
#   benches/tables.sh decoding     # what `ffwd bench` measures; MODEL=FILE.gguf adds a real model
set -eu
cd "$(dirname "$0")/.."
part=${1:-all}

engine() {
    export FFWD_WRITE_TABLES=1
    cargo run --release -p ffwd-maskbench --features ffwd-maskbench/llguidance
    cargo bench --no-default-features --bench engine
    RAYON_NUM_THREADS=1 cargo run --release --example evaluate -- \
        tests/data/eval/synthetic_seen.jsonl tests/data/eval/handwritten_dev.jsonl
    RAYON_NUM_THREADS=1 cargo run --release --example grounding -- tests/data/eval/handwritten_dev.jsonl
    cargo bench --no-default-features --bench adversarial
    cargo bench --no-default-features --bench threads
    RAYON_NUM_THREADS=1 cargo bench --bench mode_divergence
}

grammars() {
    export RAYON_NUM_THREADS=1 CANDLE_NUM_THREADS=1
    cargo build --release --features llguidance
    table=$(mktemp)
    "${CARGO_TARGET_DIR:-target}/release/ffwd" bench grammars benches/grammars/corpus.jsonl \
        --tokenizer "$TOKENIZER" --json benches/record/grammars.json --markdown "$table"
    benches/put_table.py grammars "$table"
    rm "$table"
}

decoding() {
    export RAYON_NUM_THREADS="${RAYON_NUM_THREADS:-1}" CANDLE_NUM_THREADS="${CANDLE_NUM_THREADS:-1}"
    cargo build --release
    ffwd=${CARGO_TARGET_DIR:-target}/release/ffwd
    record=benches/record
    tables=$(mktemp -d)
    trap 'rm -r "$tables"' EXIT
    own="--schema examples/data/invoice.schema.json --text examples/data/invoice.txt"
    "$ffwd" bench decode --rounds 25 --json $record/decode-embedded.json --markdown "$tables/decode.md"
    benches/put_table.py decode-embedded "$tables/decode.md"
    # shellcheck disable=SC2086
    "$ffwd" bench fraction --rounds 40 $own --json $record/fraction-embedded.json \
        --svg docs/pictures/fraction.svg --markdown "$tables/fraction.md"
    benches/put_table.py fraction-embedded "$tables/fraction.md"
    if [ -z "${MODEL:-}" ]; then
        return
    fi
    # shellcheck disable=SC2086
    "$ffwd" bench fraction --model "$MODEL" --tokens 48 --fractions 0,0.25,0.5,0.75,0.9,0.95 \
        --rounds 3 --warmup 1 $own --json $record/fraction-model.json \
        --svg docs/pictures/fraction-model.svg --markdown "$tables/model.md"
    benches/put_table.py fraction-model "$tables/model.md"
    "$ffwd" bench decode --model "$MODEL" --only contact --only invoice --only 'nested order' \
        --arms exact,forced --rounds 3 --warmup 1 --json $record/decode-model.json \
        --markdown "$tables/decode-model.md"
    benches/put_table.py decode-model "$tables/decode-model.md"
    benches/estimate_error.py $record/decode-embedded.json $record/decode-model.json > "$tables/estimates.md"
    benches/put_table.py estimates "$tables/estimates.md"
}

case $part in
    all) engine; decoding ;;
    engine | grammars | decoding) "$part" ;;
    *) echo "usage: benches/tables.sh [engine|grammars|decoding]" >&2; exit 2 ;;
esac

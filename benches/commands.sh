#!/bin/sh
# Measures the tables that the program itself makes: results as JSON in benches/record, tables in
# docs/benchmarks.md, curves in docs/pictures. Takes some minutes on an idle machine. MODEL names a
# GGUF file for the curve of a real model; without it that curve is left as it is.
set -eu
cd "$(dirname "$0")/.."
RAYON_NUM_THREADS=${RAYON_NUM_THREADS:-1}
CANDLE_NUM_THREADS=${CANDLE_NUM_THREADS:-1}
export RAYON_NUM_THREADS CANDLE_NUM_THREADS
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
if [ -n "${MODEL:-}" ]; then
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
fi

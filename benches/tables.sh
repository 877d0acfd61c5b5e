#!/bin/sh
# Measures what docs/benchmarks.md shows. Results go into benches/record as JSON (medians and
# quartiles), tables into docs/benchmarks.md, curves into docs/pictures. Run it on an idle machine:
# the first two parts take about ten minutes each.
#
#   benches/tables.sh              # engine and decoding
#   benches/tables.sh engine       # masks, operations, evaluations, threads; needs the benchmark data
#                                  # (FFWD_BENCH_DIR, or ../shared/bench) and zstd
#   benches/tables.sh xgrammar     # masks beside XGrammar; needs the same data, and Python with xgrammar
#   benches/tables.sh grammars     # needs TOKENIZER=tokenizer.json, that of Llama 3
#   benches/tables.sh decoding     # what `ffwd bench` measures; MODEL=FILE.gguf adds a real model
set -eu
cd "$(dirname "$0")/.."
part=${1:-all}

data=${FFWD_BENCH_DIR:-../shared/bench}
llama3=$data/tokenizers/llama3/tokenizer.json
ffwd=${CARGO_TARGET_DIR:-target}/release/ffwd
results=benches/record
PYTHON=${PYTHON:-python3}

# Masks along the sample of MaskBench, on one thread, into a table.
masks() {
    cargo build --release --features full,llguidance
    schemas=$(mktemp -d)
    zstd -dcq "$data/maskbench-dev-sample.jsonl.zst" > "$schemas/schemas.jsonl"
    name=$1
    shift
    RAYON_NUM_THREADS=1 "$ffwd" bench masks "$schemas/schemas.jsonl" --tokenizer "$llama3" \
        --json "$results/$name.json" "$@"
    rm -r "$schemas"
    record masks "$name"
}

# FFWD_WRITE_TABLES lets benches and examples write whole tables; the page keeps some rows of them.
engine() {
    export FFWD_WRITE_TABLES=1
    masks maskbench --engine ffwd --engine borrowed --engine llguidance
    cargo bench --no-default-features --bench engine
    benches/put_table.py engine --keep \
        '(warm|cold): (number|in string) \||allows|step: fork \||canonical tokens, (warm|new text)|compile:'
    RAYON_NUM_THREADS=1 cargo run --release --example evaluate -- tests/data/eval/synthetic_seen.jsonl
    RAYON_NUM_THREADS=1 cargo run --release --features full --example grounding -- tests/data/eval/handwritten_dev.jsonl
    benches/picture.mjs target/reliability.json docs/pictures/reliability.svg
    "$ffwd" bench hostile --tokenizer "$llama3" --markdown "$results/hostile.md"
    benches/put_table.py hostile "$results/hostile.md"
    "$ffwd" bench threads --tokenizer "$llama3" --markdown "$results/threads.md"
    benches/put_table.py threads "$results/threads.md"
    benches/put_table.py threads --keep '\| 2 \|'
    rm "$results/hostile.md" "$results/threads.md"
    RAYON_NUM_THREADS=1 cargo bench --bench mode_divergence
    benches/put_table.py distances --keep 'optional members|year and month|unusual key|without JSON'
}

xgrammar() {
    worker="$PYTHON benches/grammars/engines.py"
    masks xgrammar --every 5 --engine ffwd --engine llguidance \
        --process "$worker XGrammar" --process "$worker XGrammar-strict"
}

# Shortens the results that `ffwd bench` wrote, and puts a table made of them into the page.
record() {
    benches/record.py shorten "benches/record/$2.json"
    table=$(mktemp)
    benches/record.py "$1" "benches/record/$2.json" > "$table"
    benches/put_table.py "$2" "$table"
    rm "$table"
}

grammars() {
    export RAYON_NUM_THREADS=1 CANDLE_NUM_THREADS=1
    cargo build --release --features full,llguidance
    "$ffwd" bench masks benches/grammars/corpus.jsonl --tokenizer "$TOKENIZER" --json $results/grammars.json
    record grammars grammars
}

decoding() {
    export RAYON_NUM_THREADS="${RAYON_NUM_THREADS:-1}" CANDLE_NUM_THREADS="${CANDLE_NUM_THREADS:-1}"
    cargo build --release --features full
    own="--schema examples/data/invoice.schema.json --text examples/data/invoice.txt"
    "$ffwd" bench decode --rounds 25 --json $results/decode-embedded.json
    record decode decode-embedded
    # shellcheck disable=SC2086
    "$ffwd" bench fraction --rounds 40 $own --json $results/fraction-embedded.json --html target/fraction.html
    benches/picture.mjs target/fraction.html docs/pictures/fraction.svg
    benches/record.py shorten $results/fraction-embedded.json
    if [ -z "${MODEL:-}" ]; then
        return
    fi
    # shellcheck disable=SC2086
    "$ffwd" bench fraction --model "$MODEL" --tokens 48 --fractions 0,0.25,0.5,0.75,0.9,0.95 \
        --rounds 3 --warmup 1 $own --json $results/fraction-model.json --html target/fraction.html
    benches/picture.mjs target/fraction.html docs/pictures/fraction-model.svg
    record fraction fraction-model
    "$ffwd" bench decode --model "$MODEL" --only contact --only invoice --only 'nested order' \
        --arms exact,forced --rounds 3 --warmup 1 --json $results/decode-model.json
    record decode decode-model
    table=$(mktemp)
    benches/estimate_error.py $results/decode-embedded.json $results/decode-model.json > "$table"
    benches/put_table.py estimates "$table"
    rm "$table"
}

case $part in
    all) engine; decoding ;;
    engine | xgrammar | grammars | decoding) "$part" ;;
    *) echo "usage: benches/tables.sh [engine|xgrammar|grammars|decoding]" >&2; exit 2 ;;
esac

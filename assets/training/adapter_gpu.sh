#!/bin/bash
# Adapters for Qwen2.5-Coder-Instruct 0.5B and 1.5B on one GPU, with a tenth of tool calls and chat.
# This run is a plan and was never made: rates and sizes for the 1.5B are guesses.
#
#   bash adapter_gpu.sh OUT QWEN-0.5B.gguf QWEN-1.5B.gguf [MINUTES_EACH]
#
# Calls are written as bare JSON, because the 0.5B has one and the same row for <tool_call>, </tool_call> and
# many other marks, and cannot learn to tell them apart. The softmax is over all tokens, so that those which no
# document has are pushed down too.
set -euo pipefail

out=$1 minutes=${4:-10} python=${PYTHON:-python} workers=${WORKERS:-6}
declare -A model=([0.5B]=$2 [1.5B]=$3)
tok=$out/tokenizer.json rows=$out/rows.npy held=$out/held-out.npz
mix=(--tools-share 0.1 --call json)
cd "$(dirname "$0")"
mkdir -p "$out"

# Both models have one tokenizer, so one set of shards is for both.
"$python" adapter_pack.py tokenizer "${model[0.5B]}" "$tok"
"$python" adapter_data.py vocab "$tok" "$rows" --count 1000 --always 200000 "${mix[@]}"
"$python" adapter_data.py held-out "$tok" "$rows" "$held"
"$python" adapter_data.py stream "$out/data" --model qwen "$tok" "$rows" --workers "$workers" --million 200 "${mix[@]}" &
stream=$!
trap 'kill $stream 2>/dev/null || true' EXIT

train() { # size, tokens of a step, rate
    local name=Qwen2.5-Coder-$1-Instruct adapter=$out/adapter-$1
    "$python" adapter_pack.py pack "${model[$1]}" "$rows" "$out/packed-$1"
    echo $(($(date +%s) + minutes * 60)) >"$out/end"
    "$python" adapter_train.py "$out/packed-$1" "$out/data/qwen" "$adapter" --base "Qwen/$name" --held-out "$held" \
        --end-file "$out/end" --rank 16 --narrow 8 --tokens "$2" --lr "$3" --compile
    "$python" adapter_gguf.py "${model[$1]}" "$adapter" "$out/extract-$1.gguf" --rows "$rows"
    kill -0 $stream 2>/dev/null || wait $stream # fails where a worker died
}
train 0.5B 24576 4e-4
train 1.5B 12288 3e-4

#!/usr/bin/env python3
"""Writes the greedy tokens of llama.cpp in single precision, for `tests/runtime/reference_tokens.rs`.

    python3 -m venv VENV && VENV/bin/pip install llama-cpp-python gguf
    VENV/bin/python benches/real_models/parity.py MODEL.gguf tests/runtime/reference_tokens/MODEL.json
    FFWD_REAL_MODELS=FOLDER cargo test --release --test runtime reference_tokens

The GGUF file is widened to F32 with the package `gguf`, tensor by tensor, so that both sides read the same
numbers. llama.cpp keeps keys and values in F32, too. The result holds, for each prompt, its tokens, the first 48
greedy tokens, and for each of these the distance of the two largest logits.
"""
import argparse
import json
import tempfile
from pathlib import Path

import gguf
import llama_cpp
import numpy

TOKENS = 48
# Longer than the sliding window of Gemma 3.
TOWNS = ["Oslo", "Lima", "Accra", "Turin", "Osaka", "Quito", "Perth"]
LONG = "".join(
    f"Day {day}: in {TOWNS[day % 7]} the highest temperature was {(day * 37) % 31} degrees.\n"
    for day in range(1, 41)
)
PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village at the foot of a mountain,",
    "Water boils at 100 degrees because",
    "def fibonacci(n):\n    ",
    "Dear Ms Okafor,\n\nthank you for your letter of 3 May 2024.",
    "{\"name\": \"Ada Lovelace\", \"born\": 1815, \"occupation\": \"",
    "Die wichtigsten Zutaten für einen Apfelkuchen sind",
    "1. Wash the rice.\n2. Boil the water.\n3.",
    "SELECT customers.name, SUM(orders.total) FROM customers",
    "Q: Why is the sky blue?\nA:",
    LONG + "Day 41: in",
]


def widen(source, target):
    """Copies a GGUF file with all tensors in F32."""
    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub)
    writer.add_file_type(0)
    for tensor in reader.tensors:
        shape = [int(n) for n in reversed(tensor.shape)]
        writer.add_tensor_info(tensor.name, shape, numpy.dtype("float32"), 4 * tensor.n_elements)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in reader.tensors:
        wide = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        writer.write_tensor_data(numpy.ascontiguousarray(wide, dtype="float32"))
    writer.close()


def greedy(model, prompt):
    """The tokens of a prompt, the greedy tokens after it, and their distances to the second."""
    tokens = model.tokenize(prompt.encode(), add_bos=True, special=False)
    model.reset()
    model.eval(tokens)
    found, margins = [], []
    for _ in range(TOKENS):
        logits = llama_cpp.llama_get_logits_ith(model._ctx.ctx, -1)
        logits = numpy.ctypeslib.as_array(logits, (model.n_vocab(),))
        second, first = numpy.sort(logits)[-2:]
        found.append(int(logits.argmax()))
        margins.append(round(float(first - second), 5))
        model.eval(found[-1:])
    return {"prompt": prompt, "tokens": tokens, "greedy": found, "margins": margins}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wide = Path(folder) / "wide.gguf"
        widen(arguments.model, wide)
        model = llama_cpp.Llama(
            str(wide), n_ctx=1024, n_threads=arguments.threads, n_threads_batch=arguments.threads,
            type_k=llama_cpp.GGML_TYPE_F32, type_v=llama_cpp.GGML_TYPE_F32, flash_attn=False, verbose=False,
        )
        prompts = [greedy(model, prompt) for prompt in PROMPTS]
    lines = ",\n".join("  " + json.dumps(p, ensure_ascii=False) for p in prompts)
    version = llama_cpp.__version__
    head = json.dumps({"file": arguments.model.name, "by": f"llama.cpp of llama-cpp-python {version}"})
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(f"{head[:-1]}, \"prompts\": [\n{lines}\n]}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

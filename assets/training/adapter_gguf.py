"""Write an adapter in PEFT's format as one GGUF file of eight bits.

    python adapter_gguf.py BASE.gguf ADAPTER_FOLDER OUT.gguf [--rows VOCAB.npy] [--name extract]

Tensors have llama.cpp's names, `blk.N.attn_q.weight.lora_a` and so on. In place of B the file holds its
transpose, `.lora_b_t`, because a rank is seldom a whole number of Q8_0 blocks; its outputs are in the order
of Hugging Face, also where those of `.lora_b` are paired. Rows that do not end with a block are F16 (then B
is `.lora_b`, as llama.cpp has it). A reader adds alpha / rank * B A to the matrix; where PEFT has another
scale, B takes the difference. --rows notes the tokens that training saw, out of `adapter_data.py vocab`.
"""
import argparse
import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

import adapter_folder
import gguf_model
from to_gguf import NAMES, permute

BLOCK = 32


def bitmap(rows, vocab):
    """Words of 32 bits with a bit for each token."""
    bits = np.zeros(-(-vocab // BLOCK) * BLOCK, np.uint8)
    bits[rows] = 1
    return np.packbits(bits, bitorder="little").view("<u4").tolist()


def describe(w, adapter, c, name, rows):
    """The metadata."""
    organization, _, base = adapter["base_model_name_or_path"].rpartition("/")
    w.add_type("adapter")
    w.add_string("adapter.type", "lora")
    w.add_name(f"{name} for {base}")
    w.add_base_model_count(1)
    w.add_base_model_name(0, base)
    if organization:
        w.add_base_model_organization(0, organization)
    w.add_float32("adapter.lora.alpha", adapter["lora_alpha"])
    w.add_uint32("ffwd.adapter.vocab_size", c["vocab"])
    if rows is not None:
        words = bitmap(rows, c["vocab"])
        w.add_key_value("ffwd.adapter.trained_rows", words, GGUFValueType.ARRAY, GGUFValueType.UINT32)
    w.add_quantization_version(gguf.GGML_QUANT_VERSION)
    w.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)


def put(w, name, rows):
    """A matrix in Q8_0, or in F16 where its rows are no whole blocks."""
    if rows.shape[1] % BLOCK:
        w.add_tensor(name, rows.astype(np.float16))
    else:
        kind = GGMLQuantizationType.Q8_0
        w.add_tensor(name, gguf.quantize(np.ascontiguousarray(rows), kind), raw_dtype=kind)


def add(w, c, m, alpha):
    """Both matrices of a module."""
    b = m.b * np.float32(m.scale / (alpha / m.rank))
    name = f"blk.{m.layer}.{NAMES[m.module]}.weight."
    put(w, name + "lora_a", m.a)
    if b.shape[0] % BLOCK == 0:
        # In the order of Hugging Face: a block must hold outputs that a forward computes together.
        put(w, name + "lora_b_t", b.T)
        return
    heads = gguf_model.paired_heads(c, m.module)
    w.add_tensor(name + "lora_b", (permute(b, heads) if heads else b).astype(np.float16))


def write(base, folder, out, rows=None, name="extract"):
    reader = GGUFReader(base)
    c = gguf_model.config(reader)
    adapter, modules = adapter_folder.read(folder)
    gguf_model.check_shapes(base, reader.tensors, modules)
    w = GGUFWriter(out, c["arch"])
    describe(w, adapter, c, name, rows)
    for m in modules.values():
        add(w, c, m, adapter["lora_alpha"])
    gguf_model.finish(w)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("base")
    p.add_argument("adapter")
    p.add_argument("out")
    p.add_argument("--rows", help="tokens that training saw, as written by `adapter_data.py vocab`")
    p.add_argument("--name", default="extract", help="what the adapter is for")
    a = p.parse_args()
    write(a.base, a.adapter, a.out, np.load(a.rows) if a.rows else None, a.name)
    print(a.out, os.path.getsize(a.out), "bytes")


if __name__ == "__main__":
    main()

"""Writes a model with random weights of the shape of Qwen3.5-0.8B into a folder.

    python benches/random_hybrid.py FOLDER TOKENIZER.json

What it writes means nothing: it serves to measure forwards and drafts. The matrices are BF16.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy

CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "vocab_size": 248320,
    "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24, "full_attention_interval": 4,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "linear_conv_kernel_dim": 4,
    "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "max_position_embeddings": 262144, "rms_norm_eps": 1e-06,
    "tie_word_embeddings": True, "hidden_act": "silu", "attention_bias": False,
    "rope_parameters": {"partial_rotary_factor": 0.25, "rope_theta": 10000000.0, "rope_type": "default"},
}  # fmt: skip


def shapes(c):
    hidden, heads, dim = c["hidden_size"], c["num_attention_heads"], c["head_dim"]
    key = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    value = c["linear_num_value_heads"] * c["linear_value_head_dim"]
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden)
    yield "model.norm.weight", (hidden,)
    for i in range(c["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", (hidden,)
        yield layer + "post_attention_layernorm.weight", (hidden,)
        for name, shape in (("gate", (1, 0)), ("up", (1, 0)), ("down", (0, 1))):
            sizes = (hidden, c["intermediate_size"])
            yield f"{layer}mlp.{name}_proj.weight", tuple(sizes[s] for s in shape)
        if (i + 1) % c["full_attention_interval"]:
            layer += "linear_attn."
            yield layer + "A_log", (c["linear_num_value_heads"],)
            yield layer + "dt_bias", (c["linear_num_value_heads"],)
            yield layer + "conv1d.weight", (2 * key + value, 1, c["linear_conv_kernel_dim"])
            yield layer + "in_proj_a.weight", (c["linear_num_value_heads"], hidden)
            yield layer + "in_proj_b.weight", (c["linear_num_value_heads"], hidden)
            yield layer + "in_proj_qkv.weight", (2 * key + value, hidden)
            yield layer + "in_proj_z.weight", (value, hidden)
            yield layer + "norm.weight", (c["linear_value_head_dim"],)
            yield layer + "out_proj.weight", (hidden, value)
        else:
            layer += "self_attn."
            for name in "qk":
                yield f"{layer}{name}_norm.weight", (dim,)
            yield layer + "q_proj.weight", (2 * heads * dim, hidden)
            yield layer + "k_proj.weight", (c["num_key_value_heads"] * dim, hidden)
            yield layer + "v_proj.weight", (c["num_key_value_heads"] * dim, hidden)
            yield layer + "o_proj.weight", (hidden, heads * dim)


def main(folder, tokenizer):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    random = numpy.random.default_rng(1)
    header, at = {}, 0
    tensors = list(shapes(CONFIG))
    for name, shape in tensors:
        size = 2 * int(numpy.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for _, shape in tensors:
            scale = 1.7 / shape[-1] ** 0.5 if len(shape) > 1 else 0.3
            numbers = random.uniform(-scale, scale, shape).astype("float32")
            (numbers.view("uint32") >> 16).astype("uint16").tofile(out)


main(Path(sys.argv[1]), Path(sys.argv[2]))

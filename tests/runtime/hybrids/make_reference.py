"""Writes the logits and the greedy text of `transformers` for random models.

    python make_reference.py [FOLDER]

The weights are random and a function of the tensor's number in the sorted list of names, as in
`../common/models.rs`. With a FOLDER the models are also written there, as `transformers` does.
"""

import json
import sys
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).parent
MASK = (1 << 64) - 1
CLASSES = {
    "qwen3_moe": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM),
    "lfm2": (transformers.Lfm2Config, transformers.Lfm2ForCausalLM),
    "qwen3_5_text": (transformers.Qwen3_5TextConfig, transformers.Qwen3_5ForCausalLM),
}


MODELS = [
    {"model_type": "lfm2", "vocab_size": 61, "hidden_size": 32, "intermediate_size": 72, "num_hidden_layers": 5, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 640, "norm_eps": 1e-05, "layer_types": ["conv", "conv", "full_attention", "conv", "full_attention"], "block_multiple_of": 16},
    {"model_type": "lfm2", "vocab_size": 50, "hidden_size": 40, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 1, "max_position_embeddings": 640, "norm_eps": 1e-05, "full_attn_idxs": [1], "block_auto_adjust_ff_dim": False, "conv_L_cache": 4},
    {"model_type": "qwen3_5_text", "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 640, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    {"model_type": "qwen3_5_text", "vocab_size": 50, "hidden_size": 40, "intermediate_size": 56, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 24, "max_position_embeddings": 640, "linear_num_key_heads": 3, "linear_num_value_heads": 3, "linear_key_head_dim": 24, "linear_value_head_dim": 24, "tie_word_embeddings": True, "layer_types": ["full_attention", "linear_attention", "linear_attention"], "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5}},
    {"model_type": "qwen3_moe", "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 640, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True},
    {"model_type": "qwen3_moe", "vocab_size": 50, "hidden_size": 40, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 12, "max_position_embeddings": 640, "num_experts": 4, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "norm_topk_prob": False, "tie_word_embeddings": True},
]


def noise(seed):
    """SplitMix64 as numbers from -1 to 1, as the tests have it."""
    state = ((seed * 0x9E3779B97F4A7C15) & MASK) ^ 0x5851F42D4C957F2D
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        yield (z >> 40) / (1 << 24) * 2 - 1


def weight(number, name, shape, norms_less_one):
    if len(shape) > 1:
        scale, shift = 1.7 / shape[-1] ** 0.5, 0.0
    elif name.endswith("A_log") or name.endswith("dt_bias"):
        scale, shift = 1.0, 0.0
    elif norms_less_one and not name.endswith("linear_attn.norm.weight"):
        scale, shift = 0.3, 0.0
    else:
        scale, shift = 0.3, 1.0
    source = noise(number)
    count = torch.Size(shape).numel()
    return torch.tensor([next(source) * scale + shift for _ in range(count)], dtype=torch.float32).reshape(shape)


def make(entry, folder):
    config_class, model_class = CLASSES[entry["model_type"]]
    config = config_class(**{k: v for k, v in entry.items() if k != "model_type"})
    model = model_class(config).eval()
    state = model.state_dict()
    # The names in files: experts one by one, and no copy of a tied matrix.
    files = {}
    for name, tensor in state.items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if name.endswith("experts.gate_up_proj"):
            half = tensor.shape[1] // 2
            for e in range(tensor.shape[0]):
                base = name.replace("gate_up_proj", f"{e}.")
                files[base + "gate_proj.weight"] = (name, e, slice(0, half))
                files[base + "up_proj.weight"] = (name, e, slice(half, None))
        elif name.endswith("experts.down_proj"):
            for e in range(tensor.shape[0]):
                files[name.replace("down_proj", f"{e}.down_proj.weight")] = (name, e, slice(None))
        else:
            files[name] = (name, None, None)
    with torch.no_grad():
        for number, (file_name, (name, expert, rows)) in enumerate(sorted(files.items())):
            place = state[name] if expert is None else state[name][expert, rows]
            less = entry["model_type"] == "qwen3_5_text"
            place.copy_(weight(number, file_name, tuple(place.shape), less))
    if folder:
        model.save_pretrained(folder)
    source = noise(77)
    tokens = [int((next(source) + 1) / 2 * config.vocab_size) % config.vocab_size for _ in range(150)]
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0]
        text = model.generate(torch.tensor([tokens[:5]]), attention_mask=torch.ones(1, 5, dtype=torch.long),
            max_new_tokens=200, do_sample=False, eos_token_id=None, pad_token_id=0)[0, 5:]
    logit_rows = {str(i): [round(x, 6) for x in logits[i].tolist()] for i in (0, 1, 2, 3, 7, 40, 63, 64, 65, 128, 149)}
    shapes = {file: list(state[name].shape if e is None else state[name][e, rows].shape)
        for file, (name, e, rows) in sorted(files.items())}
    saved = json.loads(config.to_json_string()) | {"architectures": [model_class.__name__]}
    return {"config": saved, "tensors": shapes, "rows": logit_rows, "text": text.tolist()}


def main():
    torch.set_num_threads(1)
    out = []
    for i, entry in enumerate(MODELS):
        folder = Path(sys.argv[1]) / str(i) if len(sys.argv) > 1 else None
        out.append(json.dumps(make(entry, folder)))
    (HERE / "reference.jsonl").write_text("\n".join(out) + "\n")


main()

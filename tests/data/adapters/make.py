"""Writes the models, adapters and logits of this folder.

    pip install torch transformers peft safetensors
    python make.py

Two tiny random models, adapters that `peft` saved, and the logits of each model alone and with each adapter.
The models are stored in half precision, which their values fit exactly; logits are those of float32.
"""
import json
import os
import shutil

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = [1, 5, 9, 40, 77, 3, 3, 20]
SHAPE = dict(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
    vocab_size=96, max_position_embeddings=128, tie_word_embeddings=True, rms_norm_eps=1e-5, bos_token_id=0,
    eos_token_id=2, attn_implementation="eager")
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SOME = ["model.layers.1.mlp.down_proj", "model.layers.0.self_attn.v_proj", "model.layers.0.self_attn.q_proj"]
BASES = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SHAPE, rope_theta=10000.0)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**SHAPE, rope_theta=10000.0)),
}
MIXED = dict(r=8, lora_alpha=16, target_modules=ALL, rank_pattern={"q_proj": 4}, alpha_pattern={"q_proj": 12})
ADAPTERS = {
    "llama-all": ("llama", torch.bfloat16, MIXED),
    "qwen2-all": ("qwen2", torch.bfloat16, MIXED),
    "llama-some": ("llama", torch.float32, dict(r=6, lora_alpha=3, target_modules=SOME, use_rslora=True)),
}


def randomize(model, wanted, spread):
    """Random values for every parameter whose name is wanted."""
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if wanted(name):
                p.normal_(1.0 if "norm" in name else 0.0, spread)


def make_base(name):
    kind, config = BASES[name]
    model = kind(config).eval()
    randomize(model, lambda n: True, 0.15)
    folder = os.path.join(HERE, name)
    os.makedirs(folder)
    config.architectures, config.dtype = [kind.__name__], torch.float16
    config.save_pretrained(folder)
    state = {n: p.detach().half().contiguous() for n, p in model.named_parameters()}
    save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def base(name):
    return BASES[name][0].from_pretrained(os.path.join(HERE, name), dtype=torch.float32).eval()


def make_adapter(name):
    of, dtype, options = ADAPTERS[name]
    model = get_peft_model(base(of), LoraConfig(task_type="CAUSAL_LM", **options))
    model.peft_config["default"].base_model_name_or_path = f"tiny/{of}"
    randomize(model, lambda n: "lora_" in n, 0.1)
    folder = os.path.join(HERE, name)
    model.to(dtype).save_pretrained(folder, save_embedding_layers=False)
    os.remove(os.path.join(folder, "README.md"))
    path = os.path.join(folder, "adapter_config.json")
    with open(path) as f:
        config = json.load(f)
    config["target_modules"].sort()  # the same in every run
    with open(path, "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")


@torch.no_grad()
def logits(model):
    rows = model.float().eval()(torch.tensor([TOKENS])).logits[0]
    return [[float(f"{x:.6g}") for x in row] for row in rows.tolist()]


def main():
    for name in (*BASES, *ADAPTERS):
        shutil.rmtree(os.path.join(HERE, name), ignore_errors=True)
    torch.manual_seed(20)
    for name in BASES:
        make_base(name)
    for name in ADAPTERS:
        make_adapter(name)
    found = {name: logits(base(name)) for name in BASES}
    for name, (of, _, _) in ADAPTERS.items():
        found[name] = logits(PeftModel.from_pretrained(base(of), os.path.join(HERE, name)))
    with open(os.path.join(HERE, "logits.json"), "w") as f:
        json.dump({"tokens": TOKENS, "logits": found}, f, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()

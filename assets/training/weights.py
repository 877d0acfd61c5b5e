"""Make folders of models to train on from.

    python weights.py mean A B SHARE OUT   # both models of A and B, B's weights with SHARE
    python weights.py embedded OUT         # both embedded models, out of their GGUF files

The folders are as `train.py` writes them, and its `--start-from` reads them.
"""
import os
import shutil
import sys

from safetensors.numpy import load_file, save_file

from to_gguf import NAMES, unpermute

MODELS = ("extract-5m", "extract-draft-1m")
HERE = os.path.dirname(os.path.abspath(__file__))
ASSETS = os.path.join(HERE, "..", "..", "crates", "runtime", "assets")


def save(weights, out, like):
    """Writes half-precision weights, with configuration and tokenizer of the folder `like`."""
    os.makedirs(out, exist_ok=True)
    for folder in (os.path.join(ASSETS, MODELS[0]), like):  # one tokenizer for both
        for name in os.listdir(folder):
            if name.endswith(".json"):
                shutil.copyfile(os.path.join(folder, name), os.path.join(out, name))
    save_file({k: v.astype("float16") for k, v in weights.items()}, os.path.join(out, "model.safetensors"), metadata={"format": "pt"})


def mean(a, b, share, out):
    for name in MODELS:
        x, y = (load_file(os.path.join(d, name, "model.safetensors")) for d in (a, b))
        save({k: (1 - share) * x[k].astype("float32") + share * y[k].astype("float32") for k in x}, os.path.join(out, name), os.path.join(a, name))


def embedded(out):
    import json

    from gguf import GGUFReader, dequantize
    back = {v: k for k, v in NAMES.items()}
    for name in MODELS:
        folder = os.path.join(ASSETS, name)
        c = json.load(open(os.path.join(folder, "config.json"), encoding="utf-8"))
        heads = {"attn_q": c["num_attention_heads"], "attn_k": c["num_key_value_heads"]}
        weights = {}
        for t in GGUFReader(os.path.join(folder, "model-q8_0.gguf")).tensors:
            w = dequantize(t.data, t.tensor_type)
            if t.name.startswith("blk."):
                _, layer, part, _ = t.name.split(".")
                w = unpermute(w, heads[part]) if part in heads else w
                weights[f"model.layers.{layer}.{back[part]}.weight"] = w
            else:
                weights[{"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[t.name]] = w
        save(weights, os.path.join(out, name), folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["mean"] and len(sys.argv) == 6:
        mean(sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5])
    elif sys.argv[1:2] == ["embedded"] and len(sys.argv) == 3:
        embedded(sys.argv[2])
    else:
        sys.exit(__doc__)

"""Reads the folder of a LoRA adapter as PEFT writes it: adapter_config.json and adapter_model.safetensors."""
import json
import os
import re

from safetensors import safe_open

from to_gguf import NAMES

# What would need another sum than W + scale * B A.
UNREAD = ("use_dora", "fan_in_fan_out", "modules_to_save", "lora_bias", "use_qalora", "layer_replication")
NAME = re.compile(r"(?:.*\.)?layers\.(\d+)\.([a-z_.]+)\.lora_([AB])(?:\.default)?\.weight")


class Module:
    """The two matrices of one module, A of rank x inputs and B of outputs x rank, in float32."""

    def __init__(self, layer, module, a, b, scale):
        self.layer, self.module, self.a, self.b, self.scale = layer, module, a, b, scale
        self.rank = a.shape[0]

    def delta(self):
        return self.scale * (self.b @ self.a)


def pattern(patterns, name, usual):
    """The value of the first pattern that fits a module's name, as PEFT looks for it."""
    return next((v for k, v in (patterns or {}).items() if re.match(rf"(.*\.)?({k})$", name)), usual)


def scale_of(c, name, rank):
    """What B A is multiplied with."""
    alpha = pattern(c.get("alpha_pattern"), name, c["lora_alpha"])
    return alpha / (rank ** 0.5 if c.get("use_rslora") else rank)


def config(folder):
    with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as f:
        c = json.load(f)
    wrong = [k for k in UNREAD if c.get(k)] + ["bias"] * (c.get("bias", "none") != "none")
    if c["peft_type"] != "LORA" or wrong:
        raise SystemExit(f"{folder}: not a plain LoRA: {', '.join([c['peft_type'], *wrong])}")
    return c


def read(folder):
    """(configuration, {(layer, module): Module}) of an adapter."""
    c, found = config(folder), {}
    with safe_open(os.path.join(folder, "adapter_model.safetensors"), "pt") as f:
        for name in f.keys():
            m = NAME.fullmatch(name)
            if not m or m[2] not in NAMES:
                raise SystemExit(f"{folder}: the tensor {name} is of no module that is known")
            found.setdefault((int(m[1]), m[2]), {})[m[3]] = f.get_tensor(name).float().numpy()
    out = {}
    for (layer, module), pair in sorted(found.items()):
        name = f"model.layers.{layer}.{module}"
        rank = pattern(c.get("rank_pattern"), name, c["r"])
        if pair.keys() != {"A", "B"} or pair["A"].shape[0] != rank or pair["B"].shape[1] != rank:
            raise SystemExit(f"{folder}: {name} lacks a matrix, or has another rank than {rank}")
        out[layer, module] = Module(layer, module, pair["A"], pair["B"], scale_of(c, name, rank))
    return c, out

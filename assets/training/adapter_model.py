"""The model of `adapter_train.py`: frozen weights and a LoRA adapter beside each matrix.

Frozen weights are bfloat16 on a GPU. The adapter is float32 with products in the type of the weights. Its
product is part of the frozen one: [x, xA] times [W, B] in one product.
"""
import json
import os

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from clock import replace
from to_gguf import NAMES
from train import rotate

# Modules that read the same input share a product.
GROUPS = {
    "qkv": ("q_proj", "k_proj", "v_proj"), "o": ("o_proj",),
    "gu": ("gate_proj", "up_proj"), "down": ("down_proj",)}
FULL = {name.split(".")[1]: name for name in NAMES if "." in name}  # q_proj: self_attn.q_proj
NARROW = ("q_proj", "k_proj")


class Product(torch.autograd.Function):
    """x W' + (x A') B' + bias, where W is frozen; `wide` is [W, B] with room for B."""

    @staticmethod
    def forward(ctx, x, a, b, wide, bias):
        wide[:, x.shape[1]:] = b
        h = x @ a.t()
        ctx.save_for_backward(x, h, a, wide)
        return F.linear(torch.cat((x, h), 1), wide, bias)

    @staticmethod
    def backward(ctx, dy):
        x, h, a, wide = ctx.saved_tensors
        both, k = dy @ wide, x.shape[1]
        dh = both[:, k:].contiguous()
        return torch.addmm(both[:, :k], dh, a), dh.t() @ x, dy.t() @ h, None, None


def add_norm(x, d, w, eps):
    """(x + d, its norm)."""
    x = x + d
    y = x.float()
    y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps)
    return x, y.to(x.dtype) * w


def split_rotate(qkv, cos, sin, heads, kv):
    """q, k, v as [tokens, heads, width], the keys repeated for their queries."""
    n, hd = qkv.shape[0], cos.shape[-1]
    q, k, v = qkv.view(n, heads + 2 * kv, hd).split((heads, kv, kv), 1)
    cos, sin = cos[:, None], sin[:, None]
    repeat = lambda t: t[:, :, None].expand(n, kv, heads // kv, hd).reshape(n, heads, hd)
    return rotate(q, cos, sin), repeat(rotate(k, cos, sin)), repeat(v)


def gated(gu):
    g, u = gu.chunk(2, -1)
    return F.silu(g) * u


def shapes(c, hd):
    """(outputs, inputs) of each matrix of a layer."""
    d, f, q, kv = c["width"], c["ffn"], c["heads"] * hd, c["kv"] * hd
    return dict(
        q_proj=(q, d), k_proj=(kv, d), v_proj=(kv, d), o_proj=(d, q),
        gate_proj=(f, d), up_proj=(f, d), down_proj=(d, f))


class Layer:
    """The frozen weights of a layer, and its adapter."""

    def __init__(self, shape, rank, make):
        width = shape["o_proj"][0]
        self.norms, self.bias = [make(width) for _ in range(2)], None
        self.wide, self.a, self.b = {}, {}, {}
        for group, names in GROUPS.items():
            inputs = shape[names[0]][1]
            self.wide[group] = make(sum(shape[n][0] for n in names), inputs + sum(rank[n] for n in names))
            for n in names:
                a = make(rank[n], inputs).float().uniform_(-inputs ** -0.5, inputs ** -0.5)
                self.a[n] = a.requires_grad_()
                self.b[n] = make(shape[n][0], rank[n]).float().requires_grad_()

    def fill(self, weights, prefix, put):
        for norm, name in zip(self.norms, ("input_layernorm", "post_attention_layernorm")):
            put(norm, weights[f"{prefix}{name}.weight"])
        for group, names in GROUPS.items():
            w = np.concatenate([weights[f"{prefix}{FULL[n]}.weight"] for n in names])
            put(self.wide[group][:, :w.shape[1]], w)
        if f"{prefix}self_attn.q_proj.bias" in weights:
            b = np.concatenate([weights[f"{prefix}{FULL[n]}.bias"] for n in GROUPS["qkv"]])
            self.bias = torch.empty(len(b), dtype=self.norms[0].dtype, device=self.norms[0].device)
            put(self.bias, b)

    def product(self, group, x, scale, bias=None):
        names = GROUPS[group]
        a = torch.cat([self.a[n] for n in names]).to(x.dtype)
        b = torch.block_diag(*[self.b[n] for n in names]) * scale
        return Product.apply(x, a, b.to(x.dtype), self.wide[group], bias)


class Model:
    """`c` is the configuration of `adapter_pack.py`. q and k get the rank `narrow`, the rest `rank`."""

    def __init__(self, c, rank, narrow, scale, device, compile_=False):
        self.c, self.scale, self.device, self.hd = c, scale, device, c["width"] // c["heads"]
        self.dtype = torch.float32 if device == "cpu" else torch.bfloat16
        make = lambda *size: torch.zeros(*size, dtype=self.dtype, device=device)
        self.shape = shapes(c, self.hd)
        self.rank = {n: narrow if n in NARROW else rank for n in self.shape}
        self.layers = [Layer(self.shape, self.rank, make) for _ in range(c["layers"])]
        self.norm, self.embed = make(c["width"]), make(c["rows"], c["width"])
        wrap = (lambda f: torch.compile(f, dynamic=False)) if compile_ else (lambda f: f)
        self.add_norm, self.split_rotate, self.gated = map(wrap, (add_norm, split_rotate, gated))

    def fill(self, weights):
        """Puts the frozen weights of `adapter_pack.load` in place."""
        def put(t, w):
            t.copy_(torch.from_numpy(np.ascontiguousarray(w)).to(self.device))
        put(self.embed, weights["embed"])
        put(self.norm, weights["norm"])
        for i, layer in enumerate(self.layers):
            layer.fill(weights, f"layers.{i}.", put)

    def parameters(self):
        return [p for side in ("a", "b") for layer in self.layers for p in getattr(layer, side).values()]

    def angles(self, length, tokens):
        f = 1.0 / self.c["theta"] ** (torch.arange(0, self.hd, 2, device=self.device).float() / self.hd)
        t = torch.outer((torch.arange(tokens, device=self.device) % length).float(), f)
        e = torch.cat((t, t), -1)
        return e.cos().to(self.dtype), e.sin().to(self.dtype)

    def attention(self, layer, y, cos, sin, length):
        """What the heads return, for documents of one length and some tokens behind them."""
        n, heads = y.shape[0], self.c["heads"]
        rows = n // length
        qkv = layer.product("qkv", y, self.scale, layer.bias)
        parts = self.split_rotate(qkv, cos, sin, heads, self.c["kv"])
        q, k, v = (t[:rows * length].view(rows, length, heads, self.hd).transpose(1, 2) for t in parts)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(rows * length, -1)
        return layer.product("o", F.pad(o, (0, 0, 0, n - rows * length)), self.scale)

    def hidden(self, ids, length):
        """Hidden states of a flat batch, before the last norm."""
        cos, sin = self.angles(length, ids.shape[0])
        x = self.embed[ids]
        d = torch.zeros_like(x)
        for layer in self.layers:
            x, y = self.add_norm(x, d, layer.norms[0], self.c["eps"])
            x, y = self.add_norm(x, self.attention(layer, y, cos, sin, length), layer.norms[1], self.c["eps"])
            d = layer.product("down", self.gated(layer.product("gu", y, self.scale)), self.scale)
        return x + d

    def loss(self, ids, where, what, length):
        """Mean loss of the scored tokens, and which are right."""
        x = self.hidden(ids, length)[where]
        x = F.rms_norm(x.float(), (x.shape[-1],), None, self.c["eps"]).to(self.dtype) * self.norm
        logits = F.linear(x, self.embed).float()
        return F.cross_entropy(logits, what), logits.detach().argmax(-1) == what

    def tensors(self):
        """The adapter by PEFT's names."""
        out = {}
        for i, layer in enumerate(self.layers):
            for n in self.shape:
                p = f"base_model.model.model.layers.{i}.{FULL[n]}.lora_"
                for side, m in (("A", layer.a[n]), ("B", layer.b[n])):
                    out[f"{p}{side}.weight"] = m.detach().to(torch.bfloat16).cpu().contiguous()
        return out

    def config(self, base):
        """PEFT's description of the adapter."""
        wide = max(self.rank.values())
        other = {n: r for n, r in self.rank.items() if r != wide}
        return {
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base,
            "inference_mode": True, "r": wide, "lora_alpha": self.scale * wide, "rank_pattern": other,
            "alpha_pattern": {n: self.scale * r for n, r in other.items()}, "lora_dropout": 0.0, "bias": "none",
            "fan_in_fan_out": False, "use_rslora": False, "use_dora": False, "init_lora_weights": True,
            "modules_to_save": None, "layers_to_transform": None, "layers_pattern": None,
            "target_modules": list(self.shape)}

    def save(self, out, base, info):
        os.makedirs(out, exist_ok=True)
        path = os.path.join(out, "adapter_model.safetensors")
        replace(path, lambda p: save_file(self.tensors(), p, metadata={"format": "pt"}))
        for name, what in (("adapter_config.json", self.config(base)), ("training.json", info)):
            with open(os.path.join(out, name), "w") as f:
                json.dump(what, f, indent=1)

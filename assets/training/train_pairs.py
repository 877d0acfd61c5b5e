"""Train pairs of embedded models on one GPU: several targets and their drafts on the same batches.

    python weights.py embedded START
    python train_pairs.py START OUT --tokenizer ../../crates/runtime/assets/extract-5m --pairs 5m 12m --end-file END --compile

START holds the finished pair. `5m` goes on from it. `12m` has the same width and twelve layers: those of the
finished target, and others between them whose outputs begin at zero, so that the first step already knows what
the finished target knows. Each draft begins as the finished draft and learns from its target. The training
ends at the time in END (seconds since 1970, may change while it runs), and the learning rates follow that.

Differences to `train.py extract`: the layers are one compiled function for all models, Muon does all matrices
of a shape in one product, and documents are both short and long.
"""
import argparse
import multiprocessing as mp
import os
import queue
import threading

import numpy as np
import torch
import torch.nn.functional as F

import train
from clock import Clock, Timer
from train import Llama, choose, distill, hf_weights, losses, rotate, worker
from weights import MODELS
from workers import start, stop, take

TARGET, DRAFT = (shape for _, shape in train.PRESETS["5m"])
SHAPES = {"5m": TARGET, "12m": {**TARGET, "num_hidden_layers": 12}}
# The layer of the finished target that a layer of `12m` begins as; None is a new one.
DEEPER = [0, None, 1, None, None, 2, None, 3, None, None, 4, None]
ROWS = 32  # that a worker makes at a time


# ---------------------------------------------------------------- model
def block(x, cos, sin, n1, wq, wk, wv, wo, n2, wg, wu, wd, h, kv):
    """A layer as `train.Block`, with its weights as arguments."""
    t, (b, n, d) = x.dtype, x.shape
    y = F.rms_norm(x, (d,), n1.to(t), 1e-5)
    q, k, v = ((y @ w.to(t).t()).view(b, n, m, -1).transpose(1, 2) for w, m in ((wq, h), (wk, kv), (wv, kv)))
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    k, v = k.repeat_interleave(h // kv, 1), v.repeat_interleave(h // kv, 1)
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + a.transpose(1, 2).reshape(b, n, d) @ wo.to(t).t()
    y = F.rms_norm(x, (d,), n2.to(t), 1e-5)
    return x + (F.silu(y @ wg.to(t).t()) * (y @ wu.to(t).t())) @ wd.to(t).t()


def head(x, norm, embed, pick):
    x = x.reshape(-1, x.shape[-1])[pick]
    x = F.rms_norm(x, (x.shape[-1],), norm.to(x.dtype), 1e-5)
    return F.linear(x, embed.to(x.dtype))


def mixed(logits, teacher, y, kind, share):
    """(loss of a draft: its own and the target's probabilities, the loss on answers alone)."""
    own, answer, _ = losses(logits, y, kind)
    return (1 - share) * own + share * distill(logits, teacher, kind), answer


class Parts:
    """The functions that all models share, compiled or not."""

    def __init__(self, compile_, dtype):
        wrap = (lambda f: torch.compile(f, dynamic=False)) if compile_ else (lambda f: f)
        self.block, self.head, self.losses, self.mixed = map(wrap, (block, head, losses, mixed))
        self.dtype = dtype

    def logits(self, m, ids, pick):
        x = F.embedding(ids, m.embed.weight.to(self.dtype))
        cos, sin = (t[:ids.shape[1]].to(self.dtype) for t in (m.cos, m.sin))
        for b in m.layers:
            attention = b.q_proj.weight, b.k_proj.weight, b.v_proj.weight, b.o_proj.weight
            mlp = b.gate_proj.weight, b.up_proj.weight, b.down_proj.weight
            x = self.block(
                x, cos, sin, b.input_layernorm, *attention, b.post_attention_layernorm, *mlp, b.h, b.kv)
        return self.head(x, m.norm, m.embed.weight, pick)


def deepen(weights):
    """The weights of the twelve layers."""
    out, last = {k: v for k, v in weights.items() if not k.startswith("layers.")}, 0
    for i, old in enumerate(DEEPER):
        last = last if old is None else old
        for k, v in weights.items():
            if k.startswith(f"layers.{last}."):
                zero = old is None and ("o_proj" in k or "down_proj" in k)
                name = k.replace(f"layers.{last}.", f"layers.{i}.", 1)
                out[name] = torch.zeros_like(v) if zero else v.clone()
    return out


# ---------------------------------------------------------------- optimizer
def orthogonal(g):
    """Newton-Schulz as in torch.optim.Muon, for a stack of matrices."""
    x = g.bfloat16()
    flip = x.shape[-2] > x.shape[-1]
    x = x.transpose(-2, -1) if flip else x
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        a = x @ x.transpose(-2, -1)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.transpose(-2, -1) if flip else x).float()


class Muon:
    """Muon with all matrices of a shape at once; updates scaled to match AdamW's."""

    def __init__(self, params, decay=0.1, momentum=0.95):
        self.groups, self.decay, self.momentum = {}, decay, momentum
        for p in params:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.buffers = {s: torch.zeros(len(ps), *s, device=ps[0].device) for s, ps in self.groups.items()}

    @torch.no_grad()
    def step(self, lr):
        for s, ps in self.groups.items():
            g = torch.stack([p.grad for p in ps])
            b = self.buffers[s].lerp_(g, 1 - self.momentum)
            u = orthogonal(g.lerp(b, self.momentum)) * (lr * 0.2 * max(s) ** 0.5)
            torch._foreach_mul_(ps, 1 - lr * self.decay)
            torch._foreach_sub_(ps, list(u.unbind()))


class Optimizer:
    """Muon for the matrices of the layers of some models, AdamW for the rest."""

    def __init__(self, models, lr):
        self.models, self.lr = models, lr
        self.muon = Muon([p for m in models for b in m.layers for p in b.parameters() if p.dim() == 2])
        vectors = [p for m in models for p in m.parameters() if p.dim() < 2]
        self.adam = torch.optim.AdamW([
            dict(params=[m.embed.weight for m in models], weight_decay=0.1),
            dict(params=vectors, weight_decay=0.0),
        ], lr=lr, betas=(0.9, 0.95), eps=1e-8, fused=True)

    def step(self, share):
        """A step at a share of the rate."""
        for g in self.adam.param_groups:
            g["lr"] = self.lr * share
        self.muon.step(self.lr * share)
        self.adam.step()
        for m in self.models:
            m.zero_grad(set_to_none=True)


# ---------------------------------------------------------------- data
def start_workers(a, q):
    """Workers that fill a queue with rows; every third makes long documents."""
    longest = mp.Value("i", a.length - 4)
    tokenizer = os.path.join(a.tokenizer, "tokenizer.json")
    return [
        start(worker, a.seed * 100 + i, tokenizer, ROWS, a.length, q, i % 3 != 2, longest, a.prose, a.usual,
              a.labels, name=f"worker {i} (seed {a.seed * 100 + i})")
        for i in range(a.workers)]


def prepare(a, q, ready):
    """Makes batches out of rows and chooses the scored positions, in a thread of its own."""
    limit = int(a.batch * a.length * a.scored)
    while True:
        x, w = (np.concatenate(p) for p in zip(*(q.get() for _ in range(a.batch // ROWS))))
        pick, kind = choose(w[:, 1:], a.prompt_share, limit)
        y = x[:, 1:].reshape(-1).astype(np.int64)[pick]
        ready.put((np.ascontiguousarray(x[:, :-1]).astype(np.int32), y, pick, kind))


# ---------------------------------------------------------------- training
class Pair:
    def __init__(self, name, folder, device):
        self.name, (target, draft) = name, (hf_weights(os.path.join(folder, n)) for n in MODELS)
        self.target, self.draft = Llama(SHAPES[name]), Llama(DRAFT)
        self.target.load_state_dict(deepen(target) if name == "12m" else target)
        self.draft.load_state_dict(draft)
        self.target, self.draft = self.target.to(device), self.draft.to(device)
        sizes = (sum(p.numel() for p in m.parameters()) for m in (self.target, self.draft))
        print(name, *sizes, "parameters", flush=True)

    def learn(self, parts, x, y, pick, kind, share):
        """Gradients of both models, and their losses on answers."""
        logits = parts.logits(self.target, x, pick)
        loss, answer, _ = parts.losses(logits, y, kind)
        loss.backward()
        own, of_draft = parts.mixed(parts.logits(self.draft, x, pick), logits.detach(), y, kind, share)
        own.backward()
        for m in (self.target, self.draft):
            torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        return torch.stack([answer.detach(), of_draft.detach()])

    def save(self, out, tokenizer, info):
        for m, name in ((self.target, f"extract-{self.name}"), (self.draft, MODELS[1])):
            train.save_hf(m, os.path.join(out, self.name, name), tokenizer, info=info)


class Training:
    def __init__(self, a):
        self.a = a
        self.parts = Parts(a.compile, torch.float32 if a.device == "cpu" else torch.bfloat16)
        self.pairs = [Pair(name, a.start, a.device) for name in a.pairs]
        self.targets = Optimizer([p.target for p in self.pairs], a.lr)
        self.drafts = Optimizer([p.draft for p in self.pairs], a.draft_lr)
        self.step = self.tokens = self.since = 0
        self.stats = torch.zeros(len(self.pairs), 2, device=a.device)

    def learn(self, batch, progress):
        a = self.a
        x, y, pick, kind = (torch.from_numpy(v).to(a.device, non_blocking=True) for v in batch)
        share = torch.tensor(0.7 if progress > a.distill_from else 0.0, device=a.device)
        for i, pair in enumerate(self.pairs):
            self.stats[i] += pair.learn(self.parts, x, y, pick, kind, share)
        rate = train.schedule(progress, self.step, a.warmup, a.decay_from)
        self.targets.step(rate)
        self.drafts.step(rate)
        self.step, self.tokens, self.since = self.step + 1, self.tokens + x.numel(), self.since + x.numel()

    def report(self, progress, seconds, waiting):
        steps = self.since / (self.a.batch * self.a.length)
        losses_ = ", ".join(
            f"{p.name} {t:.4f} draft {d:.4f}" for p, (t, d) in zip(self.pairs, (self.stats / steps).tolist()))
        speed = self.since / max(1e-9, seconds) / 1e3
        self.stats.zero_()
        self.since = 0
        print(
            f"step {self.step} progress {progress:.3f} tokens {self.tokens / 1e6:.1f}M {losses_} "
            f"{speed:.0f}k tok/s waiting {waiting}", flush=True)

    def save(self, seconds):
        a = self.a
        info = dict(step=self.step, tokens=self.tokens, seconds=seconds, lr=a.lr, draft_lr=a.draft_lr,
                    batch=a.batch, length=a.length)
        for pair in self.pairs:
            pair.save(a.out, a.tokenizer, info)


def run(a, t, ready, workers, q):
    """Steps until the clock says that it is over."""
    clock, log, save = Clock(a.end_file, a.steps), Timer(a.log_seconds), Timer(a.save_seconds)
    while (progress := clock.progress(t.step)) < 1.0:
        t.learn(take(ready, workers), progress)
        if log.due() or t.step == 3:
            t.report(progress, log.restart(), q.qsize())
        if save.due():
            t.save(clock.spent())
            save.restart()
    t.save(clock.spent())
    print(f"done: {t.step} steps, {t.tokens} tokens, {clock.spent():.0f} s", flush=True)


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("start", help="folder of the finished pair, from `weights.py embedded`")
    p.add_argument("out")
    p.add_argument("--tokenizer", required=True, help="folder with tokenizer.json")
    p.add_argument("--pairs", nargs="+", default=["5m", "12m"], choices=list(SHAPES))
    p.add_argument("--end-file", help="holds the time at which the training ends")
    p.add_argument("--steps", type=int, default=0, help="end after so many steps")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--batch", type=int, default=96, help=f"sequences per step, a multiple of {ROWS}")
    p.add_argument("--length", type=int, default=640, help="tokens per sequence")
    p.add_argument("--workers", type=int, default=7)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--draft-lr", type=float, default=2.5e-3)
    p.add_argument("--warmup", type=int, default=60)
    p.add_argument("--decay-from", type=float, default=0.35)
    p.add_argument("--distill-from", type=float, default=0.15)
    p.add_argument("--scored", type=float, default=0.3, help="largest share of positions that are scored")
    p.add_argument("--prompt-share", type=float, default=0.08, help="share of prompt tokens that are scored")
    p.add_argument("--prose", type=float, default=0.6)
    p.add_argument("--usual", type=float, default=0.65)
    p.add_argument("--labels", type=float, default=0.18)
    p.add_argument("--label-weight", type=float, default=2.0)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--log-seconds", type=float, default=10)
    p.add_argument("--save-seconds", type=float, default=60)
    p.add_argument("--seed", type=int, default=77)
    return p.parse_args()


def main():
    a = arguments()
    train.LABEL_WEIGHT = a.label_weight
    q, ready = mp.Queue(maxsize=max(8, a.workers * 3)), queue.Queue(maxsize=8)
    workers = start_workers(a, q)  # before CUDA starts
    torch.manual_seed(a.seed)
    np.random.seed(a.seed)
    torch.set_float32_matmul_precision("high")
    t = Training(a)
    threading.Thread(target=prepare, args=(a, q, ready), daemon=True).start()
    run(a, t, ready, workers, q)
    stop(workers)
    os._exit(0)  # the thread waits for ever


if __name__ == "__main__":
    main()

"""Train the draft on what the target itself answers.

    python train_draft.py TARGET_DIR DRAFT_DIR OUT_DIR --minutes 10

The target answers new prompts greedily, and the draft learns the target's
probabilities along those answers, its mistakes included: a draft is there to
guess the target, not the truth. Run it after `train.py extract`; the target
does not change.
"""
import argparse
import json
import os
import time

import numpy as np
import torch
import torch.nn.functional as F

import train
from generate import Gen


def load_hf(folder):
    """The model of a folder that `train.save_hf` wrote."""
    c = json.load(open(os.path.join(folder, "config.json"), encoding="utf-8"))
    m = train.Llama(train.shape(c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"], c["intermediate_size"], c["vocab_size"]))
    m.load_state_dict(train.hf_weights(folder))
    return m


def prompts(tok, seed, prose, usual, pool, batch, longest):
    """Batches of prompts of nearly the same length."""
    g = Gen(seed, compact=True, prose=prose, usual=usual)
    rng = np.random.default_rng(seed)
    while True:
        ids = [tok.encode(g.document()["prompt"]).ids for _ in range(pool)]
        ids = sorted((x for x in ids if len(x) <= longest), key=len)
        groups = [ids[i:i + batch] for i in range(0, len(ids) - batch + 1, batch)]
        for i in rng.permutation(len(groups)):
            yield groups[i]


@torch.no_grad()
def answers(model, batch, eos, pad, limit):
    """Greedy answers to prompts, with padding on the left. `model` is of transformers."""
    n = max(map(len, batch))
    x = torch.tensor([[pad] * (n - len(p)) + p for p in batch])
    mask = torch.tensor([[0] * (n - len(p)) + [1] * len(p) for p in batch])
    out = model.generate(x, attention_mask=mask, max_new_tokens=limit, do_sample=False, eos_token_id=eos, pad_token_id=pad, use_cache=True)[:, n:].tolist()
    return [a[:a.index(eos) + 1] if eos in a else a for a in out]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("target")
    ap.add_argument("draft")
    ap.add_argument("out")
    ap.add_argument("--minutes", type=float, default=10)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--pool", type=int, default=256, help="prompts that are sorted by length at a time")
    ap.add_argument("--longest", type=int, default=400, help="drop prompts with more tokens")
    ap.add_argument("--answer", type=int, default=140, help="most tokens of an answer")
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--prose", type=float, default=0.8)
    ap.add_argument("--usual", type=float, default=0.8)
    ap.add_argument("--seed", type=int, default=5)
    ap.add_argument("--log-every", type=int, default=10)
    ap.add_argument("--float32", action="store_true", help="products in float32, which some CPUs do faster than in bfloat16")
    a = ap.parse_args()
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM
    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    tok = Tokenizer.from_file(os.path.join(a.target, "tokenizer.json"))
    eos, pad = tok.token_to_id("<|im_end|>"), tok.token_to_id("<|pad|>")
    writer = LlamaForCausalLM.from_pretrained(a.target, dtype=torch.float32).eval()
    target, draft = load_hf(a.target).eval(), load_hf(a.draft)
    train.MUON = True
    opt = train.optimizer(draft, a.lr, "cpu")
    source = prompts(tok, a.seed, a.prose, a.usual, a.pool, a.batch, a.longest)
    start, step, tokens = time.time(), 0, 0
    seen = hits = 0
    while (progress := (time.time() - start) / (a.minutes * 60)) < 1:
        batch = next(source)
        rows = [(p, x) for p, x in zip(batch, answers(writer, batch, eos, pad, a.answer))]
        n = max(len(p) + len(x) for p, x in rows)
        ids = torch.full((len(rows), n), pad)
        pick, gold = [], []
        for i, (p, x) in enumerate(rows):
            ids[i, :len(p) + len(x)] = torch.tensor(p + x)
            pick += [i * n + j for j in range(len(p) - 1, len(p) + len(x) - 1)]
            gold += x
        pick, gold = torch.tensor(pick), torch.tensor(gold)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=not a.float32):
            teacher = F.softmax(target(ids, pick).float(), -1)
        for group in opt.param_groups:
            group["lr"] = a.lr * min(1.0, (step + 1) / 10) * (1 - progress)
        with torch.autocast("cpu", torch.bfloat16, enabled=not a.float32):
            logits = draft(ids, pick).float()
        loss = 0.3 * F.cross_entropy(logits, gold) - 0.7 * (teacher * F.log_softmax(logits, -1)).sum(-1).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(draft.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step, tokens = step + 1, tokens + len(gold)
        seen, hits = seen + len(gold), hits + int((logits.argmax(-1) == gold).sum())
        if step % a.log_every == 0:
            print(f"step {step} answer tokens {tokens} progress {progress:.2f} loss {loss.item():.4f} first choice alike {hits / seen:.4f} {tokens / (time.time() - start):.0f} answer tok/s", flush=True)
            seen = hits = 0
    info = dict(step=step, answer_tokens=tokens, seconds=time.time() - start, lr=a.lr, target=os.path.basename(a.target.rstrip("/")))
    train.save_hf(draft, a.out, a.target, info=info)
    print("done", flush=True)


if __name__ == "__main__":
    main()

"""Check that an adapter loads with `peft`, and that its loss on held-out documents is the training script's.

    python adapter_check.py MODEL.gguf PACKED HELD.npz VOCAB.npy ADAPTER [--count 12]
"""
import argparse
import os

import numpy as np
import torch
import torch.nn.functional as F

import adapter_folder
import adapter_pack
from adapter_model import Model
from adapter_train import batch_of, bucket, read


def mean(docs, loss):
    """The mean loss of the answers' tokens."""
    with torch.no_grad():
        return sum(loss(seq, n) * n for seq, n in docs) / sum(n for _, n in docs)


def by_peft(model, rows):
    """The loss of a document, with the softmax over the vocabulary's rows as in training."""
    def loss(seq, n):
        logits = model(rows[torch.from_numpy(seq.astype(np.int64))][None]).logits[0, -n - 1:-1]
        return F.cross_entropy(logits[:, rows].float(), torch.from_numpy(seq[-n:].astype(np.int64))).item()
    return loss


def by_training(folder, adapter):
    """The loss of a document by the model of the training script, with the adapter merged."""
    c, w = adapter_pack.load(folder)
    for m in adapter_folder.read(adapter)[1].values():
        w[f"layers.{m.layer}.{m.module}.weight"] += m.delta()
    model = Model(c, 1, 1, 1.0, "cpu")
    model.fill(w)

    def loss(seq, n):
        size = bucket(len(seq))
        ids, where, what, _ = batch_of([(seq, n)], size, size)
        return model.loss(*map(torch.from_numpy, (ids, where, what)), size)[0].item()
    return loss


def main():
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
    p = argparse.ArgumentParser()
    for name in ("model", "packed", "held", "vocab", "adapter"):
        p.add_argument(name)
    p.add_argument("--count", type=int, default=12, help="documents")
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    folder, name = os.path.split(os.path.abspath(a.model))
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    model = PeftModel.from_pretrained(model, a.adapter).eval()
    docs, rows = read(a.held)[:a.count], torch.from_numpy(np.load(a.vocab)).long()
    print("peft", mean(docs, by_peft(model, rows)))
    with model.disable_adapter():
        print("without the adapter", mean(docs, by_peft(model, rows)))
    print("merged in the training script", mean(docs, by_training(a.packed, a.adapter)))


if __name__ == "__main__":
    main()

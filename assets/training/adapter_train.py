"""Train a LoRA adapter of a packed model (`adapter_pack.py`) on documents of `adapter_data.py`, on one GPU.

    python adapter_train.py PACKED DATA OUT --held-out HELD.npz --rank 16 --narrow 8 --end-file END

PACKED and DATA may still be filling up: the script makes its kernels meanwhile. It ends at the time in END
(seconds since 1970, may change while it runs), and the learning rate follows that. OUT gets the adapter as
PEFT writes it, every minute and at the end.

Documents of like length make a batch of a fixed number of tokens, so that attention needs no mask but the
causal one and shapes do not change.
"""
import argparse
import json
import math
import multiprocessing as mp
import os
import random
import time

import numpy as np
import torch

import adapter_pack
from adapter_model import Model
from clock import Clock, Timer
from workers import start, stop, take

QUEUE = 24
PATIENCE = 300  # seconds until the first documents must be there
# New shards are read when the documents that fill a batch of their length make fewer batches than this.
BATCHES = 40


# ---------------------------------------------------------------- batches
def bucket(n):
    """The length that a document of n tokens is filled up to."""
    step = 16 if n <= 384 else 32 if n <= 640 else 64
    return -(-n // step) * step


def batch_of(docs, length, tokens):
    """A flat batch: ids, positions whose next token is scored, those tokens, and the length of the rows."""
    ids, where, what = np.zeros(tokens, np.int32), [], []
    for i, (seq, n) in enumerate(docs):
        end = i * length + len(seq)
        ids[end - len(seq):end] = seq
        where.append(np.arange(end - n - 1, end - 1, dtype=np.int32))
        what.append(seq[-n:].astype(np.int64))
    return ids, np.concatenate(where), np.concatenate(what), length


def read(path):
    """[(ids, length of the answer)] of a shard."""
    z = np.load(path)
    ids, length, answer = z["ids"], z["length"].astype(np.int64), z["answer"]
    return [(ids[e - n:e], int(a)) for e, n, a in zip(np.cumsum(length), length, answer)]


class Shards:
    """The shards of a folder: new ones first, then those seen before again."""

    def __init__(self, folder, r):
        self.folder, self.r, self.seen, self.again = folder, r, [], []

    def next(self):
        """Paths of some shards; waits for the first."""
        begun = time.time()
        while time.time() - begun < PATIENCE:
            names = os.listdir(self.folder) if os.path.isdir(self.folder) else []
            whole = sorted(n for n in names if n.endswith(".npz") and ".tmp" not in n)
            paths = [os.path.join(self.folder, n) for n in whole]
            new = [p for p in paths if p not in self.seen]
            some = self.r.sample(new, min(6, len(new)))
            self.seen += some
            if some:
                return some
            if self.seen:
                self.again = self.again or self.r.sample(self.seen, len(self.seen))
                return [self.again.pop()]
            time.sleep(0.5)
        raise SystemExit(f"no documents in {self.folder}")


def produce(folder, tokens, queue, seed, count):
    """Batches without end. `count` is the shared number of shards seen."""
    r, pool = random.Random(seed), {}
    shards = Shards(folder, r)
    while True:
        full = {n: len(d) * n for n, d in pool.items() if len(d) >= max(1, tokens // n)}
        if sum(full.values()) < BATCHES * tokens:
            for path in shards.next():
                for doc in read(path):
                    length = bucket(len(doc[0]))
                    if length <= tokens:
                        pool.setdefault(length, []).append(doc)
            count.value = len(shards.seen)
            continue
        length = r.choices(list(full), list(full.values()))[0]
        docs = pool[length]
        r.shuffle(docs)
        n = tokens // length
        queue.put(batch_of(docs[-n:], length, tokens))
        del docs[-n:]


def held_out(path, tokens):
    """[(batch, lengths of its answers)] of a file of documents."""
    docs, out = sorted(read(path), key=lambda d: len(d[0])), []
    while docs:
        length = bucket(len(docs[-1][0]))
        n = max(1, tokens // length)
        out.append((batch_of(docs[-n:], length, max(tokens, length)), [d[1] for d in docs[-n:]]))
        del docs[-n:]
    return out


# ---------------------------------------------------------------- training
class Training:
    """A model, its optimizer and what the steps of a while said."""

    def __init__(self, a, c):
        self.a, self.m = a, Model(c, a.rank, a.narrow, a.scale, a.device, a.compile)
        self.opt = torch.optim.AdamW(
            self.m.parameters(), lr=a.lr, betas=(0.9, 0.98), weight_decay=0.0, fused=a.device != "cpu")
        self.step = self.tokens = self.scored = self.since = 0
        self.stats = torch.zeros(3, device=a.device)
        self.last = {}

    def loss(self, batch):
        put = lambda x: torch.from_numpy(x).to(self.a.device, non_blocking=True)
        ids, where, what, length = batch
        return self.m.loss(put(ids), put(where), put(what), length)

    def make_kernels(self):
        """A step of nothing, while weights and documents arrive."""
        seq = np.zeros(min(200, self.a.tokens), np.int32)
        batch = batch_of([(seq, len(seq) // 2)], min(128, self.a.tokens), self.a.tokens)
        self.loss(batch)[0].backward()
        with torch.no_grad():
            self.loss(batch)
        self.opt.zero_grad(set_to_none=True)

    def rate(self, progress):
        return self.a.lr * min((self.step + 1) / self.a.warmup, 0.5 * (1 + math.cos(math.pi * progress)))

    def learn(self, batch, progress):
        """One step."""
        for g in self.opt.param_groups:
            g["lr"] = self.rate(progress)
        loss, right = self.loss(batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.m.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.stats += torch.stack([loss.detach(), right.float().mean(), norm.detach()])
        self.step, self.since = self.step + 1, self.since + 1
        self.tokens, self.scored = self.tokens + len(batch[0]), self.scored + len(batch[2])

    def report(self, progress, seconds):
        loss, right, norm = (self.stats / max(1, self.since)).tolist()
        speed = self.since * self.a.tokens / max(1e-9, seconds) / 1e3
        self.stats.zero_()
        self.since, self.last = 0, dict(loss=loss)
        print(
            f"step {self.step} progress {progress:.3f} tokens {self.tokens / 1e6:.2f}M answers "
            f"{self.scored / 1e6:.2f}M loss {loss:.4f} right {right:.4f} norm {norm:.3f} "
            f"lr {self.rate(progress):.2e} {speed:.1f}k tok/s", end=" ")

    @torch.no_grad()
    def check(self, held):
        loss = right = tokens = whole = docs = 0
        for batch, answers in held:
            l, ok = self.loss(batch)
            n = len(batch[2])
            loss, right, tokens = loss + l.item() * n, right + ok.sum().item(), tokens + n
            whole += sum(bool(x.all()) for x in ok.cpu().split(answers))
            docs += len(answers)
        return (f"held out: loss {loss / tokens:.4f}, tokens right {right / tokens:.4f}, "
                f"records right {whole / docs:.4f} of {docs}")

    def save(self, seconds, **more):
        a = self.a
        self.m.save(a.out, a.base, dict(
            step=self.step, tokens=self.tokens, answer_tokens=self.scored, seconds=seconds, lr=a.lr,
            tokens_a_step=a.tokens, rank=a.rank, narrow=a.narrow, scale=a.scale, **self.last, **more))


def run(a, t, batches, feeder, count, held):
    """Steps until the clock says that it is over."""
    clock = Clock(a.end_file, a.steps)
    log, check, save = map(Timer, (a.log_seconds, a.check_seconds, a.save_seconds))
    while (progress := clock.progress(t.step)) < 1.0:
        t.learn(take(batches, [feeder]), progress)
        if log.due() or t.step == 3:
            t.report(progress, log.restart())
            print("shards", count.value, "queue", batches.qsize(), flush=True)
        if held and check.due():
            print("step", t.step, t.check(held), flush=True)
            check.restart()
        if save.due():
            t.save(clock.spent())
            save.restart()
    more = dict(held_out=t.check(held)) if held else {}
    t.save(clock.spent(), **more)
    print(f"done: {t.step} steps, {t.tokens} tokens, {clock.spent():.0f} s", *more.values(), flush=True)


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("packed")
    p.add_argument("data")
    p.add_argument("out")
    p.add_argument("--held-out", help="documents to measure with")
    p.add_argument("--base", default="", help="the base model's name, for PEFT's configuration")
    p.add_argument("--end-file", help="holds the time at which the training ends")
    p.add_argument("--steps", type=int, default=0, help="end after so many steps")
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--narrow", type=int, default=8, help="the rank of q and k")
    p.add_argument("--scale", type=float, default=2.0, help="what B A is multiplied with")
    p.add_argument("--tokens", type=int, default=24576, help="tokens of a step")
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--warmup", type=int, default=40, help="steps in which the rate rises")
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--log-seconds", type=float, default=10)
    p.add_argument("--check-seconds", type=float, default=30)
    p.add_argument("--save-seconds", type=float, default=60)
    return p.parse_args()


def main():
    a = arguments()
    torch.manual_seed(1)
    count, batches = mp.Value("i", 0), mp.Queue(maxsize=QUEUE)
    feeder = start(produce, a.data, a.tokens, batches, 1, count, name="the reader of documents")
    while not (index := adapter_pack.index_of(a.packed)):
        time.sleep(0.5)
    t = Training(a, index["config"])
    size = sum(x.numel() for x in t.m.parameters())
    print(f"{size} parameters in the adapter, {2 * size / 1e6:.1f} MB", flush=True)
    t.make_kernels()
    while not adapter_pack.complete(a.packed):
        time.sleep(0.2)
    t.m.fill(adapter_pack.load(a.packed)[1])
    held = held_out(a.held_out, a.tokens) if a.held_out else []
    if held:
        print("before", t.check(held), flush=True)
    run(a, t, batches, feeder, count, held)
    stop([feeder])


if __name__ == "__main__":
    main()

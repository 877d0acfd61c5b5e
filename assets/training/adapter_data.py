"""Documents for adapters: prompts as `ffwd extract` writes them, answers as its mask writes them.

    python adapter_data.py show --count 5
    python adapter_data.py vocab TOKENIZER.json OUT.npy --count 25000   # the token rows that training needs
    python adapter_data.py held-out TOKENIZER.json VOCAB.npy OUT.npz    # records of texts that no worker sees
    python adapter_data.py stream OUT --model NAME TOKENIZER.json VOCAB.npy [--model ...] --million 60

`stream` writes the same documents for several models, until the first of them has its tokens. A shard holds
`ids` (rows of VOCAB), `length` and `answer` (how many of the last tokens are the answer) of each document.

The documents are those of `generate.py`, with these differences: the wording for models that this project has
not trained (`outline.py`), one space after commas and colons, no evidence in <think>, and tool calls as the
models' own chat template has them. --tools-share adds tool calls, and chat with tools on offer.
"""
import argparse
import json
import multiprocessing as mp
import os
import time

import numpy as np

import prose_tasks
import steps
import toolcalls
from generate import Gen
from values import Raw
from workers import WorkerDied, running, start, stop

HERE = os.path.dirname(os.path.abspath(__file__))
END = "<|im_end|>"
INSTRUCTIONS = [
    "Copy names and codes exactly as the text writes them.",
    "Do not invent values.",
    "Write null where the text does not say.",
    "Ignore everything that is not about the record.",
    "The text may hold several values that look alike: take the one that counts in the end.",
]
SYSTEM = ["You are a helpful assistant.", "Call one tool at a time."]
TOOLS = """

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments \
within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""
CALL = {"marks": "<tool_call>\n{}\n</tool_call>", "json": "{}"}


def spaced(o):
    """JSON with one space after commas and colons; numbers as they were made."""
    if isinstance(o, Raw):
        return str(o)
    if isinstance(o, dict):
        return "{" + ", ".join(json.dumps(k, ensure_ascii=False) + ": " + spaced(v) for k, v in o.items()) + "}"
    if isinstance(o, (list, tuple)):
        return "[" + ", ".join(map(spaced, o)) + "]"
    return json.dumps(o, ensure_ascii=False)


def chats():
    """(what is said, a reply) of each line of the file."""
    with open(os.path.join(HERE, "adapter_chat.txt"), encoding="utf-8") as f:
        return [tuple(l.strip().split(" | ")) for l in f if l.strip() and not l.startswith("#")]


# ---------------------------------------------------------------- documents
class General(Gen):
    """The wording of the program for other models, whatever the document."""

    def prompt(self, text, schema, think=False):
        some = self.r.sample(INSTRUCTIONS, self.r.choice([1, 1, 2])) if self.chance(0.05) else []
        return self.general_prompt(text, schema, "\n".join(some))

    def keys_prompt(self, text, schema):
        return self.prompt(text, schema)


class Documents:
    """An endless stream of (task, prompt, answer)."""

    def __init__(self, seed, prose=0.72, tools_share=0.0, call="marks"):
        self.short, self.long = (
            General(seed * 2 + c, compact=c, prose=prose, usual=1.0) for c in (True, False))
        self.r, self.tools_share, self.call, self.chats = self.short.r, tools_share, CALL[call], chats()

    def one(self):
        while True:
            if self.tools_share and self.r.random() < self.tools_share:
                return self.assistant()
            g = self.short if self.r.random() < 0.6 else self.long
            d = g.document()
            if self.wanted(d):
                return self.finish(g, d)

    def wanted(self, d):
        task, chance = d["task"], self.r.random
        if task == "reasoning" or "<think>" in d["prompt"]:
            return False
        if task in ("classify", "multilabel", "tool") and chance() < 0.5:
            return False
        if task in ("record", "array"):
            # The wording does not show patterns, so what they ask for cannot be learnt from it.
            if '"pattern"' in json.dumps(d["schema"]) and chance() < 0.95:
                return False
            return not ("people" in d and chance() < 0.5)  # they have long answers
        return True

    def finish(self, g, d):
        task = d["task"]
        if task == "tool":
            return task, g.chat(self.system(d["tools"]), d["text"]), self.call.format(spaced(d["gold"]))
        return task, d["prompt"], spaced(d["gold"]) if task in ("record", "array") else d["answer"]

    def system(self, tools):
        listed = (json.loads(spaced(t.get("function", t))) for t in tools)
        lines = (json.dumps({"type": "function", "function": t}, ensure_ascii=False) for t in listed)
        return SYSTEM[self.r.random() >= 0.5] + TOOLS.format(tools="\n".join(lines))

    def assistant(self):
        """A tool call, or at times a chat with tools on offer that nobody needs."""
        g, x = self.short, self.r.random()
        d = steps.make(g) if x < 0.25 else toolcalls.make(g, more=True)
        if x < 0.75:
            return self.finish(g, d)
        said, reply = self.r.choice(self.chats)
        return "chat", g.chat(self.system(d["tools"]) if x < 0.9 else SYSTEM[0], said), reply


def held_out(seed, count):
    """(prompt, answer) of records of held-out texts."""
    g = General(seed, "heldout", compact=True, prose=1.0, usual=1.0)
    for _ in range(count):
        g.by_hand = True
        d = prose_tasks.record(g)
        yield d["prompt"], spaced(d["gold"])


# ---------------------------------------------------------------- tokens
def encode(tok, docs):
    """[(ids, length of the answer)] of (prompt, answer) pairs."""
    end, flat = tok.token_to_id(END), tok.encode_batch([t for d in docs for t in d])
    return [(p.ids + a.ids + [end], len(a.ids) + 1) for p, a in zip(flat[::2], flat[1::2])]


def shard(items, lut, longest):
    """Arrays of the documents whose tokens are all in the vocabulary, and how many were left out."""
    rows = [(lut[np.asarray(seq)], n) for seq, n in items if len(seq) <= longest]
    rows = [(r, n) for r, n in rows if r.min() >= 0]
    kind = np.uint16 if lut.max() < 1 << 16 else np.int32
    length, answer = (np.array(x, np.uint16) for x in ([len(r) for r, _ in rows], [n for _, n in rows]))
    ids = np.concatenate([r for r, _ in rows]) if rows else np.zeros(0)
    return dict(ids=ids.astype(kind), length=length, answer=answer), len(items) - len(rows)


def load_tokenizer(path):
    from tokenizers import Tokenizer
    return Tokenizer.from_file(path)


def load_model(tokenizer, vocab):
    """The tokenizer, and the row of each token or -1."""
    tok, rows = load_tokenizer(tokenizer), np.load(vocab)
    lut = np.full(tok.get_vocab_size(), -1, np.int32)
    lut[rows] = np.arange(len(rows))
    return tok, lut


def save(path, arrays):
    np.savez(path + ".tmp.npz", **arrays)
    os.replace(path + ".tmp.npz", path)


# ---------------------------------------------------------------- commands
def show(a):
    docs = Documents(a.seed, tools_share=a.tools_share, call=a.call)
    for _ in range(a.count):
        task, prompt, answer = docs.one()
        print(f"===== {task}\n{prompt}{answer}{END}\n")


def always(tok, first):
    """Tokens that stay in the vocabulary, whether documents have them or not."""
    tokens = tok.get_vocab().items()
    return [i for t, i in tokens if i < first or t.startswith("<|") or t in ("<tool_call>", "</tool_call>")]


def vocab(a):
    """Writes the tokens that documents have."""
    tok, docs = load_tokenizer(a.tokenizer), Documents(7, tools_share=a.tools_share, call=a.call)
    used = np.zeros(tok.get_vocab_size(), bool)
    used[always(tok, a.always)] = True
    for at in range(0, a.count, 1000):
        for seq, _ in encode(tok, [docs.one()[1:] for _ in range(min(1000, a.count - at))]):
            used[seq] = True
        if at % 5000 == 4000:
            print(at + 1000, "documents,", used.sum(), "rows", flush=True)
    for seq, _ in encode(tok, list(held_out(5, 400))):
        used[seq] = True
    np.save(a.out, np.flatnonzero(used).astype(np.int32))
    print(a.out, used.sum(), "rows")


def write_held_out(a):
    tok, lut = load_model(a.tokenizer, a.vocab)
    arrays, lost = shard(encode(tok, list(held_out(5, a.count))), lut, 1024)
    np.savez(a.out, **arrays)
    print(a.out, len(arrays["length"]), "documents,", lost, "left out")


def work(seed, a, goal, done):
    """Writes shards until the first model has its tokens. `done` is the shared count of this worker."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    docs, n, lost = Documents(seed, tools_share=a.tools_share, call=a.call), 0, 0
    loaded = [(name, *load_model(t, v)) for name, t, v in a.model]
    while done.value < goal:
        some = [docs.one()[1:] for _ in range(a.shard)]
        for k, (name, tok, lut) in enumerate(loaded):
            arrays, gone = shard(encode(tok, some), lut, a.longest)
            save(os.path.join(a.out, name, f"w{seed:03d}-{n:04d}.npz"), arrays)
            lost += gone
            done.value += len(arrays["ids"]) if k == 0 else 0
        n += 1
    count = n * a.shard * len(loaded)
    print(f"worker {seed}: {done.value / 1e6:.1f}M tokens, {lost} of {count} documents left out", flush=True)


def stream(a):
    for name, _, _ in a.model:
        os.makedirs(os.path.join(a.out, name), exist_ok=True)
    done, goal, begun = [mp.Value("d", 0) for _ in range(a.workers)], a.million * 1e6 / a.workers, time.time()
    ps = [start(work, a.seed + i, a, goal, d, name=f"worker {a.seed + i}") for i, d in enumerate(done)]
    try:
        while running(ps, a.log_seconds):
            print(f"{time.time() - begun:.0f} s: {sum(d.value for d in done) / 1e6:.1f}M tokens", flush=True)
    except WorkerDied as e:
        stop(ps)
        raise SystemExit(str(e)) from None


def main():
    p = argparse.ArgumentParser()
    sub = p.add_subparsers(dest="what", required=True)
    commands = {}

    def command(name, run, *paths):
        s = commands[name] = sub.add_parser(name)
        for path in paths:
            s.add_argument(path)
        s.set_defaults(run=run)
        return s

    s = command("show", show)
    s.add_argument("--count", type=int, default=5)
    s.add_argument("--seed", type=int, default=1)
    s = command("vocab", vocab, "tokenizer", "out")
    s.add_argument("--count", type=int, default=25000, help="documents to look at")
    s.add_argument("--always", type=int, default=8000, help="so many first tokens are always in it")
    s = command("held-out", write_held_out, "tokenizer", "vocab", "out")
    s.add_argument("--count", type=int, default=400)
    s = command("stream", stream, "out")
    s.add_argument("--model", nargs=3, action="append", required=True, metavar=("NAME", "TOKENIZER", "VOCAB"))
    s.add_argument("--workers", type=int, default=4)
    s.add_argument("--million", type=float, default=60, help="tokens of the first model, all workers together")
    s.add_argument("--longest", type=int, default=1024, help="leave out documents with more tokens")
    s.add_argument("--shard", type=int, default=1500, help="documents of a shard")
    s.add_argument("--seed", type=int, default=100)
    s.add_argument("--log-seconds", type=float, default=10)
    for name in ("show", "vocab", "stream"):
        commands[name].add_argument("--tools-share", type=float, default=0.0, help="tool calls and chat to add")
        commands[name].add_argument("--call", default="marks", choices=list(CALL), help="how a call is written")
    a = p.parse_args()
    a.run(a)


if __name__ == "__main__":
    main()

"""Fields and labels right by the program, with any model, one process a text as users run it.

    python evaluate_program.py FFWD SET.jsonl --model base=M.gguf [--model adapted=N.gguf ...] [--extra '...']

A model is a path, `embedded`, or target and draft as TARGET+DRAFT, which are prompted as the embedded pair.
Documents with a schema go to `ffwd extract`, documents with labels to `ffwd classify --top 1`. Numbers compare
by value, as in `examples/evaluate.rs`. The report has counts only; --rows FILE gets the answers.
"""
import argparse
import json
import os
import shlex
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROMPT = os.path.join(HERE, "trained_prompt.txt")
STATS = ("tokens", "forwards", "seconds")


def same(a, b):
    """Whether two values are the same; objects may have keys that the right one lacks."""
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) < 1e-9
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return len(a) == len(b) and all(k in b and same(v, b[k]) for k, v in a.items())
    return type(a) is type(b) and a == b


def fields(got, gold):
    """(right, all) of a record, or of a list of records."""
    if isinstance(gold, list):
        got = got if isinstance(got, list) else []
        pairs = [fields(got[i] if i < len(got) else None, g) for i, g in enumerate(gold)]
        return sum(n for n, _ in pairs), sum(m for _, m in pairs)
    got = got if isinstance(got, dict) else {}
    return sum(k in got and same(got[k], v) for k, v in gold.items()), len(gold)


def options(model, extract):
    """The program's options for a model."""
    if model == "embedded":
        return []
    target, _, draft = model.partition("+")
    if not draft:
        return ["-m", target]
    more = ["--prompt", PROMPT, "--system", "You extract structured data from text.", "--whitespace", "compact"]
    return ["-m", target, "--draft-model", draft] + (more if extract else [])


def file(folder, name, what):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(what if isinstance(what, str) else json.dumps(what, ensure_ascii=False))
    return path


def load(path):
    """The JSON in a file, or None."""
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def ask(a, model, d):
    """(answer or None, statistics or None) of the program."""
    with tempfile.TemporaryDirectory() as t:
        text = file(t, "text.txt", d["text"])
        out, stats = (os.path.join(t, n) for n in ("out.json", "stats.json"))
        if "schema" in d:
            how = ["extract", text, "-s", file(t, "schema.json", d["schema"]), "--stats", stats]
        else:
            how = ["classify", text, "-l", file(t, "labels.json", d["labels"]), "--top", "1", "--json"]
        command = [a.ffwd, *how, *options(model, "schema" in d), *shlex.split(a.extra)]
        with open(out, "w", encoding="utf-8") as f:
            subprocess.run(command, stdout=f, stderr=subprocess.DEVNULL)
        return load(out), load(stats)


def score(d, got):
    """(right, all) of a document."""
    if "schema" in d:
        return fields(got, d["gold"])
    return int(json.dumps(d["gold"]) in json.dumps(got)), 1


def evaluate(a, name, model, docs, kept):
    halves, whole, failed, cut, begun = [[0, 0], [0, 0]], 0, 0, 0, time.time()
    sums = dict.fromkeys(STATS, 0)
    for i, d in enumerate(docs):
        got, stats = ask(a, model, d)
        n, m = score(d, got)
        halves[i % 2][0] += n
        halves[i % 2][1] += m
        whole, failed = whole + (n == m), failed + (got is None)
        if stats:
            cut += stats["finish"] != "stop"
            sums = {k: v + stats[k] for k, v in sums.items()}
        if kept:
            row = dict(name=name, id=d.get("id"), right=n, fields=m, got=got)
            print(json.dumps(row, ensure_ascii=False), file=kept, flush=True)
    right, every = (sum(h[k] for h in halves) for k in (0, 1))
    percent = lambda n, m: f"{100 * n / max(1, m):.1f}"
    print(
        f"{name}: {len(docs)} texts, {right}/{every} right = {percent(right, every)} %, whole {whole}, "
        f"failed {failed}, cut {cut}, {sums['tokens']} tokens in {sums['forwards']} forwards, "
        f"{sums['seconds']:.1f} s, wall {time.time() - begun:.0f} s, "
        f"even/odd {'/'.join(percent(*h) for h in halves)}", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("ffwd")
    p.add_argument("set")
    p.add_argument("--model", action="append", required=True, metavar="NAME=MODEL")
    p.add_argument("--half", choices=["even", "odd"], help="only these lines of the set")
    p.add_argument("--limit", type=int)
    p.add_argument("--extra", default="", help="more options for the program")
    p.add_argument("--rows", help="file for the answers")
    a = p.parse_args()
    with open(a.set, encoding="utf-8") as f:
        docs = [d for d in map(json.loads, f) if "schema" in d or "labels" in d and not d.get("multi")]
    docs = docs[a.half == "odd"::2] if a.half else docs
    kept = open(a.rows, "a", encoding="utf-8") if a.rows else None
    for given in a.model:
        evaluate(a, *given.split("=", 1), docs[:a.limit], kept)


if __name__ == "__main__":
    main()

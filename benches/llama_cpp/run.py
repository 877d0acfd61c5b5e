#!/usr/bin/env python3
"""Runs the same records through llama.cpp and through ffwd, in turns, and prints a Markdown table.

    cargo build --release --example llama_cpp_worker
    python3 -m venv VENV && VENV/bin/pip install llama-cpp-python jsonschema
    VENV/bin/python benches/llama_cpp/run.py

Both get the same prompt tokens and the same schema, decode greedily, with one thread, in one process each that is
pinned to one core. Loading is not measured; compiling the schema is, apart. Every record runs in every arm, arm
after arm, then the next record; after some rounds the least time of each record counts, since a busy machine
makes things slower only. Settings of llama.cpp are tried on the first records with no draft, the fastest is used.

What is not alike: llama.cpp's grammar, converted from the schema by llama-cpp-python, lets white space in between
and may treat absent keywords in other ways, so texts can differ; therefore tokens and characters are counted
beside records. A worker that crashes is counted and started again.
"""
import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TABLE = ("docs/benchmarks.md", "llama_cpp")


class Worker:
    """A child process that answers one JSON line with one JSON line."""

    def __init__(self, command, first=None, core=None, threads=1):
        self.command, self.first, self.core, self.threads = command, first, core, threads
        self.child = self.hello = None

    def start(self):
        pin = (lambda: os.sched_setaffinity(0, {self.core})) if self.core is not None else None
        names = ("RAYON_NUM_THREADS", "CANDLE_NUM_THREADS", "OMP_NUM_THREADS")
        env = dict(os.environ, **{name: str(self.threads) for name in names})
        self.child = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            encoding="utf-8", env=env, preexec_fn=pin)
        self.hello = self.exchange(self.first) if self.first else None

    def exchange(self, message):
        """The answer, or `{"crash": ...}` if the process ended instead."""
        try:
            self.child.stdin.write(json.dumps(message) + "\n")
            self.child.stdin.flush()
            line = self.child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        code = self.child.wait()
        self.child = None
        return {"crash": signal.Signals(-code).name if code < 0 else f"exit {code}"}

    def ask(self, message):
        if self.child is None:
            self.start()
            if self.hello and "crash" in self.hello:
                return self.hello
        return self.exchange(message)

    def stop(self):
        if self.child is not None:
            self.child.stdin.close()
            self.child.wait()
            self.child = None


class Arm:
    """One row of the table: a worker, and what it is told beside the record."""

    def __init__(self, name, worker, message):
        self.name, self.worker, self.message = name, worker, message
        # For each record the answer with the least seconds, or the last failure.
        self.best = {}
        # In all rounds.
        self.crashes = 0

    def run(self, record, limit):
        message = {"op": "run", "schema": record["schema"], "text": record["text"], "prompt": record["tokens"],
                   "max_tokens": limit, **self.message}
        answer, key = self.worker.ask(message), record["id"]
        self.crashes += "crash" in answer
        kept = self.best.get(key)
        if "text" in answer:
            if not kept or "text" not in kept or answer["seconds"] < kept["seconds"]:
                self.best[key] = answer
        elif not kept:
            self.best[key] = answer

    def texts(self):
        return {k for k, a in self.best.items() if "text" in a}


def records(paths, most):
    """Every n-th line of each file that has a schema, up to `most` a file."""
    out = []
    for path in paths:
        lines = [json.loads(line) for line in open(path, encoding="utf-8").read().split("\n") if line.strip()]
        lines = [e for e in lines if "schema" in e and not e.get("multi")]
        step = max(1, len(lines) // most) if most else 1
        for e in lines[::step][: most or None]:
            schema = json.dumps(e["schema"], ensure_ascii=False, separators=(",", ":"))
            out.append({"id": e["id"], "text": e["text"], "schema": schema})
    return out


def llama_worker(args, gguf, extra, flash, ubatch):
    options = {"gguf": str(gguf), "extra_buffers": extra, "flash_attn": flash, "n_ctx": args.n_ctx,
               "n_batch": args.n_batch, "n_ubatch": ubatch, "draft_gguf": str(args.draft_gguf) if args.draft_gguf else None}
    return Worker([sys.executable, str(HERE / "llama_worker.py")], options, args.core)


def setting_name(gguf, extra, flash, ubatch):
    on = lambda flag: "on" if flag else "off"  # noqa: E731
    return f"{gguf.stem}, repacking {on(extra)}, flash attention {on(flash)}, n_ubatch {ubatch}"


def tune(args, chosen):
    """The fastest way to load the model, by the time without drafts; with what was tried."""
    both = (True, False)
    settings = [(g, e, f, u) for g in args.gguf for e in both for f in both for u in args.n_ubatch]
    arms = {}
    for s in settings:
        arms[s] = Arm(setting_name(*s), llama_worker(args, *s), {"kind": "library", "draft_tokens": 0})
    for _ in range(args.tune_rounds):
        for record in chosen:
            for arm in arms.values():
                arm.run(record, args.max_tokens)
    for arm in arms.values():
        arm.worker.stop()
    lines, times = [], {}
    for s, arm in arms.items():
        good = [a for a in arm.best.values() if "text" in a]
        failed = [a for a in arm.best.values() if "text" not in a]
        tokens = sum(a["tokens"] + a["prompt_tokens"] for a in good)
        # Rows that fail on some records are compared by what they did.
        times[s] = sum(a["seconds"] for a in good) / tokens if good else float("inf")
        note = f", {len(failed)} failed: {next(iter(failed[0].values()))}" if failed else ""
        lines.append((times[s], f"{arm.name}: {1e3 * times[s]:.3f} ms a token{note}"))
    print("\n".join(line for _, line in lines), file=sys.stderr)
    best = min(times, key=times.get)
    return best, [line for _, line in sorted(lines)]


def make_arms(args, ffwd, llama):
    arms = [Arm("ffwd `off`", ffwd, {"mode": "off"}),
            Arm("ffwd `exact`", ffwd, {"mode": "exact"}),
            Arm("ffwd `exact`, no draft model", ffwd, {"mode": "exact", "draft_model": False}),
            Arm("llama.cpp, package", llama, {"kind": "package", "draft_tokens": 0}),
            Arm("llama.cpp, library", llama, {"kind": "library", "draft_tokens": 0})]
    for kind in ("package", "library"):
        for n in args.lookup:
            arms.append(Arm(f"llama.cpp, {kind}, look-up {n}", llama, {"kind": kind, "draft_tokens": n}))
    if args.draft_gguf:
        for n, least in [(n, 0.0) for n in args.draft] + [(16, 0.75)]:
            name = f"draft model {n}" + (f" while sure to {least}" if least else "")
            arms.append(Arm(f"llama.cpp, library, {name}", llama,
                            {"kind": "library+model", "draft_tokens": n, "least": least}))
    return arms


def valid(answer, schema):
    import jsonschema  # only this needs it

    try:
        value = json.loads(answer["text"])
    except ValueError:
        return False
    return jsonschema.Draft202012Validator(schema).is_valid(value)


def split(arms):
    """The records that every arm gave a text for, and those of them with the same text in all arms."""
    common = set.intersection(*(a.texts() for a in arms))
    return common, {k for k in common if len({a.best[k]["text"] for a in arms}) == 1}


HEAD = ["", "records a second, same text", "seconds", "inside libllama (grammar)", "records a second, all", "tokens a second",
        "characters a second", "tokens a forward", "compiling, ms a record", "cut", "valid", "text as ffwd `off`", "refused, crashed"]
# The columns of the documentation.
SHOWN = ["", "records a second, same text", "records a second, all", "tokens a second", "tokens a forward"]


def table(arms, asked, columns=HEAD):
    """Rows over the records that every arm gave a text for; failures over all."""
    common, same = split(arms)
    schemas = {r["id"]: json.loads(r["schema"]) for r in asked}
    out = [HEAD, ["---"] * len(HEAD)] + [row(a, common, same, schemas, arms[0]) for a in arms]
    chosen = [HEAD.index(name) for name in columns]
    return ["|" + "|".join(cells[i] for i in chosen) + "|" for cells in out]


def row(arm, common, same, schemas, off):
    def total(name, keys=common):
        return sum(arm.best[k][name] for k in keys)

    def share(holds):
        return f"{100 * sum(map(holds, common)) / max(len(common), 1):.1f} %"

    failed = [a for a in arm.best.values() if "text" not in a]
    refused = sum("crash" not in a for a in failed)
    seconds, alike = total("seconds"), total("seconds", same)
    inside = ""
    if all("inside" in arm.best[k] for k in same):
        inside = f"{total('inside', same):.2f} ({total('in_grammar', same):.2f})"
    return [
        arm.name, f"{len(same) / alike:.2f}" if same else "", f"{alike:.2f}", inside, f"{len(common) / seconds:.2f}",
        f"{total('tokens') / seconds:.0f}", f"{sum(len(arm.best[k]['text']) for k in common) / seconds:.0f}",
        f"{total('tokens') / total('forwards'):.2f}", f"{1e3 * total('compile_seconds') / len(common):.2f}",
        str(sum(not arm.best[k]["complete"] for k in common)),
        share(lambda k: arm.best[k]["complete"] and valid(arm.best[k], schemas[k])),
        share(lambda k: arm.best[k]["text"] == off.best[k]["text"]), f"{refused}, {arm.crashes}",
    ]


def ratio(arms):
    """ffwd's fastest arm against llama.cpp's fastest."""
    said = []
    for keys, name in zip(split(arms), ("over all records", "where the texts are the same")):
        seconds = {a.name: sum(a.best[k]["seconds"] for k in keys) for a in arms}
        inside = {a.name: sum(a.best[k].get("inside", float("inf")) for k in keys) for a in arms}
        pick = lambda side: min((n for n in seconds if n.startswith(side)), key=seconds.get)  # noqa: E731
        ours, theirs, least = pick("ffwd"), pick("llama.cpp"), min(inside, key=inside.get)
        said.append(f"{name}, {ours} gave {seconds[theirs] / seconds[ours]:.2f} times the records a second of {theirs}, the "
                    f"fastest row of the other, and {inside[least] / seconds[ours]:.2f} times what {least} would give if only the "
                    f"time inside libllama counted")
    return f"{said[1][0].upper()}{said[1][1:]}; {said[0]}."


def processor():
    try:
        names = re.findall(r"model name\s*:\s*(.+)", open("/proc/cpuinfo", encoding="utf-8").read())
        return names[0].strip() if names else platform.processor()
    except OSError:
        return platform.processor() or platform.machine()


def write(text):
    """Puts the table between its marks in the documentation."""
    file, name = ROOT / TABLE[0], TABLE[1]
    page = file.read_text(encoding="utf-8")
    begin, end = f"<!-- measured: {name} -->\n", f"<!-- end of {name} -->"
    if begin not in page or end not in page:
        sys.exit(f"{TABLE[0]} has no place for the table `{name}`")
    head, rest = page.split(begin, 1)
    file.write_text(head + begin + text + "\n" + end + rest.split(end, 1)[1], encoding="utf-8")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    evaluation = ROOT / "tests/data/eval"
    p.add_argument("texts", nargs="*", type=Path, metavar="FILE.jsonl",
                   default=[evaluation / "synthetic_seen.jsonl", evaluation / "handwritten_dev.jsonl"],
                   help="lines with text and schema (default: the evaluation texts of the repository)")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    p.add_argument("--ffwd", type=Path, default=target / "release/examples/llama_cpp_worker",
                   help="the built example (default: %(default)s)")
    p.add_argument("--ffwd-model", type=Path, help="a model for ffwd instead of the embedded pair")
    p.add_argument("--gguf", type=Path, action="append",
                   help="the same model for llama.cpp; repeat it to try several forms (default: the embedded one's file)")
    p.add_argument("--draft-gguf", type=Path, default=ROOT / "crates/runtime/assets/extract-draft-1m/model-q8_0.gguf",
                   help="a draft model for llama.cpp (default: the embedded one's file)")
    p.add_argument("--no-draft", action="store_true", help="no draft model for llama.cpp")
    p.add_argument("--records", type=int, default=40, help="records of each file, spread over it; 0 is all (default: %(default)s)")
    p.add_argument("--rounds", type=int, default=3, help="times each record runs in each arm (default: %(default)s)")
    p.add_argument("--tune-records", type=int, default=8, help="records that settings are tried on (default: %(default)s)")
    p.add_argument("--tune-rounds", type=int, default=3)
    p.add_argument("--lookup", type=int, nargs="*", default=[2, 5, 10], help="lengths of llama.cpp's look-up drafts")
    p.add_argument("--draft", type=int, nargs="*", default=[2, 4, 8], help="lengths of its draft model's drafts")
    p.add_argument("--max-tokens", type=int, default=512)
    p.add_argument("--n-ctx", type=int, default=2048)
    p.add_argument("--n-batch", type=int, default=512)
    p.add_argument("--n-ubatch", type=int, nargs="+", default=[64, 512], help="tried as the other settings are")
    p.add_argument("--core", type=int, help="the core that both are pinned to (default: the last one)")
    p.add_argument("--write", action="store_true", help=f"put the table into {TABLE[0]}")
    p.add_argument("--json", type=Path, help="where to write all answers")
    args = p.parse_args()
    args.gguf = args.gguf or [ROOT / "crates/runtime/assets/extract-5m/model-q8_0.gguf"]
    if args.no_draft:
        args.draft_gguf = None
    if args.core is None and hasattr(os, "sched_getaffinity"):
        args.core = max(os.sched_getaffinity(0))
    return args


def main():
    args = arguments()
    if not args.ffwd.is_file():
        sys.exit(f"{args.ffwd} is missing: cargo build --release --example llama_cpp_worker")
    model = ["--model", str(args.ffwd_model)] if args.ffwd_model else []
    ffwd = Worker([str(args.ffwd), *model], None, args.core)
    asked, refused, other_tokens = [], 0, 0
    probe = llama_worker(args, args.gguf[0], False, False, args.n_batch)
    for record in records(args.texts, args.records):
        answer = ffwd.ask({"op": "prompt", "schema": record["schema"], "text": record["text"]})
        if "tokens" not in answer:
            refused += 1
            continue
        record["tokens"] = answer["tokens"]
        asked.append(record)
        back = probe.ask({"op": "tokenize", "text": answer["prompt"]})
        other_tokens += back.get("tokens") != answer["tokens"]
    probe.stop()
    if not asked:
        sys.exit("no records")
    best, tried = tune(args, asked[: args.tune_records])
    llama = llama_worker(args, *best)
    arms = make_arms(args, ffwd, llama)
    for turn in range(args.rounds):
        for i, record in enumerate(asked):
            # Another arm begins each time, so that none always follows the same one.
            for arm in arms[(i + turn) % len(arms) :] + arms[: (i + turn) % len(arms)]:
                arm.run(record, args.max_tokens)
            print(f"\rround {turn + 1}/{args.rounds}, record {i + 1}/{len(asked)}", end="", file=sys.stderr)
    print(file=sys.stderr)
    common, same = split(arms)
    import llama_cpp  # only for its version; the workers load their own

    features = re.findall(r"(\w+) = 1", (llama.hello or {}).get("system", ""))
    said = [
        f"{len(asked)} records (in {len(common)} every row gave a text, in {len(same)} the same one; ffwd refused {refused} more schemas), {args.rounds} rounds, "
        f"one thread, {processor()}, load {os.getloadavg()[0]:.0f}. "
        f"llama-cpp-python {llama_cpp.__version__}, built with {', '.join(features) or 'unknown features'}; "
        f"n_batch {args.n_batch}, n_ctx {args.n_ctx}; {setting_name(*best)}. "
        f"llama.cpp's own tokens of the prompt differ for {other_tokens} of {len(asked)}.",
        "",
        *(table(arms, asked) if common else ["no record went through in every row"]),
        "",
        ratio(arms) if common and same else "",
        "",
        f"The fastest of {len(tried)} settings tried without drafts, and the slowest: " + "; ".join(tried[:4] + tried[4:][-1:]) + ".",
    ]
    text = "\n".join(said)
    print(text)
    if args.json:
        args.json.write_text(json.dumps({a.name: a.best for a in arms}, ensure_ascii=False, indent=1))
    if args.write:
        shown = [
            f"{len(common)} records, of which {len(same)} have the same text in every row; settings: {setting_name(*best)}.",
            "",
            *table(arms, asked, SHOWN),
            "",
            ratio(arms),
        ]
        write("\n".join(shown))
    for worker in (ffwd, llama):
        worker.stop()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Measures ffwd on published models, and llama.cpp on the same files, in turns; prints Markdown tables.

    cargo build --release --bin ffwd --example llama_cpp_worker
    python3 benches/real_models/fetch.py FOLDER smollm2-135m qwen2.5-coder-0.5b qwen2.5-coder-1.5b
    python3 -m venv VENV && VENV/bin/pip install llama-cpp-python
    VENV/bin/python benches/real_models/measure.py FOLDER

Every GGUF file in FOLDER is measured with one and with two threads. `--only TEXT` takes the files whose name
contains TEXT, `--threads N` one number of threads; together with `--json FILE`, which keeps the results of each
call, a long run can be cut into short ones. `--tables FILE` prints the tables of what was kept.

Three invoices share one schema. Both sides get the same prompt tokens and the same schema and decode greedily, in
one process each. A round runs every arm once over the three texts, the arms in turns; medians of the rounds count.
Start and memory are those of the program `ffwd`, with the file in the page cache. llama.cpp reads the tokens that
ffwd wrote, one after the other, for its decoding speed; its records are written under its own grammar. Of its
settings (flash attention, repacking) the fastest to decode is used. Without the package only ffwd is measured.
"""
import argparse
import datetime
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "llama_cpp"))
from run import Worker, processor  # noqa: E402  benches/llama_cpp/run.py

SCHEMA = HERE / "texts" / "invoice.schema.json"
# A file that drafts for another one: the beginnings of their names.
DRAFTS = {"Qwen2.5-Coder-1.5B": "Qwen2.5-Coder-0.5B"}
MAX_TOKENS = 160
# Lengths of llama.cpp's drafts.
LOOKUP, DRAFT = 5, 4


def texts():
    return [path.read_text(encoding="utf-8") for path in sorted((HERE / "texts").glob("*.txt"))]


def draft_of(path, folder):
    """The draft model of a file, if the folder has it; of several forms the one as published."""
    for begin, draft in DRAFTS.items():
        if path.name.startswith(begin):
            return next((p for p in sorted(folder.glob(draft + "*.gguf"))), None)
    return None


def program(ffwd, arguments, threads):
    """Seconds, processor seconds and peak megabytes of a run of the program."""
    env = dict(os.environ, CANDLE_NUM_THREADS=str(threads), RAYON_NUM_THREADS=str(threads))
    start = time.perf_counter()
    with open(os.devnull, "wb") as nothing:
        child = subprocess.Popen([str(ffwd), *arguments], env=env, stdout=nothing, stderr=subprocess.PIPE)
        message = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(arguments)}: {message.decode()}")
    return {"seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "mb": usage.ru_maxrss / 1000}


def start_and_memory(args, path, threads):
    """Medians of a start with a short output, and the peak of an extraction."""
    model = ["--model", str(path)]
    starts = [program(args.ffwd, ["generate", "x", "--regex", "a", *model], threads) for _ in range(args.starts + 1)][1:]
    text = sorted((HERE / "texts").glob("*.txt"))[0]
    one = program(args.ffwd, ["extract", str(text), "--schema", str(SCHEMA), *model], threads)
    return {
        "start": statistics.median(s["seconds"] for s in starts),
        "start_cpu": statistics.median(s["cpu"] for s in starts),
        "peak_mb": one["mb"], "file_mb": path.stat().st_size / 1e6,
    }


def must(answer, what):
    if "error" in answer or "crash" in answer:
        sys.exit(f"{what}: {answer}")
    return answer


class Side:
    """The records of one arm: a worker, and what it is told beside the record."""

    def __init__(self, name, worker, message):
        self.name, self.worker, self.message = name, worker, message
        self.rounds = []

    def run(self, records):
        answers = []
        for r in records:
            message = {"op": "run", "schema": r["schema"], "text": r["text"], "prompt": r["tokens"],
                       "max_tokens": MAX_TOKENS, **self.message}
            answers.append(must(self.worker.ask(message), self.name))
        self.rounds.append(answers)

    def summary(self):
        seconds = statistics.median(sum(a["seconds"] for a in round) for round in self.rounds)
        last = self.rounds[-1]
        return {
            "seconds": seconds, "records": len(last), "per_second": len(last) / seconds,
            "tokens": sum(a["tokens"] for a in last), "forwards": sum(a["forwards"] for a in last),
            "complete": sum(a["complete"] for a in last), "texts": [a["text"] for a in last],
        }


def speeds(rounds, records, decoded):
    """Tokens a second from rounds of seconds: (prompt, decoding) of each record."""
    prompt = sum(len(r["tokens"]) for r in records)
    return {
        "prefill": prompt / statistics.median(sum(p for p, _ in round) for round in rounds),
        "decode": decoded / statistics.median(sum(d for _, d in round) for round in rounds),
        "prompt_tokens": prompt, "decoded": decoded,
    }


def llama(path, draft, threads, setting, core):
    options = {"gguf": str(path), "extra_buffers": setting["repacking"], "flash_attn": setting["flash"], "n_ctx": 2048,
               "n_batch": 512, "n_ubatch": 512, "draft_gguf": str(draft) if draft else None, "threads": threads}
    command = [sys.executable, str(HERE.parent / "llama_cpp" / "llama_worker.py")]
    return Worker(command, options, core, threads)


def llama_speed(worker, record):
    answer = must(worker.ask({"op": "speed", "prompt": record["tokens"], "output": record["output"]}), "llama.cpp")
    return answer["prompt_seconds"], answer["target_seconds"]


def best_setting(path, threads, record, core):
    """The setting of llama.cpp that decodes fastest, best of two, with all that was tried."""
    tried = []
    for setting in [{"flash": f, "repacking": r} for f in (True, False) for r in (True, False)]:
        worker = llama(path, None, threads, setting, core)
        seconds = [llama_speed(worker, record) for _ in range(2)]
        worker.stop()
        tried.append({**setting, "prefill": len(record["tokens"]) / min(p for p, _ in seconds),
                      "decode": len(record["output"]) / min(d for _, d in seconds)})
    return max(tried, key=lambda s: s["decode"]), tried


def measure(args, path, threads):
    """All numbers of one file with one number of threads."""
    draft = draft_of(path, args.folder)
    core = max(os.sched_getaffinity(0)) if threads == 1 and hasattr(os, "sched_getaffinity") else None
    result = {"model": path.name, "threads": threads, "processor": processor(), "draft": draft.name if draft else None,
              "date": datetime.date.today().isoformat(), "load": os.getloadavg()[0]}
    result.update(start_and_memory(args, path, threads))
    command = [str(args.worker), "--model", str(path)] + (["--draft-model", str(draft)] if draft else [])
    ffwd = Worker(command, None, core, threads)
    schema = json.dumps(json.loads(SCHEMA.read_text(encoding="utf-8")), separators=(",", ":"))
    records = [{"schema": schema, "text": text} for text in texts()]
    for r in records:
        r["tokens"] = must(ffwd.ask({"op": "prompt", **r}), "the prompt")["tokens"]
    sides = [Side("off", ffwd, {"mode": "off"}), Side("exact", ffwd, {"mode": "exact", "draft_model": False})]
    if draft:
        sides.append(Side("exact with draft model", ffwd, {"mode": "exact"}))
    # Not counted: rates of acceptance are learned, and the text is needed for the other side.
    for side in sides:
        side.run(records)
    for r, answer in zip(records, sides[0].rounds[0]):
        r["output"] = answer["output"]
    for side in sides:
        side.rounds.clear()
    other = None
    if importlib.util.find_spec("llama_cpp") and not args.without_llama_cpp:
        result["setting"], result["settings"] = best_setting(path, threads, records[0], core)
        other = llama(path, draft, threads, result["setting"], core)
        if args.records_of_llama_cpp:
            sides.append(Side("llama.cpp", other, {"kind": "library", "draft_tokens": 0}))
            sides.append(Side("llama.cpp, look-up", other, {"kind": "library", "draft_tokens": LOOKUP}))
            if draft:
                sides.append(Side("llama.cpp, draft model", other, {"kind": "library+model", "draft_tokens": DRAFT, "least": 0.75}))
    theirs = []
    for turn in range(args.rounds):
        # Another side begins each time.
        for side in sides[turn % len(sides):] + sides[: turn % len(sides)]:
            side.run(records)
        if other:
            theirs.append([llama_speed(other, r) for r in records])
        print(f"\r{path.name}, {threads} threads, round {turn + 1} of {args.rounds}", end="", file=sys.stderr)
    print(file=sys.stderr)
    ours = [[(a["prompt_seconds"], a["target_seconds"]) for a in round] for round in sides[0].rounds]
    # The first forward is that of the prompt.
    result["ffwd"] = speeds(ours, records, sum(a["forwards"] - 1 for a in sides[0].rounds[0]))
    if other:
        result["llama.cpp"] = speeds(theirs, records, sum(len(r["output"]) for r in records))
        other.stop()
    ffwd.stop()
    result["sides"] = {side.name: side.summary() for side in sides}
    return result


def table(rows):
    """Markdown of rows, the first of which is the head."""
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def own_table(results):
    out = [["file", "threads", "start, s", "peak memory / file, MB", "prefill, tokens/s", "decode, tokens/s",
            "records/s, `off`", "`exact`", "with draft model", "`exact` / `off`", "tokens a forward", "same text"]]
    for r in results:
        sides, off = r["sides"], r["sides"]["off"]
        ways = [sides[name] for name in ("exact", "exact with draft model") if name in sides]
        best = max(ways, key=lambda s: s["per_second"])
        same = sum(a == b for s in ways for a, b in zip(s["texts"], off["texts"]))
        out.append([
            r["model"], r["threads"], f"{r['start']:.2f}", f"{r['peak_mb']:.0f} / {r['file_mb']:.0f}",
            f"{r['ffwd']['prefill']:.0f}", f"{r['ffwd']['decode']:.1f}", f"{off['per_second']:.2f}",
            f"{ways[0]['per_second']:.2f}", f"{ways[1]['per_second']:.2f}" if len(ways) > 1 else "-",
            f"{best['per_second'] / off['per_second']:.2f}", f"{best['tokens'] / best['forwards']:.1f}",
            f"{same} of {len(ways) * off['records']}",
        ])
    return table(out)


def other_table(results):
    out = [["file", "threads", "prefill: ffwd", "llama.cpp", "ratio", "decode: ffwd", "llama.cpp", "ratio",
            "records/s: ffwd `exact`", "llama.cpp grammar", "with look-up", "with draft model", "ratio to its best",
            "complete, theirs"]]
    for r in results:
        if "llama.cpp" not in r:
            continue
        a, b, sides = r["ffwd"], r["llama.cpp"], r["sides"]
        theirs = [sides[n] for n in ("llama.cpp", "llama.cpp, look-up", "llama.cpp, draft model") if n in sides]
        ours = max(sides[n]["per_second"] for n in ("exact", "exact with draft model") if n in sides)
        cells = [f"{s['per_second']:.2f}" for s in theirs] + ["-"] * (3 - len(theirs))
        best = max((s["per_second"] for s in theirs), default=None)
        out.append([
            r["model"], r["threads"], f"{a['prefill']:.0f}", f"{b['prefill']:.0f}", f"{a['prefill'] / b['prefill']:.2f}",
            f"{a['decode']:.1f}", f"{b['decode']:.1f}", f"{a['decode'] / b['decode']:.2f}", f"{ours:.2f}", *cells,
            f"{ours / best:.2f}" if best else "-",
            f"{theirs[0]['complete']} of {theirs[0]['records']}" if theirs else "-",
        ])
    return table(out) if len(out) > 1 else ""


def print_tables(results):
    results = sorted(results, key=lambda r: (r["model"], r["threads"]))
    machines = sorted({(r["processor"], r["date"]) for r in results})
    print("; ".join(f"{name}, {date}" for name, date in machines) + "\n")
    print(own_table(results) + "\n\n" + other_table(results))
    for r in results:
        if "setting" in r:
            on = lambda flag: "on" if flag else "off"  # noqa: E731
            print(f"\n{r['model']}, {r['threads']} threads: flash attention {on(r['setting']['flash'])}, "
                  f"repacking {on(r['setting']['repacking'])}", end="")
    print()


def kept(path):
    """The last result of each file and number of threads."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {}
    for result in map(json.loads, lines):
        found[result["model"], result["threads"]] = result
    return list(found.values())


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    p.add_argument("folder", nargs="?", type=Path, help="where the GGUF files are")
    p.add_argument("--only", default="", metavar="TEXT", help="only files whose name contains TEXT")
    p.add_argument("--threads", type=int, action="append", metavar="N", help="threads (default: 1 and 2)")
    p.add_argument("--rounds", type=int, default=3, help="rounds of all arms (default: %(default)s)")
    p.add_argument("--starts", type=int, default=3, help="starts of the program (default: %(default)s)")
    p.add_argument("--without-llama-cpp", action="store_true", help="measure only ffwd")
    p.add_argument("--no-records-of-llama-cpp", dest="records_of_llama_cpp", action="store_false",
                   help="only the speeds of llama.cpp, not its records")
    p.add_argument("--ffwd", type=Path, default=target / "ffwd", help="the program (default: %(default)s)")
    p.add_argument("--worker", type=Path, default=target / "examples/llama_cpp_worker",
                   help="the built example (default: %(default)s)")
    p.add_argument("--json", type=Path, metavar="FILE", help="append the results to FILE")
    p.add_argument("--tables", type=Path, metavar="FILE", help="print the tables of the results in FILE and end")
    args = p.parse_args()
    if not args.tables and not args.folder:
        p.error("name a folder")
    return args


def main():
    args = arguments()
    if args.tables:
        return print_tables(kept(args.tables))
    for built in (args.ffwd, args.worker):
        if not built.is_file():
            sys.exit(f"{built} is missing: cargo build --release --bin ffwd --example llama_cpp_worker")
    files = [f for f in sorted(args.folder.glob("*.gguf")) if args.only in f.name]
    if not files:
        sys.exit(f"{args.folder} has no such GGUF file; fetch.py fetches some")
    results = []
    for path in files:
        for threads in args.threads or (1, 2):
            results.append(measure(args, path, threads))
            if args.json:
                with open(args.json, "a", encoding="utf-8") as out:
                    out.write(json.dumps(results[-1]) + "\n")
    print_tables(results)


if __name__ == "__main__":
    main()

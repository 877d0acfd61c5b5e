#!/usr/bin/env python3
"""llama.cpp with its own grammar and with the sampler of bindings/llama.cpp, in turns: Markdown tables.

    cmake -S benches/llama_cpp -B BUILD -DCMAKE_PREFIX_PATH=FFWD -DLLAMA_SOURCE=FOLDER -DLLAMA_LIBRARIES=FOLDER
    cmake --build BUILD
    python3 benches/llama_cpp/sampler.py MODEL.gguf BUILD --maskbench FILE.jsonl.zst

The same file, prompts and schemas, greedy, one thread; a process for each run, because the library may take it
along. Its grammar comes from its own converter. Loading does not count, compiling does, and the prompts do. What a
prompt shares with the one before stays in the cache. Valid is what ended, is JSON, and satisfies the schema.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import agents
import jsonschema

HERE = Path(__file__).resolve().parent
TEXTS = HERE.parent / "real_models/texts"
ASK = "Write the record of this text as JSON.\nSchema: "


def chat(question):
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


class Runner:
    def __init__(self, args):
        self.args = args
        self.folder = tempfile.TemporaryDirectory()

    def file(self, name, text):
        path = Path(self.folder.name, name)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def convert(self, schema):
        """The GBNF of a schema, or the reason why there is none."""
        done = subprocess.run([self.args.build / "convert"], input=json.dumps(schema), capture_output=True, text=True)
        self.dropped = "incomplete" in done.stderr
        return (done.stdout, None) if done.returncode == 0 else (None, reason(done))

    def run(self, way, schema, prompts):
        """Answers, or the reason why there are none."""
        constraint = json.dumps(schema)
        if way == "own":
            constraint, why = self.convert(schema)
            if why:
                return None, why
        files = [self.file(f"prompt{i}", prompt) for i, prompt in enumerate(prompts)]
        command = [*self.args.wrap, self.args.build / "compare", self.args.model, way, self.file("constraint", constraint),
                   str(self.args.max_tokens), str(self.args.context), *files]
        try:
            done = subprocess.run(command, capture_output=True, timeout=self.args.timeout, env=dict(os.environ, OMP_NUM_THREADS="1"))
        except subprocess.TimeoutExpired:
            return None, f"no answer in {self.args.timeout} s"
        if done.returncode != 0:
            return None, reason(done)
        return list(answers(done.stdout)), None


def reason(done):
    said = done.stderr if isinstance(done.stderr, str) else done.stderr.decode("utf-8", "replace")
    lines = [line for line in said.splitlines() if line.strip()]
    told = [line for line in lines if "error" in line or "failed" in line] or lines
    return (told[0] if told else f"status {done.returncode}")[:160]


def answers(out):
    while out:
        line, out = out.split(b"\n", 1)
        fields = line.split()
        size = int(fields[6])
        yield {"prompt": int(fields[0]), "tokens": int(fields[1]), "decodes": int(fields[2]), "ended": fields[3] == b"1",
               "compile": float(fields[4]), "seconds": float(fields[5]), "text": out[:size].decode("utf-8", "replace")}
        out = out[size + 1 :]


def valid(answer, schema):
    try:
        return answer["ended"] and jsonschema.Draft202012Validator(schema).is_valid(json.loads(answer["text"]))
    except ValueError:
        return False


def best_of(runner, way, schema, prompts, rounds, kept):
    """Keeps the round with the least time."""
    found, why = runner.run(way, schema, prompts)
    if found:
        seconds = found[0]["compile"] + sum(a["seconds"] for a in found)
        if way not in kept or kept[way][1] is None or seconds < kept[way][1]:
            kept[way] = (found, seconds, None)
    elif way not in kept:
        kept[way] = (None, None, why)


def measure(runner, cases, ways, rounds):
    """`{case: {way: (answers, seconds, reason)}}`, all ways in turns."""
    out = {name: {} for name in cases}
    for turn in range(rounds):
        for name, (schema, prompts) in cases.items():
            for way in ways:
                best_of(runner, way, schema, prompts, rounds, out[name])
            print(f"round {turn + 1}: {name}", file=sys.stderr)
    return out


def total_row(way, found, cases, first):
    """A row over all cases that every way answered."""
    common = [name for name in cases if all(kept[0] for kept in found[name].values())]
    every = [(a, cases[name][0]) for name in common for a in found[name][way][0]]
    seconds = sum(found[name][way][1] for name in common)
    compiled = sum(found[name][way][0][0]["compile"] for name in common)
    text = sum(a["tokens"] for a, _ in every)
    return (f"|{way}|{len(every)}|{seconds:.2f}|{seconds / first:.2f}|{text}|{sum(a['decodes'] for a, _ in every)}|{1e3 * compiled:.0f}|"
            f"{sum(a['ended'] for a, _ in every)}|{sum(valid(a, s) for a, s in every)}|"), seconds


def totals(found, cases, ways):
    out = ["|way|answers|seconds|ratio|tokens|forwards|compiling, ms|ended|valid|", "|---|---|---|---|---|---|---|---|---|"]
    first = total_row(ways[0], found, cases, 1.0)[1] or 1.0
    return out + [total_row(way, found, cases, first)[0] for way in ways]


def each(runner, found, cases, ways):
    """A row for each case. A schema of which the converter dropped a part is marked."""
    out = ["|tools|" + "|".join(f"{way}: s|tokens|valid" for way in ways) + "|", "|---" * (1 + 3 * len(ways)) + "|"]
    for name, (schema, _) in cases.items():
        cells = []
        runner.convert(schema)
        for way in ways:
            found_answers, seconds, why = found[name][way]
            if found_answers:
                a = found_answers[0]
                cells += [f"{seconds:.2f}", str(a["tokens"]), "yes" if valid(a, schema) else "no: `" + a["text"][:60].replace("|", "/") + "`"]
                cells[-1] += " (patterns dropped)" if way == "own" and runner.dropped else ""
            else:
                cells += ["-", "-", why.replace("|", "/")]
        out.append(f"|{name}|" + "|".join(cells) + "|")
    return out


def invoices(texts):
    schema = json.loads(next(texts.glob("*.schema.json")).read_text())
    prompts = [chat(f"{ASK}{json.dumps(schema)}\n\n{path.read_text()}") for path in sorted(texts.glob("*.txt"))]
    return {"invoices": (schema, prompts)}


def facts(value, path=""):
    """The leaves of a value as lines."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value, 1)
        return "".join(facts(v, f"{path} {k}".strip()) for k, v in items)
    return f"{path}: {value if isinstance(value, str) else json.dumps(value)}\n"


def maskbench(runner, path, count):
    """Schemas in the order of the file that llama.cpp converts and parses, one with a valid instance and not too long."""
    import zstandard

    out = {}
    with zstandard.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            entry = json.loads(line)
            instance = next((t["data"] for t in entry["tests"] if t["valid"]), None)
            if not isinstance(instance, dict) or len(json.dumps(entry["schema"])) > 1500 or not 40 < len(json.dumps(instance)) < 400:
                continue
            schema = entry["schema"]
            prompt = chat(f"{ASK}{json.dumps(schema)}\n\n{facts(instance)}")
            gbnf, why = runner.convert(schema)
            collection = entry["id"].split("---" if "---" in entry["id"] else "_")[0]
            # Few of each collection.
            if why is None and sum(name.startswith(collection) for name in out) < 3:
                out[entry["id"]] = (schema, [prompt])
            if len(out) == count:
                return out
    return out


def tools():
    out = {}
    for name, (declared, request) in agents.CASES.items():
        names = ", ".join(f"{t['name']} ({t['description']})" for t in declared[:60])
        shown = json.dumps(declared) if len(declared) < 5 else names
        ask = f'Tools: {shown}\n\nAnswer with a call as JSON: {{"name": ..., "arguments": {{...}}}}\n\n{request}'
        out[name] = (agents.call_schema(declared), [chat(ask)])
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", type=Path)
    p.add_argument("build", type=Path)
    p.add_argument("--texts", type=Path, default=TEXTS, help="texts of the first part, with a *.schema.json")
    p.add_argument("--maskbench", type=Path, help="schemas with instances; without it that part is left out")
    p.add_argument("--schemas", type=int, default=20)
    p.add_argument("--parts", nargs="*", default=["invoices", "maskbench", "tools"])
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--max-tokens", type=int, default=200)
    p.add_argument("--context", type=int, default=3072)
    p.add_argument("--timeout", type=float, default=120)
    p.add_argument("--wrap", nargs="*", default=[], help="a command in front of each run")
    args = p.parse_args()
    runner = Runner(args)
    if "invoices" in args.parts:
        ways, cases = ["own", "masks", "forced", "exact"], invoices(args.texts)
        print("\n".join(totals(measure(runner, cases, ways, args.rounds), cases, ways)), flush=True)
    if "maskbench" in args.parts and args.maskbench:
        ways, cases = ["own", "exact"], maskbench(runner, args.maskbench, args.schemas)
        found = measure(runner, cases, ways, args.rounds)
        print("\n" + "\n".join(totals(found, cases, ways) + [""] + each(runner, found, cases, ways)), flush=True)
    if "tools" in args.parts:
        ways, cases = ["own", "exact"], tools()
        print("\n" + "\n".join(each(runner, measure(runner, cases, ways, 1), cases, ways)), flush=True)


if __name__ == "__main__":
    main()

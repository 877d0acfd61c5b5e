#!/usr/bin/env python3
"""Right answers on the Berkeley function-calling data: one model, several decoders, the same questions.

    cargo build --release --features full
    python3 -m venv VENV && VENV/bin/pip install --no-deps bfcl-eval && VENV/bin/pip install tree_sitter \\
        tree_sitter_java tree_sitter_javascript
    VENV/bin/python benches/quality/bfcl.py run --model FILE.gguf --record 05b.jsonl
    VENV/bin/python benches/quality/bfcl.py table --record 05b.jsonl

`run` starts `ffwd serve` on the model and asks one question at a time, greedily. Each answer is a line of the
record at once, so a run that is stopped goes on where it was. It says how long it will take. Questions are
chosen by a hash of their identifiers, which also splits them: nothing is tuned on the half `report`.

| arm | decoding |
| --- | --- |
| `free` | the same prompt without a constraint; calls are read leniently: tags, fences, bare objects, Python |
| `auto`, `required` | `tool_choice` of the server |
| `think` | `auto`, with an instruction to think in words before the call |
| `llama` | `auto` of llama.cpp's server on the same file, which must run at `--llama URL` |

Right is what the checker of `bfcl-eval` calls right; for `irrelevance`, no call; for `live_relevance`, a call.
"""
import argparse
import ast
import hashlib
import json
import re
import signal
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CATEGORIES = [
    "simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple",
    "live_parallel", "live_parallel_multiple", "irrelevance", "live_irrelevance", "live_relevance",
]
ARMS = ["auto", "free", "required", "think", "llama"]
"""`auto` runs first, on a cold prompt; what follows on the same server finds the prompt in its cache."""
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string", "list": "array", "bool": "boolean"}
THINK = ("Before a call, say in one or two sentences which function fits, and which value each argument gets. "
         "Then write the call.")
MAX_TOKENS = 512


def questions(category):
    """Yields the questions of a category with their truth, as far as there is one."""
    import bfcl_eval

    data = Path(bfcl_eval.__file__).parent / "data"
    lines = lambda path: [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    truths = data / "possible_answer" / f"BFCL_v4_{category}.json"
    truth = {row["id"]: row["ground_truth"] for row in lines(truths)} if truths.exists() else {}
    for row in lines(data / f"BFCL_v4_{category}.json"):
        yield {"id": row["id"], "category": category, "messages": row["question"][0],
               "functions": row["function"], "truth": truth.get(row["id"])}


def place(identifier):
    """Returns the place of a question in the order of the sample, and its half."""
    number = int.from_bytes(hashlib.sha256(identifier.encode()).digest()[:8], "big")
    return number >> 1, ("tune", "report")[number & 1]


def sample(categories, half, most):
    for category in categories:
        own = [q for q in questions(category) if half in ("both", place(q["id"])[1])]
        yield from sorted(own, key=lambda q: place(q["id"]))[: most or None]


def json_schema(node):
    """Converts the data's names of types into those of JSON Schema."""
    if isinstance(node, list):
        return [json_schema(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {name: json_schema(value) for name, value in node.items()}
    if isinstance(node.get("type"), str):
        out["type"] = TYPES.get(node["type"], node["type"])
    return out


def tools(question):
    return [{"type": "function", "function": {"name": f["name"], "description": f["description"],
                                              "parameters": json_schema(f["parameters"])}}
            for f in question["functions"]]


def lenient(text, names):
    """Reads calls as a patient person would: JSON objects with a name and arguments wherever they stand, or
    calls in Python. Returns them, and whether the text looks like a call that cannot be read."""
    found, at, decoder = [], 0, json.JSONDecoder(strict=False)

    def add(value):
        if isinstance(value, list):
            return [add(item) for item in value].count(True) > 0
        if not isinstance(value, dict):
            return False
        own = value.get("function") if isinstance(value.get("function"), dict) else value
        arguments = next((own[k] for k in ("arguments", "parameters", "input") if k in own), None)
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                pass
        if isinstance(own.get("name"), str) and isinstance(arguments, dict):
            found.append({own["name"]: arguments})
            return True
        return False

    while (match := re.compile(r"[\[{]").search(text, at)) is not None:
        try:
            value, end = decoder.raw_decode(text, match.start())
        except ValueError:
            value, end = None, match.start() + 1
        at = end if add(value) else match.start() + 1
    if not found:
        for line in text.splitlines():
            try:
                tree = ast.parse(line.strip().strip("`"), mode="eval").body
            except (SyntaxError, ValueError, MemoryError, RecursionError):
                continue
            for node in tree.elts if isinstance(tree, ast.List) else [tree]:
                if isinstance(node, ast.Call) and ast.unparse(node.func) in names and not node.args:
                    try:
                        found.append({ast.unparse(node.func): {k.arg: ast.literal_eval(k.value) for k in node.keywords}})
                    except ValueError:
                        pass
    return found, not found and ("<tool_call>" in text or '"arguments"' in text)


def checker():
    """Returns the leaderboard's check of calls. Its table of services is not needed, nor are their packages."""
    stub = types.ModuleType("bfcl_eval.constants.model_config")
    stub.MODEL_CONFIG_MAPPING = {"local": types.SimpleNamespace(underscore_to_dot=False)}
    sys.modules[stub.__name__] = stub
    from bfcl_eval.constants.enums import Language
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    def check(question, calls):
        category = question["category"]
        if question["truth"] is None:
            return (bool(calls) == (category == "live_relevance")), ""
        if not calls:
            return False, "no call"
        try:
            verdict = ast_checker(question["functions"], calls, question["truth"], Language.PYTHON, category, "local")
        except Exception as error:  # the checker trips over some answers, which are wrong
            return False, f"checker: {error!r}"[:300]
        return verdict["valid"], str(verdict.get("error", ""))[:300]

    return check


def post(url, body, timeout=900):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        return {"error": error.read().decode(errors="replace")[:500]}


def ask(server, arm, question, names, extra):
    """Returns the line of one answer."""
    messages = question["messages"]
    if arm == "think":
        messages = [{"role": "system", "content": THINK}, *messages]
    chat = {"messages": messages, "tools": tools(question)}
    start = time.monotonic()
    if arm == "free":
        tokens = post(f"{server}/tokenize", chat)
        answer = post(f"{server}/v1/completions", {"prompt": tokens["tokens"], "max_tokens": MAX_TOKENS, "temperature": 0}) \
            if "tokens" in tokens else tokens
    else:
        choice = "required" if arm == "required" else "auto"
        answer = post(f"{server}/v1/chat/completions",
                      {**chat, "tool_choice": choice, "max_tokens": MAX_TOKENS, "temperature": 0, **extra})
    line = {"seconds": round(time.monotonic() - start, 3)}
    if "error" in answer:
        return {**line, "refused": answer["error"], "calls": []}
    choice = answer["choices"][0]
    line["tokens"] = answer["usage"]["completion_tokens"]
    line["forwards"] = answer.get("ffwd", {}).get("forwards", line["tokens"])
    if arm == "free":
        line["calls"], line["unparsed"] = lenient(choice["text"], names)
        return {**line, "text": choice["text"]}
    line["calls"], line["unparsed"] = [], False
    for call in choice["message"].get("tool_calls") or []:
        try:
            line["calls"].append({call["function"]["name"]: json.loads(call["function"]["arguments"])})
        except ValueError:
            line["unparsed"] = True
    line["text"] = choice["message"].get("content") or ""
    line["unchecked"] = any("not constrained" in text for text in answer.get("ffwd", {}).get("warnings", []))
    return line


def start_server(options):
    command = [options.ffwd, "serve", "--model", options.model, "--port", str(options.port), "--batch", "1",
               "--threads", str(options.threads)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{options.port}"
    for _ in range(600):
        time.sleep(0.2)
        if child.poll() is not None:
            sys.exit(f"{' '.join(command)} ended: does the port belong to another program?")
        try:
            urllib.request.urlopen(f"{url}/health", timeout=5).read()
            return child, url
        except OSError:
            pass
    sys.exit("the server does not answer")


def read_record(path):
    path = Path(path)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(options):
    check = checker()
    record = {(row["id"], row["arm"]): row for row in read_record(options.record)}
    chosen = list(sample(options.categories, options.half, options.most))
    open_tasks = [(q, arm) for q in chosen for arm in ARMS if arm in options.arms and (q["id"], arm) not in record]
    print(f"{len(chosen)} questions, {len(open_tasks)} answers to go", file=sys.stderr)
    child, server = start_server(options)
    start = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with open(options.record, "a") as out:
            for done, (question, arm) in enumerate(open_tasks, 1):
                names = [f["name"] for f in question["functions"]]
                url = options.llama if arm == "llama" else server
                line = ask(url, arm, question, names, options.extra)
                right, why = check(question, line["calls"])
                head = {"id": question["id"], "category": question["category"], "half": place(question["id"])[1],
                        "arm": arm, "right": right, "why": why}
                print(json.dumps({**head, **line}, ensure_ascii=False), file=out, flush=True)
                left = (time.monotonic() - start) / done * (len(open_tasks) - done) / 3600
                print(f"\r{done}/{len(open_tasks)}  {left:.1f} h left ", end="", file=sys.stderr, flush=True)
    finally:
        child.terminate()
        child.wait()
    print(file=sys.stderr)


def table(options):
    """Prints right answers by category and arm, the pairs that differ between `free` and `auto`, and the costs."""
    rows = [r for r in read_record(options.record) if options.half in ("both", r["half"])]
    by = {}
    for row in rows:
        by.setdefault(row["category"], {}).setdefault(row["arm"], {})[row["id"]] = row
    # Only what all arms have answered can be compared.
    for own in by.values():
        common = set.intersection(*(set(answers) for answers in own.values()))
        own.update({arm: {i: answers[i] for i in common} for arm, answers in own.items()})
    arms = [arm for arm in ("free", "auto", "required", "think", "llama") if any(arm in c for c in by.values())]
    print("|right|" + "|".join(arms) + "|auto loses|auto wins|\n|---" + "|---" * (len(arms) + 2) + "|")
    for category in [c for c in CATEGORIES if c in by]:
        own = by[category]
        cells = [f"{sum(r['right'] for r in own[arm].values())} of {len(own[arm])}" if arm in own else "" for arm in arms]
        print(f"|{category}|" + "|".join([*cells, *map(str, pairs(own.get("free", {}), own.get("auto", {})))]) + "|")
    print("\n|of all answers|" + "|".join(arms) + "|\n|---" + "|---" * len(arms) + "|")
    flat = {arm: [r for own in by.values() for r in own.get(arm, {}).values()] for arm in arms}
    mean = lambda rows, name: sum(r.get(name, 0) for r in rows) / max(1, len(rows))
    for name, of in [("called", lambda r: mean([{"x": bool(c["calls"])} for c in r], "x")),
                     ("unparsed", lambda r: mean(r, "unparsed")), ("refused", lambda r: sum("refused" in c for c in r)),
                     ("tokens", lambda r: mean(r, "tokens")), ("forwards", lambda r: mean(r, "forwards")),
                     ("seconds", lambda r: mean(r, "seconds"))]:
        print(f"|{name}|" + "|".join(f"{of(flat[arm]):.3g}" for arm in arms) + "|")
    if options.losses:
        for own in by.values():
            for identifier, free in own.get("free", {}).items():
                auto = own.get("auto", {}).get(identifier)
                if auto and free["right"] and not auto["right"]:
                    print(f"\n{identifier}: {auto['why']}\n  free: {free['text']!r}\n  auto: {auto['calls']} {auto['text']!r}")


def pairs(free, auto):
    both = [(free[i]["right"], auto[i]["right"]) for i in free if i in auto]
    return both.count((True, False)), both.count((False, True))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("--record", required=True, help="file of answers, one JSON object a line")
    parser.add_argument("--half", choices=["tune", "report", "both"], default="report")
    parser.add_argument("--categories", nargs="+", choices=CATEGORIES, default=CATEGORIES, metavar="CATEGORY")
    parser.add_argument("--most", type=int, default=60, help="questions of a category; 0 takes all")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["auto", "free", "required", "think"])
    parser.add_argument("--model", help="a model as `ffwd serve --model` takes it")
    parser.add_argument("--ffwd", default=str(ROOT / "target/release/ffwd"))
    parser.add_argument("--llama", default="http://127.0.0.1:8090", help="address of llama.cpp's server")
    parser.add_argument("--extra", type=json.loads, default={}, help="more fields of the request, as JSON")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--port", type=int, default=8087)
    parser.add_argument("--losses", action="store_true", help="list what is right in `free` and wrong in `auto`")
    options = parser.parse_args()
    if options.command == "run" and not options.model:
        parser.error("`run` needs --model")
    {"run": run, "table": table}[options.command](options)


if __name__ == "__main__":
    main()

"""Many requests at a server of vLLM with the backend ffwd, a tenth of them hostile.

    python bench/vllm_load.py http://127.0.0.1:8000/v1/ --model small --count 1000 --pid PID

Every sound answer is checked: status, form, and end. Every hostile one must be refused with status
400, or come to its limit of tokens. The memory of the server's processes is read as it runs.
"""

import argparse
import collections
import json
import random
import re
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vllm_workloads import OTHERS, SCHEMA_HEAVY, closed, invoice

TOOL = {
    "type": "function",
    "function": {
        "name": "file_invoice",
        "strict": True,
        "parameters": closed(number={"type": "integer", "maximum": 99}, paid={"type": "boolean"}),
    },
}


def schema_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}


def has_members(schema):
    def check(text):
        return list(json.loads(text)) == schema["required"]

    return check


def sound(rng):
    """Return the name, the fields and the check of a sound request."""
    pattern = rng.choice([r"[0-9]{3}", r"[A-Z]{2}-[0-9]{2}", r"(north|south)(east|west)?"])
    words = rng.sample(["red", "green", "blue", "dark grey", "white"], 3)
    schema = rng.choice([SCHEMA_HEAVY, *OTHERS])
    fresh = closed(**{f"field_{rng.randrange(10**6)}": {"enum": ["a", "b"]} for _ in range(3)})
    calls = {"tools": [TOOL], "response_format": schema_format(schema)}
    return rng.choice(
        [
            ("schema", {"response_format": schema_format(schema)}, has_members(schema)),
            ("new schema", {"response_format": schema_format(fresh)}, has_members(fresh)),
            (
                "regex",
                {"structured_outputs": {"regex": pattern}},
                lambda text: re.fullmatch(pattern, text) is not None,
            ),
            ("choice", {"structured_outputs": {"choice": words}}, lambda text: text in words),
            (
                "grammar",
                {"structured_outputs": {"grammar": 'root ::= ("a" | "b") "!"'}},
                lambda text: text in ("a!", "b!"),
            ),
            ("several", {"structured_outputs": {"choice": words}, "n": 3, "temperature": 1}, lambda text: text in words),
            ("tool", {"tools": [TOOL], "tool_choice": "required"}, None),
            ("tools and format", {**calls, "temperature": 1}, has_members(schema)),
            # Its client leaves.
            ("leaves", {"response_format": schema_format(schema), "wait": rng.uniform(0.01, 0.4)}, None),
            ("free", {"max_tokens": 12}, lambda text: bool(text)),
        ]
    )


def hostile(rng):
    """Return the name and the fields of a hostile request."""
    deep = {"type": "object"}
    for _ in range(rng.choice([50, 400])):
        deep = {"type": "object", "properties": {"a": deep}, "required": ["a"]}
    huge = {"enum": [f"{rng.random()}" for _ in range(rng.choice([3_000, 30_000]))]}
    return rng.choice(
        [
            ("wrong type", {"response_format": schema_format({"type": "strin"})}),
            ("deep", {"response_format": schema_format(deep)}),
            ("huge enum", {"response_format": schema_format(huge)}),
            ("recursion", {"response_format": schema_format({"$ref": "#"})}),
            ("open group", {"structured_outputs": {"regex": "(" * rng.randrange(1, 9000)}}),
            ("blow-up", {"structured_outputs": {"regex": "(((a{1,99}){1,99}){1,99}){1,99}b"}}),
            ("backtracking", {"structured_outputs": {"regex": "((a+)+)+b[0-9]{1,3}"}}),
            ("no base", {"structured_outputs": {"grammar": "start: start"}}),
            ("not utf", {"structured_outputs": {"regex": "\ud800"}}),
            ("no members", {"structured_outputs": {}}),
            ("endless", {"structured_outputs": {"regex": "(ab)*c{5000}"}}),
            ("bad tag", {"response_format": {"type": "structural_tag", "format": {"type": "x"}}}),
        ]
    )


def post(url, model, fields):
    wait = fields.pop("wait", 240)
    body = {"model": model, "temperature": 0, "max_tokens": 96, **fields}
    request = urllib.request.Request(
        url + "chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=wait) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")
    except OSError as error:
        return 0, {"error": str(error)}


def verdict(name, check, status, body):
    """None for a sound answer as it should be, otherwise what is wrong."""
    if name == "leaves" and status in (0, 200):
        return None
    if status != 200:
        return f"{name}: status {status}: {json.dumps(body)[:200]}"
    if name == "several" and len(body["choices"]) != 3:
        return f"{name}: {len(body['choices'])} answers"
    return next(filter(None, (wrong(name, check, choice) for choice in body["choices"])), None)


def wrong(name, check, choice):
    """None for a choice as it should be, otherwise what is wrong."""
    calls = choice["message"].get("tool_calls") or []
    if choice["finish_reason"] == "length" and name in ("schema", "free", "tool", "tools and format"):
        return None
    if check is None or calls:
        bad = [c for c in calls if set(json.loads(c["function"]["arguments"])) != {"number", "paid"}]
        return f"{name}: {json.dumps(choice)[:200]}" if bad or not calls else None
    text = choice["message"]["content"]
    try:
        return None if check(text) else f"{name}: {text[:120]!r} {choice['finish_reason']}"
    except (ValueError, TypeError) as error:
        return f"{name}: {error} in {text!r:.120} ({choice['finish_reason']})"


def memory(pid):
    """Resident megabytes of a process and its children."""
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            status = Path(f"/proc/{one}/status").read_text()
            total += int(re.search(r"VmRSS:\s+(\d+)", status)[1])
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, TypeError):
            continue
    return total / 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--model", default="small")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pid", type=int)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    jobs = []
    for i in range(arguments.count):
        prompt = {"messages": [{"role": "user", "content": f"Answer in the form.\n{invoice(rng)}"}]}
        name, fields, *check = hostile(rng) if i % 10 == 3 else sound(rng)
        jobs.append((name, {**prompt, **fields}, check))
    faults, statuses, done = [], collections.Counter(), 0
    lock = threading.Lock()
    began = time.time()

    def work(one):
        nonlocal done
        name, fields, check = one
        status, body = post(arguments.url, arguments.model, fields)
        fault = None
        if check:
            fault = verdict(name, check[0], status, body)
        elif status not in (200, 400):
            fault = f"hostile {name}: status {status}: {json.dumps(body)[:200]}"
        with lock:
            done += 1
            statuses["sound" if check else f"hostile {name}", status] += 1
            if fault:
                faults.append(fault)
            if arguments.pid and done % 100 == 0:
                print(f"{done} answers, {memory(arguments.pid):.0f} MB, {time.time() - began:.0f} s")

    with ThreadPoolExecutor(arguments.at_once) as pool:
        list(pool.map(work, jobs))
    for (name, status), number in sorted(statuses.items()):
        print(f"{name}: {number} with status {status}")
    print(f"{len(faults)} faults")
    for fault in faults[:20]:
        print(" ", fault)


if __name__ == "__main__":
    main()

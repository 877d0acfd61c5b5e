#!/usr/bin/env python3
"""Throughput of a server that runs already, with one client and with several, each with a schema.

    ffwd serve --model path/to/model.gguf &
    benches/serve/clients.py http://127.0.0.1:8080/v1

Requests are those of tests/data/eval/handwritten_dev.jsonl: a text with its schema. Rounds with one
client and with several alternate, and each has texts of its own, so that no round profits from the
prompts of another. Any server that knows `response_format` can be measured. Needs Python only.
"""

import argparse
import http.client
import json
import threading
import time
import urllib.parse
from pathlib import Path

TEXTS = Path(__file__).parents[2] / "tests/data/eval/handwritten_dev.jsonl"


def ask(url, model, case, max_tokens):
    """Returns output tokens and prompt tokens of one answer."""
    schema = json.dumps(case["schema"])
    body = {
        "messages": [
            {"role": "user", "content": f"Extract the data as JSON.\nSchema: {schema}\nText: {case['text']}"}
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "record", "schema": case["schema"]}},
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    if model:
        body["model"] = model
    connection = http.client.HTTPConnection(url.netloc, timeout=600)
    connection.request("POST", f"{url.path}/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    if response.status != 200:
        raise SystemExit(f"{response.status}: {answer}")
    return answer["usage"]["completion_tokens"], answer["usage"]["prompt_tokens"]


def run(url, model, cases, clients, max_tokens):
    """Returns output tokens, prompt tokens and seconds."""
    left, lock, counts = list(cases), threading.Lock(), []

    def client():
        while True:
            with lock:
                if not left:
                    return
                case = left.pop(0)
            count = ask(url, model, case, max_tokens)
            with lock:
                counts.append(count)

    start = time.monotonic()
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - start
    assert len(counts) == len(cases), "an answer is lost"
    return sum(c[0] for c in counts), sum(c[1] for c in counts), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="base URL, such as http://127.0.0.1:8080/v1")
    parser.add_argument("--model", help="name of the model (default: the first one)")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--texts", type=int, default=8, help="texts of a round (default: 8)")
    parser.add_argument("--max-tokens", type=int, default=96)
    args = parser.parse_args()
    url = urllib.parse.urlsplit(args.url)
    cases = [json.loads(line) for line in TEXTS.read_text().splitlines()]
    ask(url, args.model, cases[-1], 4)
    totals = {1: [0, 0, 0.0], args.clients: [0, 0, 0.0]}
    at = 0
    for _ in range(args.rounds):
        for clients, total in totals.items():
            # Another round has other texts.
            part = [cases[(at + i) % (len(cases) - 1)] for i in range(args.texts)]
            at += args.texts
            for i, value in enumerate(run(url, args.model, part, clients, args.max_tokens)):
                total[i] += value
    rates = []
    for clients, (output, prompt, seconds) in totals.items():
        rates.append(output / seconds)
        print(f"{clients:3} clients: {output} tokens, {prompt} of prompts, {seconds:.1f} s, {rates[-1]:.1f} tokens/s")
    print(f"ratio {rates[1] / rates[0]:.2f}")


if __name__ == "__main__":
    main()

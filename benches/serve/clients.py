#!/usr/bin/env python3
"""Throughput of servers that run already, with one client and with several, each with a schema.

    ffwd serve --model path/to/model.gguf &
    benches/serve/clients.py http://127.0.0.1:8080/v1

Requests are those of tests/data/eval/handwritten_dev.jsonl: a text with its schema. Rounds with one
client and with several alternate, and both get the same texts in the end, so start the servers
without a cache of prompts (`ffwd serve --prefix-mib 0`). With `--warm`, each prompt is sent twice
before it is measured, so that a server with such a cache decodes only. With several addresses, the
servers take turns, and the ratios are those of the first to each other one. Any server that knows
`response_format` can be measured. Needs Python only.
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


def measure(url, args, cases, clients, total):
    """Adds the tokens, seconds and answers of a round to `total`."""
    if args.warm:
        for case in cases * 2:
            ask(url, args.model, case, 1)
    for i, value in enumerate(run(url, args.model, cases, clients, args.max_tokens)):
        total[i] += value
    total[3] += len(cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("urls", nargs="+", metavar="URL", help="base URL, such as http://127.0.0.1:8080/v1")
    parser.add_argument("--model", help="name of the model (default: the first one)")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--texts", type=int, default=8, help="texts of a round (default: 8)")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--warm", action="store_true", help="measure decoding alone")
    args = parser.parse_args()
    urls = [urllib.parse.urlsplit(url) for url in args.urls]
    cases = [json.loads(line) for line in TEXTS.read_text().splitlines()]
    for url in urls:
        ask(url, args.model, cases[-1], 4)
    totals = {(url, clients): [0, 0, 0.0, 0] for clients in (1, args.clients) for url in urls}
    for i in range(args.rounds):
        # Two parts of the texts, exchanged in each second round: both numbers of clients get all texts.
        at = i // 2 * 2 * args.texts
        parts = [[cases[(at + j + k) % len(cases)] for k in range(args.texts)] for j in (0, args.texts)]
        for clients, part in zip((1, args.clients), parts[:: -1 if i % 2 else 1], strict=True):
            for url in urls:
                measure(url, args, part, clients, totals[url, clients])
    rates = {}
    print("| server | clients | answers/s | tokens/s | tokens | of prompts |\n| --- | --- | --- | --- | --- | --- |")
    for (url, clients), (output, prompt, seconds, answers) in totals.items():
        rates[url, clients] = (answers / seconds, output / seconds)
        speeds = " | ".join(f"{rate:.2f}" for rate in rates[url, clients])
        print(f"| {url.netloc} | {clients} | {speeds} | {output} | {prompt} |")

    def ratio(name, one, other):
        answers, tokens = (a / b for a, b in zip(rates[one], rates[other], strict=True))
        print(f"{name}: answers {answers:.2f}, tokens {tokens:.2f}")

    for url in urls:
        ratio(f"{url.netloc}, {args.clients} clients to one", (url, args.clients), (url, 1))
    for other in urls[1:]:
        for clients in (1, args.clients):
            ratio(f"{urls[0].netloc} to {other.netloc}, {clients} clients", (urls[0], clients), (other, clients))


if __name__ == "__main__":
    main()

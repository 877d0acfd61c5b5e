#!/usr/bin/env python3
"""Checks and measures one card: candle and transformers, free, masked and exact, on the same requests.

    crates/runtime/build-cuda
    python3 -m venv VENV && VENV/bin/pip install 'ffwd-llm[hf]' accelerate gguf xgrammar
    VENV/bin/pip install --no-deps bfcl-eval
    VENV/bin/python benches/card.py MODEL... [--transformers FOLDER_OR_GGUF] [--device cuda]

Each MODEL is a GGUF file or a folder that `ffwd serve` takes: the same weights as stored and in bf16, say. The
program loads CUDA's libraries by name: if PyTorch's packages have them, name their folders in LD_LIBRARY_PATH.
`--device cpu` runs everything on the processor, to try the script.

1. Correctness of candle: the masked texts on the device beside those on the processor, and `exact` beside `off`.
2. The table: tokens a second and forwards of free, masked and exact decoding at several numbers of rows, greedily,
   the reading of prompts included. Rows of candle are requests at the same time, rows of transformers are a batch.
3. The overhead of masks in transformers, by python/bench/hf_overhead.py.

Requests are BFCL's `live_multiple` (a call of one of the functions, as JSON) and three invoices. All systems get the
same prompt tokens and the same schema. Free decoding writes at most as many tokens as masked decoding wrote.
Texts that differ are listed with the place of the first difference: near ties, if logits there are nearly equal.
"""
import argparse
import concurrent.futures
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "quality"))
import bfcl  # noqa: E402  benches/quality/bfcl.py

MODES = ["free", "masked", "exact"]
TEXTS = HERE / "real_models" / "texts"


def requests(server, questions, invoices, max_tokens):
    """The requests: a name, the tokens of the prompt, and a schema."""
    chats = []
    # Of the sample, none means all.
    for question in bfcl.sample(["live_multiple"], "both", questions) if questions else []:
        functions = bfcl.tools(question)
        calls = [{"type": "object", "properties": {"name": {"const": f["function"]["name"]},
                                                   "arguments": f["function"]["parameters"]},
                  "required": ["name", "arguments"], "additionalProperties": False} for f in functions]
        listed = "\n".join(json.dumps(f["function"]) for f in functions)
        task = f"Functions:\n{listed}\n\nWrite the call that answers, as JSON with `name` and `arguments`."
        messages = [{"role": "system", "content": task}, *question["messages"]]
        chats.append((question["id"], messages, {"anyOf": [with_limits(call) for call in calls]}))
    schema = json.loads((TEXTS / "invoice.schema.json").read_text())
    for path in sorted(TEXTS.glob("*.txt"))[:invoices]:
        task = f"Extract the record as JSON of this schema: {json.dumps(schema)}\n\n{path.read_text()}"
        chats.append((path.stem, [{"role": "user", "content": task}], schema))
    for name, messages, schema in chats:
        prompt = server.post("/tokenize", {"messages": messages})["tokens"]
        yield {"name": name, "prompt": prompt, "schema": schema, "max_tokens": max_tokens}


def with_limits(node):
    """The schema with ends to its strings and lists, so that no answer runs to the limit."""
    if isinstance(node, list):
        return [with_limits(part) for part in node]
    if not isinstance(node, dict):
        return node
    node = {name: with_limits(value) for name, value in node.items()}
    if node.get("type") == "string" and "enum" not in node and "format" not in node:
        node.setdefault("maxLength", 80)
    if node.get("type") == "array":
        node.setdefault("maxItems", 6)
    return node


class Server:
    """`ffwd serve` with one model on a device; None is this project's own kernels on the processor."""

    def __init__(self, program, model, device, rows, precision):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        command = [program, "serve", "--model", str(model), "--port", self.url.rsplit(":", 1)[1],
                   "--batch", str(max(rows)), "--prefix-mib", "0", "--precision", precision, *(["--device", device] if device else [])]
        self.child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while True:
            time.sleep(0.2)
            if self.child.poll() is not None:
                sys.exit(f"{' '.join(command)} ended:\n{self.child.stderr.read()}")
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).read()
                break
            except OSError:
                pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.terminate()
        self.child.communicate()

    def post(self, path, body):
        answer = bfcl.post(self.url + path, body)
        if "error" in answer:
            sys.exit(f"{path}: {answer['error']}")
        return answer

    def run(self, batch, mode, limits):
        """Answers the requests at the same time: their texts, tokens and forwards."""
        def ask(request):
            body = {"prompt": request["prompt"], "temperature": 0, "max_tokens": request["max_tokens"]}
            if mode == "free":
                body["max_tokens"] = limits[request["name"]]
            else:
                schema = {"name": "record", "schema": request["schema"]}
                body["response_format"] = {"type": "json_schema", "json_schema": schema}
                body["ffwd"] = {"mode": {"masked": "off", "exact": "exact"}[mode]}
            answer = self.post("/v1/completions", body)
            tokens = answer["usage"]["completion_tokens"]
            return answer["choices"][0]["text"], tokens, answer.get("ffwd", {}).get("forwards", tokens)

        with concurrent.futures.ThreadPoolExecutor(len(batch)) as pool:
            return list(pool.map(ask, batch))

    def synchronize(self):
        pass


class Transformers:
    """A model of transformers in bfloat16, float32 on the CPU."""

    def __init__(self, path, device):
        import ffwd
        import ffwd.hf
        import torch
        import transformers

        self.ffwd, self.torch, self.device = ffwd, torch, device
        path = Path(path)
        place = [str(path)] if path.is_dir() else [str(path.parent)]
        file = {} if path.is_dir() else {"gguf_file": path.name}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(*place, **file)
        dtype = torch.float32 if device == "cpu" else torch.bfloat16
        model = transformers.AutoModelForCausalLM.from_pretrained(*place, **file, dtype=dtype)
        self.model = model.to(device).eval()
        self.compiler = ffwd.Compiler(ffwd.hf.vocabulary(model, self.tokenizer))
        self.forwards = 0
        model.register_forward_hook(self.count)

    def count(self, *_):
        self.forwards += 1

    def run(self, batch, mode, limits):
        torch, hf = self.torch, self.ffwd.hf
        longest = max(len(request["prompt"]) for request in batch)
        pad = self.model.generation_config.eos_token_id
        pad = pad[0] if isinstance(pad, list) else pad
        ids = [[pad] * (longest - len(r["prompt"])) + r["prompt"] for r in batch]
        mask = [[0] * (longest - len(r["prompt"])) + [1] * len(r["prompt"]) for r in batch]
        settings = {"max_new_tokens": max(r["max_tokens"] for r in batch), "pad_token_id": pad}
        if mode == "free":
            settings["max_new_tokens"] = max(limits[r["name"]] for r in batch)
        else:
            schemas = [self.ffwd.Constraint.json_schema(r["schema"]) for r in batch]
            processor = hf.LogitsProcessor([self.compiler.compile(schema) for schema in schemas])
            settings["logits_processor"] = [processor]
            settings["stopping_criteria"] = [processor.prefetch]
        if mode == "exact":
            del settings["stopping_criteria"]
            settings["custom_generate"] = hf.ExactDecoding()
        self.forwards = 0
        place = {"device": self.device}
        output = self.model.generate(torch.tensor(ids, **place), attention_mask=torch.tensor(mask, **place),
                                     do_sample=False, **settings)
        rows = [row[longest:] for row in output.tolist()]
        ends = set(self.compiler.vocabulary.eos)
        found = []
        for row in rows:
            length = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
            text = self.tokenizer.decode(row[:length], skip_special_tokens=True)
            found.append((text, length, self.forwards / len(batch)))
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def groups(all_requests, rows):
    """The requests in batches of `rows`; the last one is filled up from the beginning."""
    for first in range(0, len(all_requests), rows):
        batch = all_requests[first : first + rows]
        yield (batch + all_requests * rows)[:rows]


def measure(system, name, all_requests, rows, rounds):
    """Prints lines of the table, and returns the texts of each mode at one row."""
    texts = {}
    modes = [m for m in ["masked", "exact", "free"] if rows == 1 or m != "exact" or isinstance(system, Server)]
    limits = {}
    for mode in modes:
        rates, tokens, forwards = [], 0, 0
        for round in range(rounds + 1):
            spent = written = ran = 0
            for batch in groups(all_requests, rows):
                start = time.perf_counter()
                found = system.run(batch, mode, limits)
                spent += time.perf_counter() - start
                written += sum(answer[1] for answer in found)
                ran += sum(answer[2] for answer in found)
                for request, answer in zip(batch, found, strict=True):
                    texts.setdefault(mode, {})[request["name"]] = answer[0]
                    if mode == "masked":
                        limits[request["name"]] = answer[1]
            if round > 0:  # The first round warms up: shapes, grammars, files.
                rates.append(written / spent)
                tokens, forwards = written, ran
        print(f"| {name} | {rows} | {mode} | {statistics.median(rates):.1f} | {tokens} | {forwards:.0f} |", flush=True)
    return texts


def compare(what, one, other):
    """Prints how many texts are the same, and where others part."""
    differ = [name for name in one if one[name] != other.get(name)]
    print(f"\n{what}: {len(one) - len(differ)} of {len(one)} texts are the same")
    for name in differ:
        a, b = one[name], other.get(name, "")
        at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        print(f"- {name} parts after {a[max(0, at - 30):at]!r}: {a[at:at + 20]!r}, {b[at:at + 20]!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="models of `ffwd serve`, all with one tokenizer")
    parser.add_argument("--transformers", help="a folder of transformers, or a GGUF file that it can read")
    parser.add_argument("--tokenizer", help="TOKENIZER_JSON for the overhead of masks, which is left out otherwise")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--ffwd", default=str(ROOT / "target/cuda/release/ffwd"))
    parser.add_argument("--questions", type=int, default=32, help="questions of BFCL")
    parser.add_argument("--rows", default="1,8,32", type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--invoices", type=int, default=3, help="invoices, of three")
    parser.add_argument("--precision", default="stored", help="as that of `ffwd serve`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--without-processor", action="store_true", help="leave out the comparison with the processor")
    parser.add_argument("--without-candle", action="store_true", help="use MODEL for the tokens of prompts only")
    options = parser.parse_args()
    head = "\n| system | rows | decoding | tokens/s | tokens | forwards |\n| --- | ---: | --- | ---: | ---: | ---: |"
    with Server(options.ffwd, options.models[0], None, [1], options.precision) as server:
        asked = list(requests(server, options.questions, options.invoices, options.max_tokens))
    for model in [] if options.without_candle else options.models:
        name = f"candle, {Path(model).name}"
        with Server(options.ffwd, model, options.device, options.rows, options.precision) as server:
            print(head)
            texts = [measure(server, name, asked, rows, options.rounds) for rows in options.rows]
        compare(f"{name}: exact beside masked", texts[0]["masked"], texts[0]["exact"])
        if not options.without_processor:
            with Server(options.ffwd, model, None, [1], options.precision) as server:
                found = {r["name"]: server.run([r], "masked", {})[0][0] for r in asked}
            compare(f"{name}: {options.device} beside the processor's kernels", texts[0]["masked"], found)
    if options.transformers:
        with Transformers(options.transformers, options.device) as system:
            print(head)
            name = f"transformers, {Path(options.transformers).name}"
            texts = [measure(system, name, asked, rows, options.rounds) for rows in options.rows]
        compare(f"{name}: exact beside masked", texts[0]["masked"], texts[0]["exact"])
    if options.tokenizer:
        print("\nOverhead of masks in transformers:", flush=True)
        script = ROOT / "python/bench/hf_overhead.py"
        subprocess.run([sys.executable, script, options.tokenizer, "--device", options.device, "--rows", "1,32,128"],
                       check=True, env=dict(os.environ))


if __name__ == "__main__":
    main()

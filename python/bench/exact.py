"""Forwards and seconds of exact decoding beside masked `generate` of transformers.

    pip install 'ffwd-llm[hf]'
    python bench/exact.py FOLDER [--rounds N] [--threads N] [--device cuda]

FOLDER is a model of transformers. Each text of the list below is extracted in turns: masked, with
the drafts of transformers (`prompt_lookup_num_tokens`), and exactly. Model weights are float32.
"""

import argparse
import json
import statistics
import time

import ffwd
import ffwd.hf
import torch
import transformers

SCHEMA = {
    "type": "object",
    "properties": {
        "invoice_number": {"type": "string", "maxLength": 20},
        "vendor": {"type": "string", "maxLength": 60},
        "customer": {"type": "string", "maxLength": 60},
        "issue_date": {"type": "string", "format": "date"},
        "total": {"type": "number"},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
    },
    "required": ["invoice_number", "vendor", "customer", "issue_date", "total", "currency"],
    "additionalProperties": False,
}
TEXTS = [
    "Invoice INV-20417 of Bright Glacier Consulting to Mikkel Andersson, issued on 2024-03-14. "
    "Total: 1840.00 EUR. Please pay within 30 days.",
    "Northwind Paper Ltd. bills Ana Ruiz 99.50 USD, number B-7731, dated 2023-11-02.",
    "Dear Mr Okafor, invoice 2025/0093 of 2025-01-20 from Harbour Street Dental is 310 GBP.",
]


def main():
    arguments = argparse.ArgumentParser(description="Time exact decoding in transformers.")
    arguments.add_argument("folder")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--device", default="cpu")
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options.folder, dtype=torch.float32
    )
    model = model.to(options.device).eval()
    vocabulary = ffwd.hf.vocabulary(model, tokenizer)
    grammar = ffwd.Compiler(vocabulary).compile(ffwd.Constraint.json_schema(SCHEMA))
    forwards = 0

    def count(*_):
        nonlocal forwards
        forwards += 1

    model.register_forward_hook(count)
    modes = {
        "masked": lambda: {"logits_processor": [ffwd.hf.LogitsProcessor(grammar)]},
        "prompt lookup of transformers": lambda: {
            "logits_processor": [ffwd.hf.LogitsProcessor(grammar, strict=False)],
            "prompt_lookup_num_tokens": 8,
        },
        "exact": lambda: {
            "logits_processor": [ffwd.hf.LogitsProcessor(grammar)],
            "custom_generate": ffwd.hf.ExactDecoding(),
        },
    }
    seconds = {name: [] for name in modes}
    runs, tokens, texts = dict.fromkeys(modes, 0), dict.fromkeys(modes, 0), {}
    for turn in range(options.rounds + 1):
        for number, text in enumerate(TEXTS):
            message = f"Extract the record as JSON of this schema: {json.dumps(SCHEMA)}\n\n{text}"
            inputs = tokenizer.apply_chat_template(
                [{"role": "user", "content": message}],
                add_generation_prompt=True,
                return_tensors="pt",
                return_dict=True,
            ).to(options.device)
            for name, settings in modes.items():
                forwards, start = 0, time.perf_counter()
                output = model.generate(
                    **inputs, **settings(), max_new_tokens=160, do_sample=False
                )
                if turn == 0:  # The first round warms up.
                    continue
                seconds[name].append(time.perf_counter() - start)
                runs[name] += forwards
                tokens[name] += output.shape[1] - inputs["input_ids"].shape[1]
                texts.setdefault((number, turn), set()).add(tuple(output[0].tolist()))
    print("| mode | tokens | forwards | seconds a record |")
    print("| --- | ---: | ---: | ---: |")
    for name in modes:
        print(f"| {name} | {tokens[name]} | {runs[name]} | {statistics.mean(seconds[name]):.2f} |")
    print("the same text:", sum(len(found) == 1 for found in texts.values()), "of", len(texts))


if __name__ == "__main__":
    main()

"""Milliseconds a step of masked `generate` beside free `generate`, with transformers.

    pip install 'ffwd-llm[hf]' xgrammar
    python bench/hf_overhead.py TOKENIZER_JSON [--device cuda] [--rows 1,8,32] [--layers N --width N]

The model is a Llama of the given shape with random weights in bfloat16: only the time of its
forwards matters here. All rows are in all steps, because the text of the schema is longer than the
output. Modes run in turns, the first turn is not counted. With random weights nearly each step has
another mask than the one before.

With prefetch the masks of a step are made on another thread while Python and the device run the
forward. XGrammar is measured if it is installed: its matchers, and its own kernel for the device.
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
        "name": {"type": "string", "maxLength": 12},
        "kind": {"enum": ["first", "second"]},
        "text": {"type": "string", "minLength": 2000},
    },
    "required": ["name", "kind", "text"],
    "additionalProperties": False,
}


def xgrammar_mode(tokenizer, width):
    """Return a function that makes a processor of XGrammar, or None without the package."""
    try:
        import xgrammar
    except ImportError:
        return None
    info = xgrammar.TokenizerInfo.from_huggingface(tokenizer, vocab_size=width)
    compiler = xgrammar.GrammarCompiler(info)
    compiled = compiler.compile_json_schema(json.dumps(SCHEMA), any_whitespace=False)

    class Processor(transformers.LogitsProcessor):
        def __init__(self):
            self.matchers = None

        def __call__(self, ids, scores):
            if self.matchers is None:
                self.matchers = [xgrammar.GrammarMatcher(compiled) for _ in ids]
                self.bitmask = xgrammar.allocate_token_bitmask(len(ids), width)
            else:
                for matcher, token in zip(self.matchers, ids[:, -1].tolist(), strict=True):
                    if not matcher.is_terminated():
                        assert matcher.accept_token(token)
            for row, matcher in enumerate(self.matchers):
                matcher.fill_next_token_bitmask(self.bitmask, row)
            xgrammar.apply_token_bitmask_inplace(scores, self.bitmask.to(scores.device))
            return scores

    return Processor


def main():
    arguments = argparse.ArgumentParser(description="Time masked generate beside free generate.")
    arguments.add_argument("tokenizer")
    arguments.add_argument("--device", default="cpu")
    arguments.add_argument("--rows", default="1,8,32")
    arguments.add_argument("--width", type=int, default=2048)
    arguments.add_argument("--layers", type=int, default=16)
    arguments.add_argument("--tokens", type=int, default=100)
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=options.tokenizer)
    ends = ["<|eot_id|>", "<|end_of_text|>", "<|im_end|>", "</s>"]
    end = next(i for i in map(tokenizer.get_vocab().get, ends) if i is not None)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=options.width,
        intermediate_size=4 * options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=options.width // 64,
        num_key_value_heads=options.width // 256,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=end,
    )
    torch.manual_seed(1)
    with torch.device(options.device):
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(end)
    vocabulary = ffwd.hf.vocabulary(model, tokenizer)
    grammar = ffwd.Compiler(vocabulary).compile(ffwd.Constraint.json_schema(SCHEMA))
    modes = {
        "free": None,
        "ffwd": lambda: ffwd.hf.LogitsProcessor(grammar),
        "ffwd, prefetch": lambda: ffwd.hf.LogitsProcessor(grammar),
    }
    if other := xgrammar_mode(tokenizer, config.vocab_size):
        modes["XGrammar"] = other
    print(f"# vocabulary {config.vocab_size}, {sum(p.numel() for p in model.parameters()):,} weights")
    print("| rows | mode | ms a step | all |")
    print("| ---: | --- | ---: | --- |")
    for rows in map(int, options.rows.split(",")):
        ids = torch.randint(0, 1000, (rows, 64), device=options.device)
        found = {mode: [] for mode in modes}
        for turn in range(options.rounds + 1):
            for mode, make in modes.items():
                torch.manual_seed(turn)
                settings = {"logits_processor": [make()]} if make else {}
                if "prefetch" in mode:
                    prefetch = settings["logits_processor"][0].prefetch
                    prefetch.on_cpu = True
                    settings["stopping_criteria"] = [prefetch]
                if options.device != "cpu":
                    torch.cuda.synchronize()
                start = time.perf_counter()
                output = model.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    max_new_tokens=options.tokens,
                    min_new_tokens=None if make else options.tokens,
                    do_sample=True,
                    top_k=0,
                    **settings,
                )
                if options.device != "cpu":
                    torch.cuda.synchronize()
                steps = output.shape[1] - ids.shape[1]
                if turn:
                    found[mode].append(1000 * (time.perf_counter() - start) / steps)
        for mode, times in found.items():
            listed = " ".join(f"{t:.2f}" for t in times)
            print(f"| {rows} | {mode} | {statistics.median(times):.2f} | {listed} |", flush=True)


if __name__ == "__main__":
    main()

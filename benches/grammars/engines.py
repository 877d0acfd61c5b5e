"""Measures the grammars of this folder with ffwd, XGrammar, llguidance and GRID, all called from Python.

    pip install ffwd-llm xgrammar llguidance "grid-guardrail[kernel]" transformers
    python benches/grammars/engines.py TOKENIZER_JSON --eos '<|eot_id|>' --json results.json

Each text is followed with a grammar that has just been compiled, then once more, and then the text
before it, as `ffwd bench grammars` does. XGrammar keeps no masks from text to text, so each text is
followed once, and the three columns are equal. The engines take turns. Only the call that fills the mask is
timed, and with `first` also compiling. An engine that is not installed is left out. A grammar that it
refuses, or a token of a text that it refuses, is reported and has no times; so is a text whose masks
take longer than `--limit`.

GRID needs a grammar for a parser with one token of lookahead (LALR). NAME_lalr.lark is taken if there
is one. Its terminals are those of its lexer, as for llguidance.
"""

import argparse
import itertools
import json
import os
import statistics
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

# One thread each. The libraries read this when they are loaded.
for variable in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import notation  # noqa: E402

FOLDER = Path(__file__).parent
clock = time.perf_counter_ns


class Sample:
    def __init__(self, line):
        self.name, self.texts = line["id"], line["texts"]
        self.grammar = (FOLDER / line["grammar"]).read_text()
        self.is_lark = line["grammar"].endswith(".lark")
        self.lark = (FOLDER / line.get("lark", line["grammar"])).read_text()
        lalr = FOLDER / f"{self.name}_lalr.lark"
        self.lalr = lalr.read_text() if lalr.exists() else self.lark


class Ffwd:
    name = "ffwd"
    keeps = True
    packages = ("ffwd-llm",)

    def __init__(self, tokenizer):
        import ffwd

        self.ffwd = ffwd
        self.row = tokenizer.row()
        vocabulary = ffwd.Vocabulary.from_file(tokenizer.file, eos=[tokenizer.eos_id])
        self.compiler = ffwd.Compiler(vocabulary)
        self.compiler.warm_up()

    def compile(self, sample):
        read = self.ffwd.Constraint.lark if sample.is_lark else self.ffwd.Constraint.gbnf
        return self.compiler.compile(read(sample.grammar))

    def start(self, grammar):
        matcher = grammar.matcher()
        return lambda: matcher.fill_next_token_bitmask(self.row), matcher.accept_token

    def held(self, grammar):
        return grammar.memory_bytes


class XGrammar:
    name = "XGrammar"
    keeps = False
    packages = ("xgrammar",)

    def __init__(self, tokenizer):
        import torch
        import xgrammar

        torch.set_num_threads(1)
        self.xgrammar = xgrammar
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer.transformers(), stop_token_ids=[tokenizer.eos_id])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.row = self.mask.numpy()

    def compile(self, sample):
        if sample.is_lark:
            return self.compiler.compile_lark(sample.grammar)
        return self.compiler.compile_grammar(sample.grammar)

    def start(self, grammar):
        matcher = self.xgrammar.GrammarMatcher(grammar)
        return lambda: matcher.fill_next_token_bitmask(self.mask), matcher.accept_token

    def held(self, grammar):
        return grammar.memory_size_bytes


class LlGuidance:
    name = "llguidance"
    keeps = True
    packages = ("llguidance",)

    def __init__(self, tokenizer):
        import llguidance
        import llguidance.numpy

        self.library = llguidance
        self.tokenizer = llguidance.LLTokenizer(Path(tokenizer.file).read_text(), eos_token=tokenizer.eos_id)
        self.fill = llguidance.numpy.fill_next_token_bitmask
        self.row = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)
        # At its own limit it gives up some masks of large grammars.
        self.limits = llguidance.LLParserLimits(step_max_items=5_000_000)

    def compile(self, sample):
        matcher_class = self.library.LLMatcher
        grammar = matcher_class.grammar_from_lark(sample.lark)
        matcher = matcher_class(self.tokenizer, grammar, log_level=0, limits=self.limits)
        if matcher.is_error():
            raise ValueError(matcher.get_error().splitlines()[0])
        return matcher

    def start(self, matcher):
        # The tables of the lexer remain.
        matcher.reset()
        return lambda: self.fill(matcher, self.row), matcher.consume_token

    def held(self, _):
        return None


class Grid:
    name = "GRID"
    keeps = True
    packages = ("grid-guardrail", "grid_core")

    def __init__(self, tokenizer):
        from grid.models.hf_adapter import HFTokenizerAdapter
        from grid.models.vllm_processor import _GuideRegistry
        from grid.models.vllm_structured import GridGrammarSession
        from grid.serving import SingleFlight

        warnings.filterwarnings("ignore", message="L-REC01")
        self.session, self.flight = GridGrammarSession, SingleFlight
        self.registry = _GuideRegistry(HFTokenizerAdapter(tokenizer.transformers()))
        self.row = np.zeros((1, tokenizer.words), dtype=np.int32)

    def compile(self, sample):
        # What it keeps from grammar to grammar is dropped.
        self.registry._flight = self.flight()
        self.registry._t2_pools.clear()
        return self.registry.guide_for({"grammar": notation.bnf(notation.Lark(sample.lalr))})

    def start(self, guide):
        session = self.session(guide.copy())
        return lambda: session.fill_bitmask(self.row, 0), lambda token: session.accept_tokens("", [token])

    def held(self, _):
        return None


class Tokenizer:
    def __init__(self, file, eos):
        from tokenizers import Tokenizer as Fast

        self.file, self.eos = str(file), eos
        self.fast = Fast.from_file(self.file)
        self.eos_id = self.fast.token_to_id(eos)
        self.words = (self.fast.get_vocab_size() + 31) // 32

    def encode(self, text):
        return self.fast.encode(text, add_special_tokens=False).ids

    def row(self):
        return np.zeros((1, self.words), dtype=np.int32)

    def transformers(self):
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast(tokenizer_file=self.file, eos_token=self.eos)


def versions(engine):
    return ", ".join(f"{package} {version(package)}" for package in engine.packages)


def follow(engine, grammar, tokens, limit):
    """Returns the nanoseconds of each mask."""
    fill, accept = engine.start(grammar)
    row, times = engine.row.reshape(-1).view(np.uint32), []
    for at, token in enumerate(tokens):
        start = clock()
        fill()
        times.append(clock() - start)
        if sum(times) > limit * 1e9:
            raise TimeoutError(f"{at + 1} of {len(tokens)} masks take more than {limit:g} s")
        if not row[token // 32] >> np.uint32(token % 32) & 1:
            raise ValueError(f"token {at} is not in the mask")
        if accept(token) is False:
            raise ValueError(f"token {at} is refused")
    return times


def round_of(engine, sample, texts, limit):
    """Returns one round: each text first with a new grammar, again, and as a new text of a known one."""
    result = {"compile": [], "first": [], "cold": [], "again": [], "new": [], "held": None}
    for at, tokens in enumerate(texts):
        start = clock()
        grammar = engine.compile(sample)
        compiled = clock() - start
        cold = follow(engine, grammar, tokens, limit)
        result["compile"].append(compiled)
        result["first"].append(compiled + cold[0])
        result["cold"].append(cold)
        result["again"].append(follow(engine, grammar, tokens, limit) if engine.keeps else cold)
        result["new"].append(follow(engine, grammar, texts[at - 1], limit) if engine.keeps else cold)
        result["held"] = engine.held(grammar)
    return result


def summary(rounds):
    """Returns medians over the rounds: microseconds, and milliseconds of the masks of one text."""

    def middle(of):
        return statistics.median(of(r) for r in rounds)

    def text_ms(key):
        return middle(lambda r: sum(map(sum, r[key])) / len(r[key]) / 1e6)

    def masks(key, share):
        def one(r):
            times = sorted(itertools.chain.from_iterable(r[key]))
            return times[max(0, -(-len(times) * share // 100) - 1)] / 1e3

        return middle(one)

    return {
        "compile_us": middle(lambda r: statistics.mean(r["compile"]) / 1e3),
        "first_mask_us": middle(lambda r: statistics.mean(r["first"]) / 1e3),
        "cold_ms": text_ms("cold"),
        "new_text_ms": text_ms("new"),
        "again_ms": text_ms("again"),
        "cold_p50_us": masks("cold", 50),
        "cold_p99_us": masks("cold", 99),
        "warm_p50_us": masks("again", 50),
        "warm_p99_us": masks("again", 99),
        "held": rounds[-1]["held"],
        "rounds": len(rounds),
    }


def short(value):
    return "-" if value is None else f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def table(results):
    header = ["grammar", "engine", "compile", "first mask", "cold, ms", "new text, ms", "again, ms"]
    header += ["cold p50", "cold p99", "warm p50", "warm p99", "kB held"]
    lines = [f"| {' | '.join(header)} |", "|" + " --- |" * len(header)]
    keys = "compile_us first_mask_us cold_ms new_text_ms again_ms cold_p50_us cold_p99_us warm_p50_us warm_p99_us".split()
    for row in results:
        held = row.get("held")
        cells = [short(row.get(key)) for key in keys] + [short(held / 1e3 if held else None)]
        lines.append(f"| {row['grammar']} | {row['engine']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tokenizer", type=Path, help="a tokenizer.json")
    parser.add_argument("--eos", default="<|eot_id|>", help="the token that ends an output")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="a grammar (repeatable)")
    parser.add_argument("--engine", action="append", default=[], help="an engine (repeatable)")
    parser.add_argument("--seconds", type=float, default=60, help="stop the rounds of an engine with a grammar after this time")
    parser.add_argument("--limit", type=float, default=30, help="seconds of the masks of one text")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    tokenizer, engines = Tokenizer(args.tokenizer, args.eos), []
    for kind in (Ffwd, XGrammar, LlGuidance, Grid):
        if args.engine and kind.name not in args.engine:
            continue
        try:
            engines.append(kind(tokenizer))
        except ImportError as error:
            print(f"{kind.name} is left out: {error}", file=sys.stderr)
    results = []
    for line in map(json.loads, (FOLDER / "corpus.jsonl").read_text().splitlines()):
        if args.only and line["id"] not in args.only:
            continue
        sample = Sample(line)
        texts = [tokenizer.encode(text) for text in sample.texts]
        rounds, faults = {e.name: [] for e in engines}, {}
        spent = dict.fromkeys(rounds, 0.0)
        for number in range(args.rounds):
            order = engines[number % len(engines) :] + engines[: number % len(engines)]
            for engine in order:
                if engine.name in faults or rounds[engine.name] and spent[engine.name] > args.seconds:
                    continue
                started = time.monotonic()
                try:
                    rounds[engine.name].append(round_of(engine, sample, texts, args.limit))
                except Exception as error:  # every engine has its own errors
                    faults[engine.name] = f"{type(error).__name__}: {error}"[:300]
                    print(f"{sample.name}: {engine.name}: {faults[engine.name]}", file=sys.stderr)
                spent[engine.name] += time.monotonic() - started
        for engine in engines:
            row = {"grammar": sample.name, "engine": engine.name, "version": versions(engine)}
            fault = faults.get(engine.name)
            results.append({**row, "fault": fault} if fault else {**row, **summary(rounds[engine.name])})
    print(table(results))
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

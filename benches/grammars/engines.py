"""Answers `ffwd bench masks --process`: an engine that is called from Python, over its standard input and output.

    pip install ffwd-llm xgrammar llguidance "grid-guardrail[kernel]" transformers
    ffwd bench masks benches/grammars/corpus.jsonl --tokenizer tokenizer.json \\
        --process 'python benches/grammars/engines.py XGrammar'

Engines are ffwd, XGrammar, XGrammar-strict, llguidance and GRID. XGrammar-strict forbids properties and
items that a schema does not name, as XGrammar does by default. White space in JSON is off. Only the calls
that compile, fill the mask and accept a token are timed. The process ends, which counts as a refusal, if
one call takes longer than a minute.

GRID needs a grammar for a parser with one token of lookahead (LALR). NAME_lalr.lark is taken if there is
one. Its terminals are those of its lexer, as for llguidance.
"""

import json
import os
import signal
import sys
import time
import warnings
from pathlib import Path

# One thread each. The libraries read this when they are loaded.
for variable in ("RAYON_NUM_THREADS", "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import notation  # noqa: E402

# Seconds of a language or a text.
LIMIT = 60
clock = time.perf_counter_ns


class Ffwd:
    def __init__(self, tokenizer):
        import ffwd

        self.ffwd = ffwd
        self.row = tokenizer.row()
        vocabulary = ffwd.Vocabulary.from_file(tokenizer.file, eos=tokenizer.ends)
        self.compiler = ffwd.Compiler(vocabulary)
        self.compiler.warm_up()

    def compile(self, kind, text, _):
        if kind == "json_schema":
            return self.compiler.compile(self.ffwd.Constraint.json_schema(text, exponent=True))
        read = self.ffwd.Constraint.lark if kind == "lark" else self.ffwd.Constraint.gbnf
        return self.compiler.compile(read(text))

    def start(self, grammar):
        matcher = grammar.matcher()
        return lambda: matcher.fill_next_token_bitmask(self.row), matcher.accept_token

    def held(self, grammar):
        return grammar.memory_bytes


class XGrammar:
    strict = False

    def __init__(self, tokenizer):
        import torch
        import xgrammar

        torch.set_num_threads(1)
        self.xgrammar = xgrammar
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer.transformers(), stop_token_ids=tokenizer.ends)
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)
        self.mask = xgrammar.allocate_token_bitmask(1, info.vocab_size)
        self.row = self.mask.numpy()

    def compile(self, kind, text, _):
        if kind == "json_schema":
            return self.compiler.compile_json_schema(
                text, any_whitespace=False, separators=(",", ":"), strict_mode=self.strict
            )
        return self.compiler.compile_lark(text) if kind == "lark" else self.compiler.compile_grammar(text)

    def start(self, grammar):
        matcher = self.xgrammar.GrammarMatcher(grammar)
        return lambda: matcher.fill_next_token_bitmask(self.mask), matcher.accept_token

    def held(self, grammar):
        return grammar.memory_size_bytes


class XGrammarStrict(XGrammar):
    strict = True


class LlGuidance:
    def __init__(self, tokenizer):
        import llguidance
        import llguidance.numpy

        self.library = llguidance
        self.tokenizer = llguidance.LLTokenizer(Path(tokenizer.file).read_text(), eos_token=tokenizer.ends[0])
        self.fill = llguidance.numpy.fill_next_token_bitmask
        self.row = llguidance.numpy.allocate_token_bitmask(1, self.tokenizer.vocab_size)
        # At its own limit it gives up some masks of large grammars.
        self.limits = llguidance.LLParserLimits(step_max_items=5_000_000)

    def compile(self, kind, text, lark):
        matcher_class = self.library.LLMatcher
        if kind == "json_schema":
            grammar = matcher_class.grammar_from_json_schema(text, defaults={"whitespace_flexible": False})
        else:
            grammar = matcher_class.grammar_from_lark(lark)
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
    def __init__(self, tokenizer):
        from grid.models.hf_adapter import HFTokenizerAdapter
        from grid.models.vllm_processor import _GuideRegistry
        from grid.models.vllm_structured import GridGrammarSession
        from grid.serving import SingleFlight

        warnings.filterwarnings("ignore", message="L-REC01")
        self.session, self.flight = GridGrammarSession, SingleFlight
        self.registry = _GuideRegistry(HFTokenizerAdapter(tokenizer.transformers()))
        self.row = np.zeros((1, tokenizer.words), dtype=np.int32)

    def compile(self, kind, _, lark):
        if kind == "json_schema":
            raise ValueError("it is measured with grammars only")
        # A grammar of this folder may have a form without ambiguities.
        for form in Path(__file__).parent.glob("*_lalr.lark"):
            if form.with_name(form.name.replace("_lalr", "")).read_text() == lark:
                lark = form.read_text()
        # What it keeps from grammar to grammar is dropped.
        self.registry._flight = self.flight()
        self.registry._t2_pools.clear()
        return self.registry.guide_for({"grammar": notation.bnf(notation.Lark(lark))})

    def start(self, guide):
        session = self.session(guide.copy())
        return lambda: session.fill_bitmask(self.row, 0), lambda token: session.accept_tokens("", [token])

    def held(self, _):
        return None


ENGINES = {
    "ffwd": Ffwd, "XGrammar": XGrammar, "XGrammar-strict": XGrammarStrict, "llguidance": LlGuidance, "GRID": Grid,
}


class Tokenizer:
    def __init__(self, file, ends):
        from tokenizers import Tokenizer as Fast

        self.file, self.ends = str(file), ends
        self.fast = Fast.from_file(self.file)
        self.words = (self.fast.get_vocab_size() + 31) // 32

    def row(self):
        return np.zeros((1, self.words), dtype=np.int32)

    def transformers(self):
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast(tokenizer_file=self.file, eos_token=self.fast.id_to_token(self.ends[0]))


def follow(engine, grammar, tokens, ends):
    """Follows a text: the times of its masks and accepted tokens, and what ends it early."""
    started = clock()
    fill, accept = engine.start(grammar)
    answer = {"start": clock() - started, "masks": [], "accepts": [], "fault": None, "bytes": engine.held(grammar)}
    row = engine.row.reshape(-1).view(np.uint32)

    def has(token):
        return bool(row[token // 32] >> np.uint32(token % 32) & 1)

    for token in tokens or [ends[0]]:
        started = clock()
        fill()
        answer["masks"].append(clock() - started)
        if not tokens:
            return answer
        if not has(token):
            return {**answer, "fault": "not in mask"}
        started = clock()
        if accept(token) is False:
            return {**answer, "fault": "refused"}
        answer["accepts"].append(clock() - started)
    fill()
    return answer if any(map(has, ends)) else {**answer, "fault": "incomplete"}


def answers(engine, ends):
    """Answers the questions about languages and texts."""
    grammar = None
    for line in sys.stdin:
        question = json.loads(line)
        # The signal ends the process, also inside of a library.
        signal.alarm(LIMIT)
        try:
            if "tokens" in question:
                yield follow(engine, grammar, question["tokens"], ends)
            else:
                text, started = question["text"], clock()
                grammar = engine.compile(question["kind"], text, question.get("lark") or text)
                yield {"ns": clock() - started}
        except Exception as error:  # Every engine has its own errors.
            message = f"{type(error).__name__}: {error}"[:300]
            yield {"fault": message} if "tokens" in question else {"error": message}
        signal.alarm(0)


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in ENGINES:
        sys.exit(f"usage: engines.py {'|'.join(ENGINES)}")
    # Libraries may print; only answers go to the program.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    greeting = json.loads(sys.stdin.readline())
    ends = greeting["ends"]
    engine = ENGINES[sys.argv[1]](Tokenizer(greeting["tokenizer"], ends))
    print(json.dumps({"name": sys.argv[1]}), file=out)
    for answer in answers(engine, ends):
        print(json.dumps(answer), file=out)


if __name__ == "__main__":
    main()

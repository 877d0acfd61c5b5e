"""Generates with llama.cpp for run.py: one JSON object a line on standard input and output.

The first line says how the model is loaded; each further one is a record: prompt tokens, schema, kind, drafts.
Two ways of driving the library:

`package`   Llama.generate of llama-cpp-python, as its users call it.
`library`   the C interface called directly, as llama.cpp's own programs do it: the most probable token is tried
            against the grammar, the whole vocabulary is masked only if it fails; a draft is verified in one
            batch, row by row, and what the cache holds behind the first difference is removed. Drafts come from
            the package's prompt look-up or, greedily, from a draft model.

A process of its own because the library may take the process with it; run.py starts another then.
"""
import ctypes
import json
import os
import sys
import time

import numpy as np

os.environ.setdefault("OMP_NUM_THREADS", "1")
from llama_cpp import Llama, LlamaGrammar, llama_cpp as C  # noqa: E402
from llama_cpp.llama_speculative import LlamaPromptLookupDecoding  # noqa: E402

answers = None
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


def load(path, options, draft=None):
    """A model with its threads, one unless `options` have more; they are those of an arm."""
    defaults = C.llama_model_default_params

    def parameters():
        p = defaults()
        p.use_extra_bufts = options["extra_buffers"]
        return p

    C.llama_model_default_params = parameters
    try:
        return Llama(
            path,
            n_ctx=options["n_ctx"],
            n_batch=options["n_batch"],
            n_ubatch=options["n_ubatch"],
            n_threads=options.get("threads", 1),
            n_threads_batch=options.get("threads", 1),
            flash_attn=options["flash_attn"],
            draft_model=draft,
            # Else the package keeps logits for one batch of tokens only and fails behind them.
            logits_all=draft is not None,
            verbose=options.get("verbose", False),
        )
    finally:
        C.llama_model_default_params = defaults


class Library:
    """One model and its context, driven through the C interface."""

    def __init__(self, llama):
        self.llama = llama
        self.ctx, self.vocab = llama._ctx.ctx, llama._model.vocab
        self.memory = C.llama_get_memory(self.ctx)
        self.n_vocab = llama.n_vocab()
        self.batch = C.llama_batch_init(llama.n_batch, 0, 1)
        self.all = np.zeros(self.n_vocab, CANDIDATE)
        self.all_ids = np.arange(self.n_vocab, dtype=np.int32)
        self.cached = 0
        self.forwards = 0
        # Seconds inside the library: forwards, and the grammar.
        self.inside = self.in_grammar = 0.0

    def clear(self):
        C.llama_memory_clear(self.memory, False)
        self.cached = self.forwards = 0
        self.inside = self.in_grammar = 0.0

    def apply(self, grammar, data, size):
        start = time.perf_counter()
        array = C.llama_token_data_array(data, size, -1, False)
        C.llama_sampler_apply(grammar, ctypes.byref(array))
        self.in_grammar += time.perf_counter() - start

    def accept(self, grammar, token):
        start = time.perf_counter()
        C.llama_sampler_accept(grammar, token)
        self.in_grammar += time.perf_counter() - start

    def forward(self, tokens, rows):
        """Appends tokens to the cache; logits for the last `rows` of them (all in one batch)."""
        size = self.llama.n_batch
        for at in range(0, len(tokens), size):
            part = tokens[at : at + size]
            b = self.batch
            b.n_tokens = len(part)
            for i, token in enumerate(part):
                b.token[i] = token
                b.pos[i] = self.cached + i
                b.n_seq_id[i] = 1
                b.seq_id[i][0] = 0
                b.logits[i] = at + i >= len(tokens) - rows
            start = time.perf_counter()
            if C.llama_decode(self.ctx, b) != 0:
                raise RuntimeError("llama_decode failed")
            self.inside += time.perf_counter() - start
            self.cached += len(part)
            self.forwards += 1
        return len(part) - rows

    def cut(self, length):
        if length < self.cached:
            C.llama_memory_seq_rm(self.memory, 0, length, -1)
            self.cached = length

    def logits(self, row):
        return np.ctypeslib.as_array(C.llama_get_logits_ith(self.ctx, row), (self.n_vocab,))

    def sample(self, row, grammar):
        """The most probable token that the grammar takes."""
        logits = self.logits(row)
        best = int(logits.argmax())
        one = C.llama_token_data(best, 1.0, 0.0)
        self.apply(grammar, ctypes.pointer(one), 1)
        if one.logit != -np.inf:
            return best
        self.all["id"] = self.all_ids
        self.all["logit"] = logits
        data = self.all.ctypes.data_as(ctypes.POINTER(C.llama_token_data))
        self.apply(grammar, data, self.n_vocab)
        return int(self.all["logit"].argmax())


def propose(drafter, history, most, least):
    """Up to `most` tokens that may follow: from a look-up, or the draft model's own greedy choice while its
    probability is at least `least`, as llama.cpp's `--draft-p-min` has it."""
    if drafter is None:
        return []
    if isinstance(drafter, LlamaPromptLookupDecoding):
        return drafter(np.array(history, dtype=np.intc)).tolist()[:most]
    # What the draft model has cached was proposed or accepted; the caller cut it back to what stayed.
    out = []
    new = history[drafter.cached :]
    while len(out) < most:
        row = drafter.forward(new, 1)
        logits = drafter.logits(row)
        token = int(logits.argmax())
        if least and 1.0 < least * float(np.exp(logits - logits[token]).sum()):
            break
        out.append(token)
        new = [token]
    return out


def by_library(model, drafter, prompt, gbnf, most, least, limit):
    """Greedy tokens up to an end token, exclusive, and whether one came."""
    grammar = C.llama_sampler_init_grammar(model.vocab, gbnf.encode(), b"root")
    if not grammar:
        raise ValueError("the grammar was refused")
    try:
        model.clear()
        if isinstance(drafter, Library):
            drafter.clear()
        history = list(prompt)
        draft, new = [], history
        while True:
            row = model.forward(new + draft, len(draft) + 1)
            for i in range(len(draft) + 1):
                token = model.sample(row + i, grammar)
                if C.llama_vocab_is_eog(model.vocab, token):
                    return history[len(prompt) :], True
                model.accept(grammar, token)
                history.append(token)
                if len(history) - len(prompt) >= limit:
                    return history[len(prompt) :], False
                if i < len(draft) and token != draft[i]:
                    break
            # The token sampled last is not in the cache yet.
            model.cut(len(history) - 1)
            if isinstance(drafter, Library):
                drafter.cut(len(history) - 1)
            new = history[-1:]
            draft = propose(drafter, history, most, least)
    finally:
        C.llama_sampler_free(grammar)


def by_package(llama, prompt, grammar, limit):
    out = []
    # Without this a prompt that begins as the last one did would find a part of it cached.
    llama.reset()
    llama._ctx.kv_cache_clear()
    for token in llama.generate(prompt, top_k=1, temp=0.0, grammar=grammar):
        if C.llama_vocab_is_eog(llama._model.vocab, token):
            return out, True
        out.append(token)
        if len(out) >= limit:
            return out, False
    return out, False


class Counted:
    """Counts calls of `eval`, which is a forward each while a prompt fits a batch."""

    def __init__(self, llama):
        self.count, inner = 0, llama.eval

        def counted(tokens):
            self.count += 1
            return inner(tokens)

        llama.eval = counted


def main():
    # Whatever the library prints must not come between the answers.
    global answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    options = json.loads(sys.stdin.readline())
    plain = load(options["gguf"], options)
    library = Library(plain)
    drafter_model = None
    if options.get("draft_gguf"):
        drafter_model = Library(load(options["draft_gguf"], options))
    packaged = {}
    say({"ready": True, "system": C.llama_print_system_info().decode()})
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            say(answer(asked, options, library, drafter_model, packaged))
        except Exception as e:  # what the library refuses is a result
            say({"error": f"{type(e).__name__}: {e}"[:300]})


def speed(model, prompt, output):
    """Seconds to read a prompt, and to read given tokens one after the other, each with its logits."""
    model.clear()
    start = time.perf_counter()
    model.forward(prompt, 1)
    model.logits(-1)
    middle = time.perf_counter()
    for token in output:
        model.forward([token], 1)
        model.logits(-1)
    return {"prompt_seconds": middle - start, "target_seconds": time.perf_counter() - middle}


def answer(asked, options, library, drafter_model, packaged):
    if asked["op"] == "speed":
        return speed(library, asked["prompt"], asked["output"])
    if asked["op"] == "tokenize":
        return {"tokens": library.llama.tokenize(asked["text"].encode(), add_bos=False, special=True)}
    start = time.perf_counter()
    grammar = LlamaGrammar.from_json_schema(asked["schema"], verbose=False)
    compiled = time.perf_counter() - start
    more = {}
    prompt, limit, most = asked["prompt"], asked["max_tokens"], asked["draft_tokens"]
    if asked["kind"] == "package":
        if most not in packaged:
            look = LlamaPromptLookupDecoding(num_pred_tokens=most) if most else None
            llama = load(options["gguf"], options, look)
            packaged[most] = llama, Counted(llama)
        llama, evals = packaged[most]
        evals.count = 0
        start = time.perf_counter()
        tokens, ended = by_package(llama, prompt, grammar, limit)
        seconds, forwards = time.perf_counter() - start, evals.count
    else:
        drafter = None
        if asked["kind"] == "library+model":
            drafter = drafter_model
        elif most:
            drafter = LlamaPromptLookupDecoding(num_pred_tokens=most)
        start = time.perf_counter()
        least = asked.get("least", 0.0)
        tokens, ended = by_library(library, drafter, prompt, grammar._grammar, most, least, limit)
        seconds, forwards = time.perf_counter() - start, library.forwards
        drafting = drafter.inside if isinstance(drafter, Library) else 0.0
        more = {"inside": library.inside + drafting + library.in_grammar, "in_grammar": library.in_grammar}
    text = library.llama.detokenize(tokens).decode("utf-8", "replace")
    return {
        "text": text,
        "complete": ended,
        "tokens": len(tokens),
        "prompt_tokens": len(prompt),
        "forwards": forwards,
        "seconds": seconds,
        "compile_seconds": compiled,
        **more,
    }


def say(answer):
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()

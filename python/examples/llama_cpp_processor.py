"""Your own engine: llama-cpp-python, with this package as its logits processor.

    pip install llama-cpp-python numpy
    python examples/llama_cpp_processor.py MODEL.gguf

llama.cpp runs the model and samples. The processor gets the tokens so far and the logits of the next
one, and sets those to minus infinity that would make the record invalid. The vocabulary is read from
the tokens that llama.cpp has, so no other file is needed.
"""

import json
import sys

import llama_cpp
import numpy as np

import ffwd

INVOICE = {
    "type": "object",
    "properties": {
        "number": {"type": "string", "pattern": "^INV-[0-9]{5}$"},
        "vendor": {"type": "string", "maxLength": 40},
        "issued": {"type": "string", "format": "date"},
        "total": {"type": "number"},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
    },
    "required": ["number", "vendor", "issued", "total", "currency"],
    "additionalProperties": False,
}
TEXT = """INVOICE INV-20417
Bright Glacier Consulting, issued on 14 March 2024
Total: 1840.00 EUR, to be paid within 30 days."""


def vocabulary_of(llm):
    """The tokens of a model of llama.cpp as this package's vocabulary."""
    vocab = llama_cpp.llama_model_get_vocab(llm._model.model)
    buffer = llama_cpp.ctypes.create_string_buffer(256)
    tokens, special, ends = [], [], []
    for token in range(llm.n_vocab()):
        size = llama_cpp.llama_token_to_piece(vocab, token, buffer, len(buffer), 0, False)
        tokens.append(buffer.raw[: max(size, 0)])
        attributes = llama_cpp.llama_vocab_get_attr(vocab, token)
        if attributes & llama_cpp.LLAMA_TOKEN_ATTR_CONTROL:
            special.append(token)
        if llama_cpp.llama_vocab_is_eog(vocab, token):
            ends.append(token)
    return ffwd.Vocabulary.from_tokens(tokens, eos=ends, special=special)


class Processor:
    """Masks the logits of one generation. Make a new one for each."""

    def __init__(self, grammar):
        self.matcher = grammar.matcher()
        self.bitmask = ffwd.allocate_token_bitmask(1, self.matcher.vocabulary)
        self.seen = None

    def __call__(self, tokens, logits):
        if self.seen is None:
            self.seen = len(tokens)  # The prompt.
        for token in tokens[self.seen :]:
            if not self.matcher.accept_token(int(token)):
                raise ValueError(f"the engine took a token that is not legal: {token}")
        self.seen = len(tokens)
        if not self.matcher.is_terminated():
            # llama.cpp's logits are members of an array of structures.
            logits = np.ascontiguousarray(logits)
            self.matcher.fill_next_token_bitmask(self.bitmask)
            ffwd.apply_token_bitmask_inplace(logits[np.newaxis], self.bitmask)
        return logits


def extract(llm, grammar, text):
    """The record of a text."""
    question = f"Write the record of this text as JSON.\nSchema: {json.dumps(INVOICE)}\n\n{text}"
    answer = llm.create_chat_completion(
        messages=[{"role": "user", "content": question}],
        logits_processor=llama_cpp.LogitsProcessorList([Processor(grammar)]),
        temperature=0.0,
        max_tokens=200,
    )
    return json.loads(answer["choices"][0]["message"]["content"])


def main():
    llm = llama_cpp.Llama(sys.argv[1], n_ctx=2048, n_threads=2, verbose=False)
    # Both are kept: further schemas share the tables of the vocabulary.
    compiler = ffwd.Compiler(vocabulary_of(llm))
    grammar = compiler.compile(ffwd.Constraint.json_schema(INVOICE))
    record = extract(llm, grammar, TEXT)
    print(json.dumps(record, indent=2))
    assert list(record) == list(INVOICE["properties"])


if __name__ == "__main__":
    main()

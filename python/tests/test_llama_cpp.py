"""`ffwd.llama_cpp` inside llama-cpp-python, with a real model: `FFWD_TEST_GGUF=FILE.gguf`.

Flash attention, because with it llama.cpp rounds forwards of one and of several positions alike, for
formats without kernels of their own for several rows. SmolLM2's `Q4_1` is such a format.
"""

import json
import os

import pytest

llama_cpp = pytest.importorskip("llama_cpp")
MODEL = os.environ.get("FFWD_TEST_GGUF")
if not MODEL:
    pytest.skip("FFWD_TEST_GGUF names no GGUF file", allow_module_level=True)

import ffwd  # noqa: E402
import ffwd.llama_cpp  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {
        "invoice_number": {"type": "string", "maxLength": 16},
        "vendor": {"type": "string", "maxLength": 40},
        "issue_date": {"type": "string", "format": "date"},
        "total": {"type": "number", "maximum": 99999},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
    },
    "required": ["invoice_number", "vendor", "issue_date", "total", "currency"],
    "additionalProperties": False,
}
TEXT = "INVOICE INV-20417\nBright Glacier Consulting, issued on 14 March 2024\nTotal: 1840.00 EUR."
MESSAGES = [{"role": "user", "content": f"Write the record of this invoice as JSON.\n\n{TEXT}"}]
WAYS = [
    {"temperature": 0.0},
    {"temperature": 1.0, "seed": 7, "top_k": 40},
    {"temperature": 1.5, "seed": 8, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.2},
]


@pytest.fixture(scope="module")
def llm():
    return llama_cpp.Llama(
        MODEL, n_ctx=1024, n_batch=128, n_threads=1, n_threads_batch=1, flash_attn=True, verbose=False
    )


@pytest.fixture(scope="module")
def compiler(llm):
    return ffwd.Compiler(ffwd.llama_cpp.vocabulary(llm))


@pytest.fixture(scope="module")
def grammar(compiler):
    return compiler.compile(ffwd.Constraint.json_schema(SCHEMA))


def chat(llm, **options):
    """The text and the reason of its end. Nothing of an earlier call is in the cache."""
    llm.reset()
    llm._ctx.kv_cache_clear()
    choice = llm.create_chat_completion(MESSAGES, max_tokens=150, **options)["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def test_the_vocabulary_is_that_of_the_model(llm, compiler):
    vocabulary = ffwd.llama_cpp.vocabulary(llm)
    assert len(vocabulary) == llm.n_vocab()
    assert llm.token_eos() in vocabulary.eos
    for text in ['{"vendor": "Bright Glacier"}', "naïve 🙂 1840.00\n\tEUR"]:
        tokens = llm.tokenize(text.encode(), add_bos=False, special=True)
        assert vocabulary.decode(tokens).lstrip() == text.encode()
    assert all(not vocabulary.is_special(t) for t in llm.tokenize(b'{"a":1}', add_bos=False))


@pytest.mark.parametrize("options", WAYS)
def test_exact_decoding_is_masked_decoding(llm, grammar, options):
    processors = llama_cpp.LogitsProcessorList([ffwd.llama_cpp.LogitsProcessor(grammar)])
    masked = chat(llm, logits_processor=processors, **options)
    with ffwd.llama_cpp.ExactDecoding(llm, grammar, max_draft=0) as plain:
        assert chat(llm, **options) == masked
    with ffwd.llama_cpp.ExactDecoding(llm, grammar) as exact:
        assert chat(llm, **options) == masked
    text, reason = masked
    assert reason == "stop"
    assert list(json.loads(text)) == SCHEMA["required"]
    assert plain.statistics.tokens == exact.statistics.tokens
    assert plain.statistics.forwards >= plain.statistics.tokens
    assert exact.statistics.forwards < 0.7 * plain.statistics.forwards
    assert 0 < exact.statistics.accepted <= exact.statistics.drafted


def test_a_processor_serves_one_generation_after_another(llm, grammar):
    processor = ffwd.llama_cpp.LogitsProcessor(grammar)
    processors = llama_cpp.LogitsProcessorList([processor])
    assert chat(llm, logits_processor=processors, temperature=0.0) == chat(
        llm, logits_processor=processors, temperature=0.0
    )
    illegal = llm.tokenize(b"x", add_bos=False)
    processor.reset()
    logits = ffwd.llama_cpp.np.zeros(llm.n_vocab(), dtype="float32")
    processor([1, 2], logits)
    with pytest.raises(ValueError, match="not legal"):
        processor([1, 2, *illegal], logits)


def test_streams_stops_and_the_cache_of_the_prompt(llm, grammar):
    chat(llm, logits_processor=[ffwd.llama_cpp.LogitsProcessor(grammar)], temperature=0.0)
    # The cache has the prompt, and both read its last token alone, which rounds otherwise than before.
    processors = [ffwd.llama_cpp.LogitsProcessor(grammar)]
    again = llm.create_chat_completion(
        MESSAGES, max_tokens=150, temperature=0.0, logits_processor=processors
    )
    whole = again["choices"][0]["message"]["content"]
    with ffwd.llama_cpp.ExactDecoding(llm, grammar) as exact:
        parts = llm.create_chat_completion(MESSAGES, max_tokens=150, temperature=0.0, stream=True)
        text = "".join(part["choices"][0]["delta"].get("content", "") for part in parts)
        assert text == whole
        assert exact.statistics.forwards < exact.statistics.tokens
        stopped = llm.create_chat_completion(MESSAGES, temperature=0.0, stop=['"vendor"'])
        assert stopped["choices"][0]["message"]["content"] == whole.split('"vendor"')[0]
        limited = llm.create_chat_completion(MESSAGES, temperature=0.0, max_tokens=5)
        assert whole.startswith(limited["choices"][0]["message"]["content"])
        assert limited["choices"][0]["finish_reason"] == "length"
    # Outside of the block the model writes what it wants.
    assert "generate" not in vars(llm)


def test_other_processors_and_criteria_see_the_text_so_far(llm, grammar):
    seen, scores = [], []

    def processor(tokens, logits):
        seen.append(list(tokens))
        assert (logits > -ffwd.llama_cpp.np.inf).sum() >= 1
        return logits

    def criterion(tokens, logits):
        scores.append(len(tokens))
        assert logits.shape == (llm.n_vocab(),)
        return len(tokens) >= len(prompt) + 20

    prompt = llm.tokenize(TEXT.encode())
    with ffwd.llama_cpp.ExactDecoding(llm, grammar):
        tokens = list(
            llm.generate(prompt, temp=0.0, logits_processor=[processor], stopping_criteria=criterion)
        )
    assert len(tokens) == 20
    assert seen[:21] == [prompt + tokens[:i] for i in range(21)]
    assert scores == [len(prompt) + i for i in range(21)]


def test_wrong_uses_say_so(llm, small_compiler, grammar):
    other = small_compiler.compile(ffwd.Constraint.choice(["a"]))
    with pytest.raises(ValueError, match=r"ffwd\.llama_cpp\.vocabulary"):
        ffwd.llama_cpp.ExactDecoding(llm, other)
    with pytest.raises(ValueError, match="max_draft"):
        ffwd.llama_cpp.ExactDecoding(llm, grammar, max_draft=-1)
    with ffwd.llama_cpp.ExactDecoding(llm, grammar):
        with pytest.raises(ValueError, match="other grammar"):
            list(llm.generate([1], grammar=llama_cpp.LlamaGrammar.from_string('root ::= "a"', verbose=False)))
        with pytest.raises(RuntimeError, match="n_ctx"):
            list(llm.generate([1] * (llm.n_ctx() + 1), temp=0.0))

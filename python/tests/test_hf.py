"""transformers: the processor beside a slow reference, exact decoding beside masked `generate`.

The models are small random ones in float64, so that no two tokens are nearly equal. The folder
FFWD_TEST_HF_MODEL, if set, is a real model. FFWD_TEST_HF_DEVICE is where the models run, `cpu` if it
is not set, for example `cuda`.
"""

import importlib
import json
import os
import random
import sys

import pytest
from conftest import TOKENIZER

import ffwd

torch = pytest.importorskip("torch", reason="torch is not installed: transformers is not tested")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

import ffwd.hf  # noqa: E402
from ffwd.copies import LONGEST_MATCH, Copies, CopyLength  # noqa: E402
from ffwd.hf.exact import CACHE_NAMES  # noqa: E402
from ffwd.hf.device_masks import apply_on_device, masked  # noqa: E402

DEVICE = os.environ.get("FFWD_TEST_HF_DEVICE", "cpu")

RECORD = {
    "type": "object",
    "properties": {
        "customer_name": {"type": "string", "maxLength": 12},
        "quantity": {"type": "integer", "minimum": 0, "maximum": 999},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 2},
    },
    "required": ["customer_name", "quantity", "currency", "tags"],
    "additionalProperties": False,
}
CONSTRAINTS = [
    ffwd.Constraint.json_schema(RECORD),
    ffwd.Constraint.regex(r"(INV|ORD)-[0-9]{5}(, (INV|ORD)-[0-9]{5}){0,3}"),
    ffwd.Constraint.choice(["the first answer", "the second answer", "another one"]),
]
PROMPTS = ["INV-20417: customer_name Anna, quantity 17", "ORD-00001", "the second answer, the first"]


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(TOKENIZER), eos_token="<|im_end|>", pad_token="<|pad|>", padding_side="left"
    )


@pytest.fixture(scope="module")
def model(tokenizer):
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer) + 24,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return transformers.LlamaForCausalLM(config).to(DEVICE, torch.float64).eval()


@pytest.fixture(scope="module")
def compiler(model, tokenizer):
    return ffwd.Compiler(ffwd.hf.vocabulary(model, tokenizer))


def encode(tokenizer, text):
    return tokenizer([text], return_tensors="pt", return_token_type_ids=False).to(DEVICE)


def reference(model, grammar, ids, limit):
    """The most likely token that a fork of the matcher accepts, one whole forward a token."""
    matcher = grammar.matcher()
    ids = ids.clone()
    for _ in range(limit):
        with torch.no_grad():
            logits = model(input_ids=ids).logits[0, -1]
        order = logits.argsort(descending=True).tolist()
        token = next(token for token in order if matcher.fork().accept_token(token))
        matcher.accept_token(token)
        ids = torch.cat((ids, torch.tensor([[token]], device=ids.device)), dim=1)
        if matcher.is_terminated():
            break
    return ids[0].tolist()


def generate(model, inputs, grammar, *, prefetch=False, strict=True, **settings):
    processor = ffwd.hf.LogitsProcessor(grammar, strict=strict)
    settings = {"max_new_tokens": 60, "do_sample": False} | settings
    if prefetch:
        processor.prefetch.on_cpu = True
        settings["stopping_criteria"] = [processor.prefetch, *settings.get("stopping_criteria", [])]
    return model.generate(**inputs, logits_processor=[processor], **settings)


@pytest.mark.parametrize("number", range(len(CONSTRAINTS)))
def test_masked_generate_equals_the_slow_reference(model, tokenizer, compiler, number):
    grammar = compiler.compile(CONSTRAINTS[number])
    for prompt in PROMPTS:
        inputs = encode(tokenizer, prompt)
        found = generate(model, inputs, grammar)[0].tolist()
        assert found == reference(model, grammar, inputs.input_ids, 60)


def texts(tokenizer, output, prompt_length):
    return [tokenizer.decode(row[prompt_length:], skip_special_tokens=True) for row in output]


def test_each_row_of_a_batch_is_as_it_is_alone(model, tokenizer, compiler):
    grammars = [compiler.compile(constraint) for constraint in CONSTRAINTS]
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True, return_token_type_ids=False)
    batch = batch.to(DEVICE)
    together = texts(tokenizer, generate(model, batch, grammars), batch.input_ids.shape[1])
    for prompt, grammar, text in zip(PROMPTS, grammars, together, strict=True):
        inputs = encode(tokenizer, prompt)
        alone = texts(tokenizer, generate(model, inputs, grammar), inputs.input_ids.shape[1])
        assert alone == [text]


def test_several_results_and_beams_satisfy_the_grammar(model, tokenizer, compiler):
    grammar = compiler.compile(CONSTRAINTS[0])
    inputs = encode(tokenizer, PROMPTS[0])
    for settings in [
        {"do_sample": True, "num_return_sequences": 5},
        {"num_beams": 4, "num_return_sequences": 3},
        {"num_beams": 3, "do_sample": True, "temperature": 2.0},
    ]:
        processor = ffwd.hf.LogitsProcessor(grammar, strict=False)
        torch.manual_seed(3)
        output = model.generate(
            **inputs, logits_processor=[processor], max_new_tokens=100, **settings
        )
        for text in texts(tokenizer, output, inputs.input_ids.shape[1]):
            record = json.loads(text)
            assert list(record) == RECORD["required"] and 0 <= record["quantity"] <= 999


def test_drafts_of_transformers_change_nothing(model, tokenizer, compiler):
    for constraint, prompt in zip(CONSTRAINTS, PROMPTS, strict=True):
        grammar = compiler.compile(constraint)
        inputs = encode(tokenizer, prompt)
        processor = ffwd.hf.LogitsProcessor(grammar, strict=False)
        drafted = model.generate(
            **inputs,
            logits_processor=[processor],
            max_new_tokens=60,
            do_sample=False,
            prompt_lookup_num_tokens=4,
        )
        assert torch.equal(drafted, generate(model, inputs, grammar))


@pytest.mark.parametrize("prefetch", [False, True])
def test_a_processor_serves_one_generation_after_another(model, tokenizer, compiler, prefetch):
    processor = ffwd.hf.LogitsProcessor(compiler.compile(CONSTRAINTS[0]))
    processor.prefetch.on_cpu = True
    for prompt in [PROMPTS[0], PROMPTS[0], PROMPTS[1], PROMPTS[0] + PROMPTS[1]]:
        inputs = encode(tokenizer, prompt)
        found = model.generate(
            **inputs,
            logits_processor=[processor],
            stopping_criteria=[processor.prefetch] if prefetch else [],
            max_new_tokens=60,
            do_sample=False,
        )
        assert torch.equal(found, generate(model, inputs, compiler.compile(CONSTRAINTS[0])))


def test_masks_that_begin_early_are_the_same(model, tokenizer, compiler):
    grammars = [compiler.compile(constraint) for constraint in CONSTRAINTS]
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True, return_token_type_ids=False)
    batch = batch.to(DEVICE)
    for settings in [
        {},
        {"do_sample": True, "temperature": 1.5},
        {"do_sample": True, "num_return_sequences": 3},
        {"num_beams": 3, "strict": False},
    ]:
        outputs = []
        for prefetch in [False, True]:
            torch.manual_seed(2)
            outputs.append(generate(model, batch, grammars, prefetch=prefetch, **settings))
        assert torch.equal(*outputs), settings
    inputs = encode(tokenizer, PROMPTS[0])
    for settings in [
        {"strict": False, "prompt_lookup_num_tokens": 4},
        {"custom_generate": ffwd.hf.ExactDecoding()},
    ]:
        plain = generate(model, inputs, grammars[0])
        assert torch.equal(generate(model, inputs, grammars[0], prefetch=True, **settings), plain)


def test_a_call_uses_the_masks_of_its_own_ids_only(compiler):
    """Ids that begin early are taken for no others, and their errors come with the call."""
    grammar = compiler.compile(CONSTRAINTS[1])
    width = grammar.vocabulary.logits_size
    prompt = torch.zeros(2, 1, dtype=torch.int64, device=DEVICE)
    scores = torch.zeros(2, width, device=DEVICE)

    def legal(row):
        return (row == 0).nonzero().flatten().tolist()

    processor, other = (ffwd.hf.LogitsProcessor(grammar) for _ in range(2))
    first = legal(processor(prompt, scores)[0])
    other(prompt, scores)
    assert len(first) > 1
    chosen = torch.tensor([first[:1], first[-1:]], device=DEVICE)
    ids = torch.cat((prompt, chosen), dim=1)
    swapped = torch.cat((prompt, chosen.flip(0)), dim=1)
    processor.begin_masks(ids)
    assert torch.equal(processor(swapped, scores), other(swapped, scores))
    processor.begin_masks(swapped)
    assert torch.equal(processor(ids, scores), other(ids, scores))

    # A row with another past, one token longer than the last one.
    third = [[legal(row)[0]] for row in other(swapped, scores)]
    grown = torch.cat((swapped, torch.tensor(third, device=DEVICE)), dim=1)
    assert torch.equal(processor(grown, scores), other(grown, scores))
    processor(prompt, scores)
    second = legal(processor(ids, scores)[0])[0]
    illegal = next(token for token in range(width) if token not in legal(processor(ids, scores)[0]))
    wrong = torch.cat((ids, torch.full((2, 1), illegal, device=DEVICE)), dim=1)
    processor.begin_masks(wrong)
    with pytest.raises(ValueError, match="is not legal"):
        processor(wrong, scores)
    for _ in range(2):
        processor(prompt, scores)
        processor(ids, scores)
        processor.begin_masks(wrong)
        processor.reset()
    out_of_range = torch.cat((ids, torch.full((2, 1), width, device=DEVICE)), dim=1)
    processor(prompt, scores)
    processor(ids, scores)
    processor.begin_masks(out_of_range)
    with pytest.raises(ValueError, match="out of range"):
        processor(out_of_range, scores)
    assert second in legal(processor(ids, scores)[0])


def test_wrong_uses_are_refused(model, tokenizer, compiler, small_compiler):
    grammar = compiler.compile(CONSTRAINTS[2])
    inputs = encode(tokenizer, PROMPTS[0])
    with pytest.raises(ValueError, match="no grammar"):
        ffwd.hf.LogitsProcessor([])
    other = small_compiler.compile(ffwd.Constraint.regex("[0-9]+"))
    with pytest.raises(ValueError, match="different vocabularies"):
        ffwd.hf.LogitsProcessor([grammar, other])
    with pytest.raises(ValueError, match="logits_size="):
        generate(model, inputs, other)
    with pytest.raises(ValueError, match="2 grammars for 1 rows"):
        generate(model, inputs, [grammar, grammar])
    width = grammar.vocabulary.logits_size
    processor = ffwd.hf.LogitsProcessor(grammar)
    processor(inputs.input_ids, torch.zeros(1, width, device=DEVICE))
    ids = torch.cat((inputs.input_ids, torch.tensor([[width - 1]], device=DEVICE)), dim=1)
    with pytest.raises(ValueError, match="is not legal"):
        processor(ids, torch.zeros(1, width, device=DEVICE))
    tolerant = ffwd.hf.LogitsProcessor(grammar, strict=False)
    tolerant(inputs.input_ids, torch.zeros(1, width, device=DEVICE))
    masked = tolerant(ids, torch.zeros(1, width, device=DEVICE))
    assert (masked[0] == 0).nonzero().flatten().tolist() == grammar.vocabulary.eos


def test_the_expression_for_other_devices_equals_the_kernel():
    generator = torch.Generator().manual_seed(1)
    bitmask = torch.randint(-(2**31), 2**31, (3, 40), generator=generator).to(torch.int32)
    for width in [1280, 1279, 1249]:
        scores = torch.randn(3, width, generator=generator)
        kernel = scores.clone()
        ffwd.apply_token_bitmask_inplace(kernel, bitmask)
        for dtype in [torch.float32, torch.float16, torch.bfloat16]:
            given = scores.to(DEVICE, dtype)
            copy = masked(given, bitmask.to(DEVICE))
            assert torch.equal(given, scores.to(DEVICE, dtype))
            assert torch.equal(copy.cpu(), kernel.to(dtype))
            assert torch.equal(apply_on_device(given, bitmask).cpu(), kernel.to(dtype))


def test_the_kernel_of_triton_equals_the_expression(monkeypatch):
    pytest.importorskip("triton", reason="triton is not installed: its kernel is not tested")
    if DEVICE == "cpu":
        monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.delitem(sys.modules, "ffwd.hf.triton_mask", raising=False)
    kernel = importlib.import_module("ffwd.hf.triton_mask")
    generator = torch.Generator().manual_seed(3)
    bitmask = torch.randint(-(2**31), 2**31, (3, 300), generator=generator).to(torch.int32)
    for width in [9600, 9599, 8192, 33, 1]:
        scores = torch.randn(3, width + 7, generator=generator).to(DEVICE)
        for dtype in [torch.float32, torch.float16, torch.bfloat16]:
            # Rows that do not lie next to each other, then transposed ones.
            for given in [scores.to(dtype)[:, 3 : 3 + width], scores.to(dtype)[:, :width].T.contiguous().T]:
                found = kernel.masked(given, bitmask.to(DEVICE))
                assert torch.equal(found, apply_on_device(given.clone(), bitmask)), (width, dtype)
    monkeypatch.delitem(sys.modules, "ffwd.hf.triton_mask")


# Exact decoding.


@pytest.mark.parametrize("sampled", [False, True])
def test_exact_decoding_writes_what_generate_writes(model, tokenizer, compiler, sampled):
    rng = random.Random(5)
    forwards = tokens = 0
    for round in range(20):
        grammar = compiler.compile(CONSTRAINTS[round % len(CONSTRAINTS)])
        inputs = encode(tokenizer, " ".join(rng.sample(PROMPTS, 2)))
        settings = {"max_new_tokens": rng.choice([1, 7, 80])}
        if sampled:
            settings |= {"do_sample": True, "temperature": 1.3, "top_p": 0.95, "top_k": 40}
        elif rng.random() < 0.5:
            settings |= {"repetition_penalty": 1.2}
        exact = ffwd.hf.ExactDecoding(max_draft=rng.choice([1, 3, 16]), copy=rng.random() < 0.8)
        torch.manual_seed(round)
        plain = generate(model, inputs, grammar, **settings)
        torch.manual_seed(round)
        found = generate(model, inputs, grammar, custom_generate=exact, **settings)
        assert torch.equal(found, plain), (round, settings)
        statistics = exact.statistics
        assert statistics.tokens == plain.shape[1] - inputs.input_ids.shape[1]
        assert statistics.forwards + statistics.accepted >= statistics.tokens
        forwards, tokens = forwards + statistics.forwards, tokens + statistics.tokens
    assert forwards < 0.8 * tokens


def test_exact_decoding_returns_scores_and_streams(model, tokenizer, compiler):
    grammar = compiler.compile(CONSTRAINTS[0])
    inputs = encode(tokenizer, PROMPTS[0])
    settings = {"return_dict_in_generate": True, "output_scores": True, "output_logits": True}
    plain = generate(model, inputs, grammar, **settings)
    streamer = transformers.TextIteratorStreamer(tokenizer, skip_prompt=True)
    exact = ffwd.hf.ExactDecoding(streamer=streamer)
    found = generate(model, inputs, grammar, custom_generate=exact, **settings)
    assert torch.equal(found.sequences, plain.sequences)
    new = plain.sequences[0, inputs.input_ids.shape[1] :]
    assert "".join(streamer) == tokenizer.decode(new)
    assert len(found.scores) == len(found.logits) == len(plain.scores) == len(new)
    for ours, theirs in zip(found.scores + found.logits, plain.scores + plain.logits, strict=True):
        torch.testing.assert_close(ours, theirs)
    cache = next(found[name] for name in CACHE_NAMES if found.get(name) is not None)
    assert cache.get_seq_length() == found.sequences.shape[1] - 1


def test_exact_decoding_takes_a_padded_prompt_and_stops_at_strings(model, tokenizer, compiler):
    grammar = compiler.compile(CONSTRAINTS[0])
    inputs = tokenizer(
        [PROMPTS[0]],
        return_tensors="pt",
        padding="max_length",
        max_length=40,
        return_token_type_ids=False,
    ).to(DEVICE)
    assert (inputs.attention_mask == 0).any()
    stop = transformers.StopStringCriteria(tokenizer, ["quantity"])
    for criteria in [[], [stop]]:
        plain = generate(model, inputs, grammar, stopping_criteria=criteria)
        exact = ffwd.hf.ExactDecoding()
        found = generate(
            model, inputs, grammar, custom_generate=exact, stopping_criteria=criteria
        )
        assert torch.equal(found, plain)


def test_exact_decoding_rolls_back_a_sliding_window(tokenizer, compiler):
    torch.manual_seed(11)
    config = transformers.MistralConfig(
        vocab_size=compiler.vocabulary.logits_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=12,
        initializer_range=0.5,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = transformers.MistralForCausalLM(config).to(DEVICE, torch.float64).eval()
    for prompt in PROMPTS:
        inputs = encode(tokenizer, prompt)
        for constraint in CONSTRAINTS:
            grammar = compiler.compile(constraint)
            plain = generate(model, inputs, grammar)
            exact = ffwd.hf.ExactDecoding()
            assert torch.equal(
                generate(model, inputs, grammar, custom_generate=exact), plain
            )


def test_exact_decoding_refuses_what_it_cannot_do(model, tokenizer, compiler):
    grammar = compiler.compile(CONSTRAINTS[0])
    inputs = encode(tokenizer, PROMPTS[0])
    exact = ffwd.hf.ExactDecoding()
    with pytest.raises(ValueError, match="must be at least 1"):
        ffwd.hf.ExactDecoding(max_draft=0)
    with pytest.raises(ValueError, match=r"one ffwd\.hf\.LogitsProcessor"):
        model.generate(**inputs, custom_generate=exact, max_new_tokens=4)
    with pytest.raises(ValueError, match="one sequence, not 2"):
        generate(
            model, inputs, grammar, custom_generate=exact, num_return_sequences=2, do_sample=True
        )
    with pytest.raises(ValueError, match="cache"):
        generate(model, inputs, grammar, custom_generate=exact, use_cache=False)


def naive_copy(text, draft, limit):
    """The longest of the last tokens that occurs earlier in the text, then its latest place."""
    whole = text + draft
    for length in range(min(LONGEST_MATCH, len(whole)), 0, -1):
        for end in range(len(text) - 1, length - 1, -1):
            if text[end - length : end] == whole[-length:]:
                return text[end : end + limit]
    return []


def test_copies_equal_a_naive_search():
    rng = random.Random(4)
    found = 0
    for _ in range(200):
        copies, alphabet = Copies(), range(rng.randrange(2, 9))
        for _ in range(rng.randrange(1, 8)):
            copies.extend(rng.choices(alphabet, k=rng.randrange(0, 6)))
            draft = rng.choices(alphabet, k=rng.randrange(0, 6))
            limit = rng.randrange(0, 6)
            copy = copies.find(draft, limit)
            assert copy == (naive_copy(copies.text, draft, limit) if limit else [])
            found += bool(copy)
    assert found > 100


def test_copies_grow_with_success_and_pause_after_failures():
    copies = CopyLength(16)
    lengths = []
    for accepted in [8, 3, 1, 4]:
        lengths.append(copies.length)
        copies.learn(copies.length, accepted)
    assert (lengths, copies.length) == ([8, 16, 6, 4], 8)
    for _ in range(CopyLength.FAILURES):
        assert copies.length > 0
        copies.learn(copies.length, 0)
    waits = []
    for _ in range(4):
        wait = 0
        while copies.length == 0:
            copies.learn(0, 0)
            wait += 1
        waits.append(wait)
        copies.learn(copies.length, 0)
    assert waits == [2, 4, 8, 16]
    while copies.length == 0:
        copies.learn(0, 0)
    copies.learn(copies.length, 1)
    copies.learn(copies.length, 0)
    assert copies.length > 0, "one success ends the series of failures"


@pytest.mark.skipif(
    not os.environ.get("FFWD_TEST_HF_MODEL"), reason="FFWD_TEST_HF_MODEL is not set: no real model"
)
def test_a_real_model_writes_the_same_record():
    folder = os.environ["FFWD_TEST_HF_MODEL"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model = model.to(DEVICE).eval()
    grammar = ffwd.Compiler(ffwd.hf.vocabulary(model, tokenizer)).compile(CONSTRAINTS[0])
    text = "Anna Berg bought 17 red chairs for 340 EUR."
    inputs = encode(tokenizer, f"Write as JSON: {text}\n")
    exact = ffwd.hf.ExactDecoding()
    found = generate(model, inputs, grammar, custom_generate=exact)
    assert torch.equal(found, generate(model, inputs, grammar))
    assert exact.statistics.forwards < exact.statistics.tokens
    json.loads(texts(tokenizer, found, inputs.input_ids.shape[1])[0])

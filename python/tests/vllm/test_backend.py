"""The backend against vLLM's contract, without an engine."""

import json
import random

from vllm_helpers import *  # noqa: F403, I001  (skips the file: it must come first)
from vllm_helpers import (
    CONSTRAINTS,
    INVOICE,
    NAMES,
    TAG,
    Kind,
    legal_tokens,
    make_backend,
    random_token,
)
import numpy as np
import pytest
import torch

import ffwd

WALKS = 12
STEPS = 40


@pytest.fixture(params=range(len(CONSTRAINTS)), ids=NAMES)
def both(request, backend, reference):
    """Make a grammar of the backend and a plain matcher of the same constraint."""
    kind, text, constraint = CONSTRAINTS[request.param]
    compiled = ffwd.Compiler(reference).compile(constraint())
    return lambda stops=None: (backend.compile_grammar(kind, text, stops), compiled.matcher())


def test_walks_have_the_rows_of_a_plain_matcher(both, backend, reference, request):
    """Also after rollbacks, and with the drafts validated that a plain matcher accepts."""
    own = ffwd.allocate_token_bitmask(1, reference)
    bitmask = backend.allocate_token_bitmask(3)
    assert bitmask.shape == (3, reference.bitmask_words) and bool((bitmask == -1).all())
    ended = 0
    for seed in range(WALKS):
        rng = random.Random(seed)
        grammar, plain = both()
        for step in range(STEPS):
            assert grammar.is_terminated() == plain.is_terminated()
            if plain.is_terminated():
                assert grammar.accept_tokens("r", [5, 6]) and grammar.validate_tokens([5]) == []
            else:
                legal = legal_tokens(plain, own)
                grammar.fill_bitmask(bitmask, step % 3)
                assert np.array_equal(bitmask[step % 3].numpy(), own[0].view("int32"))
                draft = walk(rng, plain, reference, own)
                assert grammar.validate_tokens(draft) == draft[: plain.validate_tokens(draft)]
                token = random_token(rng, legal, reference)
                assert grammar.accept_tokens("r", [token]) and plain.accept_token(token)
                ended += plain.is_terminated()
            if plain.num_accepted and rng.random() < (0.5 if plain.is_terminated() else 0.2):
                count = rng.randint(1, plain.num_accepted)
                grammar.rollback(count)
                plain.rollback(count)
        grammar.reset()
        plain.reset()
        legal_tokens(plain, own)
        grammar.fill_bitmask(bitmask, 0)
        assert np.array_equal(bitmask[0].numpy(), own[0].view("int32"))
    assert ended > 0 or "json" in request.node.name


def walk(rng, plain, vocabulary, own):
    """A draft of up to six tokens, the last of which is arbitrary at times."""
    fork, draft = plain.fork(), []
    for _ in range(rng.randint(0, 6)):
        if fork.is_terminated():
            break
        token = random_token(rng, legal_tokens(fork, own), vocabulary)
        fork.accept_token(token)
        draft.append(token)
    if rng.random() < 0.3:
        draft.append(rng.randrange(len(vocabulary)))
    return draft


def test_the_end_can_be_rolled_back(backend, reference):
    grammar = backend.compile_grammar(Kind.CHOICE, '["yes"]')
    end = reference.eos[0]
    yes = reference.encode("yes")
    assert grammar.validate_tokens([*yes, end, 7, 8]) == [*yes, end]
    assert grammar.accept_tokens("r", [*yes, end, 7, 8])
    assert grammar.is_terminated()
    grammar.rollback(1)
    assert not grammar.is_terminated()
    assert grammar.validate_tokens([end]) == [end]
    grammar.rollback(len(yes))
    assert grammar.validate_tokens(yes) == yes


def test_wrong_tokens_are_refused(backend, reference):
    grammar = backend.compile_grammar(Kind.CHOICE, '["yes"]')
    wrong = reference.encode("no")[0]
    yes = reference.encode("yes")
    size = reference.logits_size
    for tokens in ([wrong], [size], [size + 10**9], [*yes, wrong]):
        fresh = backend.compile_grammar(Kind.CHOICE, '["yes"]')
        assert not fresh.accept_tokens("r", tokens)
    assert grammar.validate_tokens([*yes, -1, -1]) == yes
    assert grammar.validate_tokens([reference.logits_size]) == []
    assert grammar.accept_tokens("r", [*yes, -1])
    assert grammar.validate_tokens([reference.eos[0]]) == [reference.eos[0]]


def test_stop_tokens_of_a_request_end_it(backend, reference):
    """Any token may be one: it is legal where the output may end, and there only."""
    stop = reference.encode("7")[0]
    grammar = backend.compile_grammar(Kind.REGEX, "[0-9]{2,4}", {stop, *reference.eos, 10**9})
    plain = backend.compile_grammar(Kind.REGEX, "[0-9]{2,4}")
    bitmask = backend.allocate_token_bitmask(2)
    one = reference.encode("1")[0]
    for count in range(5):
        grammar.fill_bitmask(bitmask, 0)
        plain.fill_bitmask(bitmask, 1)
        differ = {int(i) for i in np.flatnonzero(np.not_equal(bits(bitmask[0]), bits(bitmask[1])))}
        assert differ == ({stop} if count < 2 or count == 4 else set())
        assert bits(bitmask[0])[stop] == (count >= 2)
        assert grammar.validate_tokens([stop, one]) == ([stop] if count >= 2 else [])
        if count < 4:
            assert grammar.accept_tokens("r", [one]) and plain.accept_tokens("r", [one])
    assert grammar.accept_tokens("r", [stop, one]) and grammar.is_terminated()
    grammar.rollback(3)
    assert not grammar.is_terminated()
    assert grammar.validate_tokens([one, one, one]) == [one, one]
    assert not backend.compile_grammar(Kind.REGEX, "7+", {stop}).accept_tokens("r", [stop])


def bits(row):
    return np.unpackbits(row.numpy().view("uint8"), bitorder="little")


def test_options_of_json_texts(tokenizer, reference, monkeypatch):
    texts = {
        "compact": '{"city":"x"}',
        "spaced": '{"city": "x"}',
        "free": '{ "city":\n"x" }',
        "more": '{"city":"x","other":1}',
    }
    schema = json.dumps({"type": "object", "properties": {"city": {"type": "string"}}})

    def accepted(backend, spec=schema):
        found = set()
        for name, text in texts.items():
            grammar = backend.compile_grammar(Kind.JSON, spec)
            if grammar.accept_tokens("r", [*reference.encode(text), reference.eos[0]]):
                found.add(name)
        return found

    size = reference.logits_size
    assert accepted(make_backend(tokenizer, size)) == {"compact", "more"}
    closed = make_backend(tokenizer, size, disable_additional_properties=True)
    assert accepted(closed) == {"compact"}
    monkeypatch.setenv("FFWD_VLLM_WHITESPACE", "single_space")
    assert accepted(make_backend(tokenizer, size)) == {"spaced"}
    monkeypatch.setenv("FFWD_VLLM_WHITESPACE", "8")
    assert accepted(make_backend(tokenizer, size)) >= {"compact", "spaced", "free"}
    compact = make_backend(tokenizer, size, disable_any_whitespace=True)
    assert accepted(compact) == {"compact", "more"}
    monkeypatch.setenv("FFWD_VLLM_WHITESPACE", "nonsense")
    with pytest.raises(ValueError, match="FFWD_VLLM_WHITESPACE"):
        accepted(make_backend(tokenizer, size))


def test_grammars_of_both_notations(backend, reference):
    """The text decides, and where it misleads, the other notation is tried."""
    assert backend.compile_grammar(Kind.GRAMMAR, 'start: "::=" "x"').accept_tokens(
        "r", [*reference.encode("::=x"), reference.eos[0]]
    )
    with pytest.raises(ffwd.Error, match="::="):
        backend.compile_grammar(Kind.GRAMMAR, "root ::= (")


def test_tool_calls_of_all_models_compile(backend):
    """The structural tags of each model that vLLM knows, in all choices of tools."""
    import vllm.tool_parsers.structural_tag_registry as registry
    from vllm.entrypoints.openai.chat_completion.protocol import (
        ChatCompletionNamedToolChoiceParam,
        ChatCompletionToolsParam,
    )

    parameters = {**INVOICE, "required": ["number"]}
    tools = [
        ChatCompletionToolsParam(
            type="function",
            function={"name": name, "description": "x", "parameters": parameters, "strict": True},
        )
        for name in ("first", "second")
    ]
    choices = ["auto", "required", ChatCompletionNamedToolChoiceParam(function={"name": "first"})]
    models = registry.SUPPORTED_STRUCTURAL_TAG_MODELS | set(registry._VLLM_STRUCTURAL_TAG_REGISTRY)
    compiled = 0
    for model in sorted(models):
        for choice in choices:
            for reasoning in (False, True):
                tag = registry.get_model_structural_tag(
                    model=model, tools=tools, tool_choice=choice, reasoning=reasoning
                )
                if tag is None:
                    continue
                text = tag if isinstance(tag, str) else json.dumps(tag.model_dump(mode="json"))
                backend.compile_grammar(Kind.STRUCTURAL_TAG, text)
                compiled += 1
    assert compiled >= 6 * len(models) - 6


def test_mistral_tokenizers(tmp_path):
    """A tekken file and a SentencePiece model of mistral-common, as vLLM loads them."""
    import shutil
    from pathlib import Path

    import mistral_common
    from vllm.tokenizers.mistral import MistralTokenizer

    files = sorted((Path(mistral_common.__file__).parent / "data").glob("*"))
    chosen = [f for f in files if f.name.startswith("tekken")][:1] + [
        f for f in files if f.name.endswith(".v3")
    ]
    if not chosen:
        pytest.skip("mistral-common has no tokenizers with it")
    for file in chosen:
        folder = tmp_path / file.name
        folder.mkdir()
        tekken = file.name.startswith("tekken")
        shutil.copy(file, folder / ("tekken.json" if tekken else file.name))
        tokenizer = MistralTokenizer.from_pretrained(str(folder))
        backend = make_backend(tokenizer, tokenizer.vocab_size)
        grammar = backend.compile_grammar(Kind.JSON, json.dumps({"const": {"näme": "Zoë 猫"}}))
        ids = tokenizer.encode('{"näme":"Zoë 猫"}', add_special_tokens=False)
        if not tekken:  # SentencePiece writes a space in front of a text
            ids = tokenizer.encode('\n{"näme":"Zoë 猫"}', add_special_tokens=False)[2:]
        assert grammar.accept_tokens("r", [*ids, tokenizer.eos_token_id]), file.name
        assert grammar.is_terminated()


def test_old_and_new_tags_are_read_without_a_type(backend):
    for tag in (TAG, {"format": {"type": "const_string", "value": "x"}}):
        backend.compile_grammar(Kind.STRUCTURAL_TAG, json.dumps(tag))
    with pytest.raises(ffwd.Error):
        backend.compile_grammar(Kind.STRUCTURAL_TAG, "[]")


def test_the_bitmask_of_torch_is_shared(backend):
    """A row is written in place: no copy of the tensor is filled instead."""
    bitmask = backend.allocate_token_bitmask(2)
    backend.compile_grammar(Kind.CHOICE, '["yes"]').fill_bitmask(bitmask, 1)
    assert bool((bitmask[0] == -1).all()) and not bool((bitmask[1] == -1).all())
    assert bitmask.dtype == torch.int32

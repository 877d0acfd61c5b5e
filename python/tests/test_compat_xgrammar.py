"""`ffwd.compat.xgrammar`: its masks are those of the plain matcher, its calls those of XGrammar."""

import json
import random

import pytest
from conftest import SMALL, legal_bits

import ffwd

torch = pytest.importorskip("torch")
xgr = pytest.importorskip("ffwd.compat.xgrammar")

# A vocabulary with all bytes of JSON, a few joined ones, and an end.
TOKENS = [*SMALL, b"</s>"]
END = len(SMALL)
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "boolean"}}},
    "required": ["a"],
}


WITHOUT_NUMBERS = {
    "type": "object",
    "properties": {
        "a": {"enum": ["12", "1"]},
        "b": {"type": "array", "items": {"type": "boolean"}, "minItems": 1},
    },
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def info():
    return xgr.TokenizerInfo(TOKENS)


@pytest.fixture(scope="module")
def compiler(info):
    return xgr.GrammarCompiler(info)


def walk(ours, plain, rounds=30, seed=1):
    """Random walks: each mask equals that of the plain matcher on the tokens that exist."""
    random.seed(seed)
    bitmask = xgr.allocate_token_bitmask(3, len(TOKENS))
    assert bitmask.dtype == torch.int32 and bitmask.shape == (3, -(-len(TOKENS) // 32))
    width = plain.vocabulary.logits_size
    row = torch.zeros(1, -(-width // 32), dtype=torch.int32)
    for _ in range(rounds):
        ours.fill_next_token_bitmask(bitmask, 1)
        plain.fill_next_token_bitmask(row)
        legal = {token for token in legal_bits(row[0].tolist()) if token < len(TOKENS)}
        assert legal_bits(bitmask[1].tolist()) == legal
        assert ours.find_jump_forward_string() == plain.find_jump_forward_string()
        assert ours.is_completed() == plain.is_accepting()
        refused = random.choice([t for t in range(len(TOKENS) + 40) if t not in legal])
        assert not ours.accept_token(refused)
        if not legal:
            break
        token = random.choice(sorted(legal))
        assert ours.accept_token(token) and plain.accept_token(token)
        if ours.is_terminated():
            assert token == END
            break
    return bitmask


CASES = {
    "schema": (
        lambda c: c.compile_json_schema(SCHEMA, any_whitespace=False, separators=(",", ":")),
        lambda: ffwd.Constraint.json_schema(SCHEMA, exponent=True, closed_objects=True),
    ),
    "schema with spaces": (
        lambda c: c.compile_json_schema(json.dumps(SCHEMA), any_whitespace=False),
        lambda: ffwd.Constraint.json_schema(
            SCHEMA, whitespace="single_space", exponent=True, closed_objects=True
        ),
    ),
    "open schema": (
        lambda c: c.compile_json_schema(SCHEMA, strict_mode=False, max_whitespace_cnt=2),
        lambda: ffwd.Constraint.json_schema(SCHEMA, whitespace=2, exponent=True),
    ),
    "any order": (
        lambda c: c.compile_json_schema(SCHEMA, any_whitespace=False, any_order=True),
        lambda: ffwd.Constraint.json_schema(
            SCHEMA,
            whitespace="single_space",
            exponent=True,
            closed_objects=True,
            key_order="any",
        ),
    ),
    "regex": (lambda c: c.compile_regex("[ab]{2,5}1"), lambda: ffwd.Constraint.regex("[ab]{2,5}1")),
    "ebnf": (
        lambda c: c.compile_grammar('start ::= "a" start | "b"', root_rule_name="start"),
        lambda: ffwd.Constraint.gbnf('root ::= "a" root | "b"'),
    ),
    "lark": (
        lambda c: c.compile_lark('start: "a" | "[" start "]"'),
        lambda: ffwd.Constraint.lark('start: "a" | "[" start "]"'),
    ),
    "json": (
        lambda c: c.compile_builtin_json_grammar(),
        lambda: ffwd.Constraint.json_schema(
            {"type": ["object", "array"]}, whitespace=24, exponent=True
        ),
    ),
    "concat": (
        lambda c: c.compile_grammar(
            xgr.Grammar.concat(xgr.Grammar.from_regex("a+"), xgr.Grammar.from_ebnf('root ::= "1"'))
        ),
        lambda: ffwd.Constraint.regex("a+1"),
    ),
    "union": (
        lambda c: c.compile_grammar(
            xgr.Grammar.union(xgr.Grammar.from_regex("a+"), xgr.Grammar.from_ebnf('root ::= "1"'))
        ),
        lambda: ffwd.Constraint.regex("a+|1"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_masks_are_those_of_the_plain_matcher(name, compiler, info):
    compile_ours, constraint = CASES[name]
    plain = ffwd.Compiler(info.vocabulary).compile(constraint())
    for seed in range(5):
        walk(xgr.GrammarMatcher(compile_ours(compiler)), plain.matcher(), seed=seed)


TAG = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["["],
        "tags": [
            {
                "type": "tag",
                "begin": "[a",
                "content": {"type": "regex", "pattern": "1+"},
                "end": "]",
            }
        ],
    },
}


def test_structural_tags_of_all_forms(compiler, info):
    plain = ffwd.Compiler(info.vocabulary).compile(ffwd.Constraint.structural_tag(TAG))
    st = xgr.structural_tag
    built = xgr.StructuralTag(
        format=st.TriggeredTagsFormat(
            triggers=["["],
            tags=[st.TagFormat(begin="[a", content=st.RegexFormat(pattern="1+"), end="]")],
        )
    )
    untyped = {"format": TAG["format"]}
    for tag in (TAG, json.dumps(TAG), built, xgr.StructuralTag.from_json(TAG), untyped):
        matcher = xgr.GrammarMatcher(compiler.compile_structural_tag(tag))
        walk(matcher, plain.matcher())
    legacy = xgr.StructuralTagItem(begin="[a", schema={"const": 1}, end="]")
    matcher = xgr.GrammarMatcher(compiler.compile_structural_tag([legacy], ["["]))
    assert matcher.accept_string("12[a1]0") and not matcher.fork().accept_string("[a2")
    with pytest.raises(xgr.InvalidStructuralTagError):
        xgr.Grammar.from_structural_tag({"type": "structural_tag", "format": {"type": "none"}})
    with pytest.raises(xgr.InvalidJSONError):
        xgr.Grammar.from_structural_tag("{")
    with pytest.raises(TypeError, match="lacks"):
        st.TagFormat(begin="a")


def test_texts_are_one_step_of_rollback(compiler):
    matcher = xgr.GrammarMatcher(compiler.compile_regex("[abc]{1,9}"))
    a, abc = SMALL.index(b"a"), SMALL.index(b"abc")
    assert matcher.accept_token(a) and matcher.accept_string("bcb") and matcher.accept_token(abc)
    state = matcher.fork()
    matcher.rollback(2)
    assert matcher.matcher.num_accepted == 1
    assert matcher.accept_string("bc") and matcher.accept_string(b"a")
    matcher.rollback(3)
    assert matcher.matcher.num_accepted == 0
    state.rollback(3)
    assert state.matcher.num_accepted == 0
    with pytest.raises(RuntimeError, match="roll back"):
        state.rollback(1)
    assert matcher.accept_string("a") and matcher.accept_token(END) and matcher.is_terminated()
    assert not matcher.accept_token(END) and not matcher.accept_string("a")
    with pytest.raises(RuntimeError, match="terminated"):
        matcher.fill_next_token_bitmask(xgr.allocate_token_bitmask(1, len(TOKENS)))
    matcher.rollback()
    assert not matcher.is_terminated() and matcher.is_completed()
    matcher.reset()
    assert not matcher.is_completed()


def test_stop_tokens(compiler, info):
    assert info.stop_token_ids == [END]
    grammar = compiler.compile_regex("a{1,2}")
    a = SMALL.index(b"a")
    other = xgr.GrammarMatcher(grammar, override_stop_tokens=[3, 4])
    bitmask = xgr.allocate_token_bitmask(1, info.vocab_size)
    other.accept_token(a)
    other.fill_next_token_bitmask(bitmask)
    assert legal_bits(bitmask[0].tolist()) == {a, 3, 4} and other.stop_token_ids == [3, 4]
    ab = SMALL.index(b"ab")
    letters = compiler.compile_regex("[ab]{1,3}")
    assert xgr.GrammarMatcher(letters).accept_token(ab)
    text = xgr.GrammarMatcher(letters, override_stop_tokens=ab)
    assert not text.accept_token(ab), "a stop token is no text"
    with pytest.raises(RuntimeError, match="beyond"):
        xgr.GrammarMatcher(grammar, override_stop_tokens=[info.vocab_size])
    assert not other.accept_token(END) and other.accept_token(4) and other.is_terminated()
    without = xgr.GrammarMatcher(grammar, terminate_without_stop_token=True)
    assert not without.is_terminated() and without.accept_token(a) and without.is_terminated()
    without.fill_next_token_bitmask(bitmask)
    assert legal_bits(bitmask[0].tolist()) == {a}
    with pytest.warns(DeprecationWarning):
        xgr.GrammarMatcher(grammar, max_rollback_tokens=3)


def test_batches(compiler, info):
    grammars = [compiler.compile_regex(p) for p in ("a+", "b+", "[ab]1")]
    matchers = [xgr.GrammarMatcher(grammar) for grammar in grammars]
    batch = xgr.BatchGrammarMatcher(max_threads=2)
    together = xgr.allocate_token_bitmask(4, info.vocab_size)
    batch.batch_fill_next_token_bitmask(matchers, together, [3, 0, 1])
    alone = xgr.allocate_token_bitmask(4, info.vocab_size)
    for matcher, row in zip(matchers, [3, 0, 1]):
        matcher.fill_next_token_bitmask(alone, row)
    assert torch.equal(together, alone) and (together[2] == -1).all()
    a, b = SMALL.index(b"a"), SMALL.index(b"b")
    assert batch.batch_accept_token(matchers, [a, a, b]) == [True, False, True]
    assert batch.batch_accept_string(matchers, ["aa", "b", "2"]) == [True, True, False]
    batch.batch_rollback(matchers, [2, 1, 1])
    assert [matcher.matcher.num_accepted for matcher in matchers] == [0, 0, 0]
    with pytest.raises(RuntimeError, match="2 tokens for 3"):
        batch.batch_accept_token(matchers, [a, b])


def test_a_tree_of_drafts(compiler, info):
    a, b, one = (SMALL.index(text) for text in (b"a", b"b", b"1"))
    matcher = xgr.GrammarMatcher(compiler.compile_regex("a(b|a1|aa)"))
    assert matcher.accept_token(a)
    # Node 0 is `a`; its children are `b`, `a`, `1`; the child of `a` is `1`.
    children = torch.tensor([1, -1, 4, -1, -1])
    siblings = torch.tensor([-1, 2, 3, -1, -1])
    tokens = torch.tensor([a, b, a, one, one])
    bitmask = xgr.allocate_token_bitmask(5, info.vocab_size)
    assert matcher.traverse_draft_tree(children, siblings, tokens, bitmask)
    assert matcher.matcher.num_accepted == 1
    for node, path in [(0, []), (1, [b]), (2, [a]), (4, [a, one])]:
        fork = matcher.fork()
        assert all(fork.accept_token(token) for token in path)
        row = xgr.allocate_token_bitmask(1, info.vocab_size)
        fork.fill_next_token_bitmask(row)
        assert torch.equal(row[0], bitmask[node]), node
    assert (bitmask[3] == 0).all(), "after an illegal draft nothing is legal"
    for wrong in (torch.tensor([1, 0, -1, -1, -1]), torch.tensor([1, -1, 9, -1, -1])):
        with pytest.raises(RuntimeError):
            matcher.traverse_draft_tree(wrong, siblings, tokens, bitmask)
    with pytest.raises(RuntimeError, match="rows|shape"):
        matcher.traverse_draft_tree(children, siblings, tokens, bitmask[:3])


def test_logits(compiler, info):
    width = info.vocab_size
    bitmask = torch.randint(-(1 << 31), 1 << 31, (3, -(-width // 32)), dtype=torch.int32)
    legal = xgr.testing.bitmask_to_bool_mask(bitmask, width)
    assert torch.equal(
        xgr.testing.bool_mask_to_bitmask(legal), xgr.testing.bool_mask_to_bitmask(legal)
    )
    for dtype in (torch.float32, torch.bfloat16):
        logits = torch.randn(3, width, dtype=dtype)
        masked = logits.clone()
        xgr.apply_token_bitmask_inplace(masked, bitmask, indices=[0, 2])
        expected = logits.masked_fill(~legal, float("-inf"))
        expected[1] = logits[1]
        assert torch.equal(masked, expected)
        wide = torch.randn(3, 32 * bitmask.shape[1] + 9)
        before = wide.clone()
        with pytest.warns(UserWarning, match="left unmasked"):
            xgr.apply_token_bitmask_inplace(wide, bitmask)
        assert torch.equal(wide[:, -9:], before[:, -9:])
        narrow = before.clone()
        xgr.apply_token_bitmask_inplace(narrow, bitmask, vocab_size=10)
        assert torch.equal(
            narrow[:, :10], before[:, :10].masked_fill(~legal[:, :10], float("-inf"))
        )
        assert torch.equal(narrow[:, 10:], before[:, 10:])
    with pytest.raises(ValueError, match="backend"):
        xgr.apply_token_bitmask_inplace(logits, bitmask, backend="none")


def test_the_cache_is_bounded_and_keyed_by_options(info):
    compiler = xgr.GrammarCompiler(info, cache_limit_bytes=-1)
    one = compiler.compile_json_schema(SCHEMA)
    assert compiler.compile_json_schema(json.dumps(SCHEMA)) is one
    assert compiler.compile_json_schema(SCHEMA, strict_mode=False) is not one
    assert compiler.get_cache_size_bytes() >= one.memory_size_bytes > 0
    compiler.clear_cache()
    assert compiler.get_cache_size_bytes() == 0
    small = xgr.GrammarCompiler(info, cache_limit_bytes=1)
    small.compile_regex("a")
    assert small.get_cache_size_bytes() <= 1
    off = xgr.GrammarCompiler(info, cache_enabled=False)
    assert off.compile_regex("a") is not off.compile_regex("a")


def test_what_is_refused_names_its_argument(compiler):
    for call, name in [
        (lambda: xgr.Grammar.from_json_schema(SCHEMA, any_whitespace=False, indent=2), "indent"),
        (
            lambda: xgr.Grammar.from_json_schema(
                SCHEMA, any_whitespace=False, separators=("; ", ": ")
            ),
            "separators",
        ),
        (lambda: xgr.Grammar.from_regex("a", print_converted_ebnf=True), "print_converted_ebnf"),
        (lambda: xgr.Grammar.from_lark("start: @x", named_grammars={"x": "a"}), "named_grammars"),
        (
            lambda: compiler.compile_grammar('root ::= "a"\nb ::= "b"', root_rule_name="b"),
            "root_rule",
        ),
        (lambda: xgr.testing._regex_to_ebnf("a"), "_regex_to_ebnf"),
    ]:
        with pytest.raises(ffwd.Error, match=name) as error:
            call()
        assert error.value.kind == "unsupported"
    with pytest.raises(RuntimeError) as wrong:
        compiler.compile_json_schema({"type": "strin"})
    assert isinstance(wrong.value, ffwd.Error) and wrong.value.pointer == "/type"
    with pytest.raises(RuntimeError):
        compiler.compile_regex("(")


def test_serialised_forms_are_read_again(compiler, info):
    again = xgr.TokenizerInfo.deserialize_json(info.serialize_json())
    assert again.decoded_vocab == info.decoded_vocab and again.stop_token_ids == [END]
    assert xgr.TokenizerInfo.from_vocab_and_metadata(
        TOKENS, info.dump_metadata()
    ).vocab_size == len(TOKENS)
    for grammar in (
        xgr.Grammar.from_json_schema(SCHEMA),
        xgr.Grammar.concat(xgr.Grammar.from_regex("a"), xgr.Grammar.builtin_json_grammar()),
    ):
        copy = xgr.Grammar.deserialize_json(grammar.serialize_json())
        assert str(copy) == str(grammar)
        left, right = (compiler.compile_grammar(g) for g in (grammar, copy))
        walk(xgr.GrammarMatcher(left), xgr.GrammarMatcher(right).matcher)
    compiled = compiler.compile_regex("a+")
    text = compiled.serialize_json()
    assert xgr.CompiledGrammar.deserialize_json(text, info).grammar.constraint
    with pytest.raises(xgr.DeserializeFormatError, match="tokenizer"):
        xgr.CompiledGrammar.deserialize_json(text, xgr.TokenizerInfo([b"a", b"</s>"]))
    for wrong, error in [
        ("{", xgr.InvalidJSONError),
        ("{}", xgr.DeserializeFormatError),
        ('{"__VERSION__": "0"}', xgr.DeserializeVersionError),
    ]:
        with pytest.raises(error):
            xgr.Grammar.deserialize_json(wrong)
        with pytest.raises(error):
            xgr.TokenizerInfo.deserialize_json(wrong)


def test_vocabularies_of_all_types():
    fallback = xgr.TokenizerInfo(["<0x0A>", "\u2581a", "</s>"], xgr.VocabType.BYTE_FALLBACK)
    assert fallback.decoded_vocab == [b"\n", b" a", b"</s>"]
    level = xgr.TokenizerInfo(["\u0120a", "\u010a", "caf\u00c3\u00a9"], xgr.VocabType.BYTE_LEVEL)
    assert level.decoded_vocab == [b" a", b"\n", "café".encode()]
    padded = xgr.TokenizerInfo([b"a", b"b"], vocab_size=40, stop_token_ids=1)
    assert padded.vocab_size == 40 and padded.stop_token_ids == [1]
    assert 5 in padded.special_token_ids
    with pytest.raises(ValueError):
        xgr.GrammarCompiler(TOKENS)


def test_a_processor_of_transformers(compiler, info):
    processor = xgr.hf.LogitsProcessor(compiler.compile_regex("ab"))
    ids = torch.tensor([[0], [0]])
    for expected in (b"a", b"b"):
        scores = processor(ids, torch.zeros(2, info.vocab_size))
        legal = {TOKENS[t] for t in (scores[1] == 0).nonzero().flatten().tolist()}
        assert expected in legal and all(text.startswith(expected) for text in legal)
        token = SMALL.index(expected)
        ids = torch.cat([ids, torch.tensor([[token], [token]])], 1)
    with pytest.raises(RuntimeError, match="rows"):
        processor(ids[:1], torch.zeros(1, info.vocab_size))


def test_legal_sets_are_those_of_xgrammar():
    """The real package, where it is installed, on constraints without whitespace."""
    real = pytest.importorskip("xgrammar")
    if not hasattr(real, "contrib") or real.__name__ != "xgrammar":
        pytest.skip("xgrammar is not the package")
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b'{"', b'":', b"12", b"true", b"</s>"]
    compact = {"any_whitespace": False, "separators": (",", ":")}
    constraints = [
        ("compile_regex", "[ab]{2,5}(12|true)?", {}),
        ("compile_grammar", 'root ::= "a" root "b" | "12"', {}),
        # No numbers: `ffwd` writes them in one form only, without `-0`.
        ("compile_json_schema", json.dumps(WITHOUT_NUMBERS), compact),
    ]
    pairs = []
    for package in (real, xgr):
        made = package.GrammarCompiler(package.TokenizerInfo(tokens))
        pairs.append([getattr(made, name)(text, **options) for name, text, options in constraints])
    random.seed(2)
    for theirs, ours in zip(*pairs):
        for _ in range(8):
            left, right = real.GrammarMatcher(theirs), xgr.GrammarMatcher(ours)
            for _ in range(25):
                masks = [xgr.allocate_token_bitmask(1, len(tokens)) for _ in range(2)]
                left.fill_next_token_bitmask(masks[0])
                right.fill_next_token_bitmask(masks[1])
                legal = [legal_bits(mask[0].tolist()) & set(range(len(tokens))) for mask in masks]
                assert legal[0] == legal[1]
                token = random.choice(sorted(legal[0]))
                assert left.accept_token(token) and right.accept_token(token)
                if left.is_terminated():
                    break


def test_a_tokenizer_of_transformers():
    from conftest import TOKENIZER

    transformers = pytest.importorskip("transformers")
    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER), eos_token="</s>")
    if theirs.eos_token_id is None or theirs.eos_token_id >= len(theirs.get_vocab()):
        theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(TOKENIZER))
    size = len(theirs.get_vocab())
    wide = xgr.TokenizerInfo.from_huggingface(theirs, vocab_size=size + 9, stop_token_ids=[0])
    assert wide.vocab_size == size + 9 and wide.stop_token_ids == [0]
    assert wide.vocabulary.has_tokenizer and len(wide.decoded_vocab) == size + 9
    narrow = xgr.TokenizerInfo.from_huggingface(theirs, vocab_size=size - 9, stop_token_ids=0)
    for info in (wide, narrow):
        matcher = xgr.GrammarMatcher(xgr.GrammarCompiler(info).compile_regex("date: [0-9]+"))
        bitmask = xgr.allocate_token_bitmask(1, info.vocab_size)
        for token in theirs.encode("date: 12", add_special_tokens=False):
            matcher.fill_next_token_bitmask(bitmask)
            assert bitmask[0, token // 32] >> token % 32 & 1 and matcher.accept_token(token)
        assert matcher.is_completed()
    kind = xgr.TokenizerInfo._detect_metadata_from_hf(TOKENIZER.read_text())
    assert kind["vocab_type"] in xgr.VocabType
    with pytest.raises(ValueError, match="empty"):
        xgr.TokenizerInfo.from_huggingface(theirs, stop_token_ids=[])
    with pytest.raises(ValueError, match="get_vocab"):
        xgr.TokenizerInfo.from_huggingface(object())
    with pytest.raises(ffwd.Error, match="tools"):
        xgr.get_model_structural_tag("qwen")

"""`ffwd.compat.llguidance`: masks of the plain matcher, calls and error states of llguidance."""

import json
import random

import pytest
from conftest import SMALL, TOKENIZER, legal_bits

import ffwd

numpy = pytest.importorskip("numpy")
llg = pytest.importorskip("ffwd.compat.llguidance")
from ffwd.compat.llguidance import numpy as llg_numpy  # noqa: E402

BYTE_EOS = 256


class Wrapped:
    """A tokenizer of another library: the small vocabulary, with special tokens."""

    tokens = [*SMALL, b"</s>", b"<tool>"]
    eos_token_id = len(SMALL)
    bos_token_id = None
    special_token_ids = [len(SMALL), len(SMALL) + 1]

    def __call__(self, text):
        return [SMALL.index(character.encode()) for character in text]


@pytest.fixture(scope="module")
def byte():
    return llg.LLTokenizer("byte")


@pytest.fixture(scope="module")
def wrapped():
    return llg.LLTokenizer(llg.TokenizerWrapper(Wrapped()))


def mask_of(matcher):
    words = numpy.frombuffer(matcher.compute_bitmask(), dtype=numpy.int32)
    return legal_bits(words.tolist())


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
WITHOUT_NUMBERS = {
    "type": "object",
    "properties": {
        "a": {"enum": [1, 12, "1"]},
        "b": {"type": "array", "items": {"type": "boolean"}, "minItems": 1},
    },
    "required": ["a"],
    "additionalProperties": False,
}
GRAMMARS = {
    "lark": (
        'start: "a" | "[" start "]"',
        lambda: ffwd.Constraint.lark('start: "a" | "[" start "]"'),
    ),
    "lark in JSON": (
        json.dumps({"grammars": [{"lark_grammar": 'start: "ab"+'}]}),
        lambda: ffwd.Constraint.regex("(ab)+"),
    ),
    "regex": (
        llg.LLMatcher.grammar_from_regex("[ab]{2,4}1"),
        lambda: ffwd.Constraint.regex("[ab]{2,4}1"),
    ),
    "schema": (
        llg.LLMatcher.grammar_from_json_schema(SCHEMA, {"whitespace_flexible": False}),
        lambda: ffwd.Constraint.json_schema(SCHEMA, exponent=True),
    ),
    "schema with separators": (
        llg.grammar_from(
            "json_schema",
            json.dumps({**SCHEMA, "x-guidance": {"item_separator": ", ", "key_separator": ": "}}),
        ),
        lambda: ffwd.Constraint.json_schema(SCHEMA, whitespace="single_space", exponent=True),
    ),
    "flexible schema": (
        llg.LLMatcher.grammar_from_json_schema(json.dumps(SCHEMA)),
        lambda: ffwd.Constraint.json_schema(SCHEMA, whitespace=24, exponent=True),
    ),
    "choice": (
        llg.grammar_from("choice", '["ab", "c1"]'),
        lambda: ffwd.Constraint.choice(["ab", "c1"]),
    ),
    "gbnf": (
        llg.grammar_from("gbnf", 'root ::= "a" root | "b"'),
        lambda: ffwd.Constraint.gbnf('root ::= "a" root | "b"'),
    ),
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_are_those_of_the_plain_matcher(name, wrapped):
    grammar, constraint = GRAMMARS[name]
    assert llg.LLMatcher.validate_grammar(grammar, wrapped) == ""
    compiled = ffwd.Compiler(wrapped.vocabulary).compile(constraint())
    random.seed(3)
    for _ in range(5):
        ours, plain = llg.LLMatcher(wrapped, grammar), compiled.matcher()
        for _ in range(20):
            row = ffwd.allocate_token_bitmask(2, wrapped.vocabulary)
            plain.fill_next_token_bitmask(row, 0)
            llg_numpy.fill_next_token_bitmask(ours, row, 1)
            assert row[0].tolist() == row[1].tolist()
            legal = legal_bits(row[0].tolist())
            assert mask_of(ours) == legal
            bias = ours.compute_logit_bias()
            assert len(bias) == wrapped.vocab_size
            assert {t for t, value in enumerate(bias) if value == 200} == legal
            assert set(bias) <= {0, 200}
            assert ours.compute_ff_bytes() == plain.forced_bytes()
            assert ours.compute_ff_tokens() == plain.forced_tokens()
            assert ours.is_accepting() == plain.is_accepting()
            assert ours.is_stopped() == plain.must_end()
            token = random.choice(sorted(legal))
            assert ours.validate_tokens([token]) == 1
            assert ours.consume_token(token) and plain.accept_token(token)
            if plain.is_terminated():
                assert ours.stop_reason() == "EndOfSentence"
                break
        assert not ours.is_error()


def test_an_illegal_token_is_an_error_that_stays(byte):
    matcher = llg.LLMatcher(byte, "start: /(foo[12]23|bar)/")
    copy = matcher.deep_copy()
    tokens = byte.tokenize_str("foo723")
    assert matcher.validate_tokens(tokens) == 3 and matcher.try_consume_tokens(tokens) == 3
    assert not matcher.is_error() and matcher.stop_reason() == "NotStopped"
    assert not matcher.consume_token(ord("7"))
    assert matcher.is_error() and matcher.is_stopped() and not matcher.is_accepting()
    assert "doesn't satisfy the grammar" in matcher.get_error()
    assert "could be: '1' '2'" in matcher.get_error()
    assert matcher.stop_reason() == "InternalError"
    assert mask_of(matcher) == {BYTE_EOS}
    assert not matcher.consume_tokens([ord("1")]) and not matcher.rollback(1)
    assert matcher.try_consume_tokens([ord("1")]) == 0 and matcher.compute_ff_tokens() == []
    assert not copy.consume_tokens([*tokens[:2], 999]) and "out of range" in copy.get_error()
    far = llg.LLMatcher(byte, 'start: "a"')
    assert not far.rollback(1) and "roll back" in far.get_error()


def test_wrong_grammars_are_errors_not_exceptions(byte):
    for grammar, text in [
        ("start: /a/ no_such_rule", "no_such_rule"),
        (llg.LLMatcher.grammar_from_regex("("), "invalid regex"),
        (llg.LLMatcher.grammar_from_json_schema({"type": "strin"}), "/type"),
        ('{"grammars": [{"lark_grammar": "start: /a/"}, {"name": "b", "regex": "b"}]}', "grammars"),
        ('{"grammars": []}', "grammars"),
        ('{"grammars": [{"none": 1}]}', "none"),
        ("{", "JSON"),
        (
            llg.LLMatcher.grammar_from_json_schema({}, {"whitespace_pattern": "a"}),
            "whitespace_pattern",
        ),
        (llg.LLMatcher.grammar_from_json_schema({}, {"unknown": 1}), "unknown"),
        ('start: x\nx[capture]: "a"', ""),
    ]:
        matcher = llg.LLMatcher(byte, grammar)
        assert matcher.is_error() and text in matcher.get_error(), grammar
        assert text in llg.LLMatcher.validate_grammar(grammar)
        is_error, messages = llg.LLMatcher.validate_grammar_with_warnings(grammar, byte)
        assert is_error and len(messages) == 1
        assert mask_of(matcher) == {BYTE_EOS}
    for wrong in ("{", "[]", 7):
        with pytest.raises(ValueError):
            llg.LLMatcher.grammar_from_json_schema(wrong)
    with pytest.raises(ValueError, match="Unknown"):
        llg.grammar_from("yaml", "")
    with pytest.raises(ffwd.Error, match="LLInterpreter"):
        llg.LLInterpreter(byte, "")
    with pytest.raises(ffwd.Error, match="hub"):
        llg.LLTokenizer("some-owner/some-model")


def test_warnings_are_returned(byte):
    grammar = llg.LLMatcher.grammar_from_json_schema({"type": "string", "no-keyword": 1})
    is_error, messages = llg.LLMatcher.validate_grammar_with_warnings(grammar)
    assert not is_error and "no-keyword" in messages[0]
    assert "no-keyword" in llg.LLMatcher(byte, grammar).get_grammar_warnings()[0]


def test_many_matchers_in_one_call(byte):
    texts = ["/[a-z]+/", "/[0-9]{1,3}/", '"abc"']
    matchers = [llg.LLMatcher(byte, f"start: {text}") for text in texts]
    executor = llg.LLExecutor(2)
    bitmask = llg_numpy.allocate_token_bitmask(5, byte.vocab_size)
    pairs = list(zip(matchers, [4, 0, 2]))
    llg_numpy.fill_next_token_bitmask_par(executor, pairs, bitmask)
    for matcher, row in pairs:
        assert legal_bits(bitmask[row].tolist()) == mask_of(matcher)
    assert (bitmask[[1, 3]] == -1).all()
    assert llg_numpy.consume_token_par(executor, list(zip(matchers, b"x1x"))) == [True, True, False]
    assert [matcher.is_error() for matcher in matchers] == [False, False, True]
    llg_numpy.fill_next_token_bitmask_par(executor, pairs, bitmask)
    assert legal_bits(bitmask[2].tolist()) == {BYTE_EOS}


def test_chains_of_drafts(byte):
    matchers = [llg.LLMatcher(byte, f"start: /{text}/") for text in ("a[0-9]*", "b")]
    bitmask = llg_numpy.allocate_token_bitmask(6, byte.vocab_size)
    drafts = [(matchers[0], 0, list(b"a1")), (matchers[1], 3, list(b"bb"))]
    executor = llg.LLExecutor()
    llg_numpy.fill_next_token_bitmask_par_with_draft_tokens(executor, drafts, bitmask)
    for first, text, matcher in [(0, b"a1", matchers[0]), (3, b"b", matchers[1])]:
        for row in range(len(text) + 1):
            after = matcher.deep_copy()
            assert after.consume_tokens(list(text[:row]))
            assert legal_bits(bitmask[first + row].tolist()) == mask_of(after)
    assert (bitmask[5] == -1).all(), "nothing is known after an illegal draft"
    assert not matchers[0].is_accepting()


def test_wrong_calls_raise(byte):
    executor = llg.LLExecutor()
    one, two = (llg.LLMatcher(byte, 'start: "a"') for _ in range(2))
    size = 4 * (-(-byte.vocab_size // 32))
    address = numpy.zeros(100, dtype=numpy.int32).ctypes.data
    for call, error, text in [
        (
            lambda: executor.unsafe_compute_mask_ptr([(one, 1)], address, size, 1),
            ValueError,
            "bounds",
        ),
        (
            lambda: executor.unsafe_compute_mask_ptr([(one, 0)] * 2, address, size, 1),
            RuntimeError,
            "twice",
        ),
        (lambda: executor.unsafe_compute_mask_ptr([1], address, size, 1), TypeError, "tuple"),
        (
            lambda: executor.unsafe_compute_mask_ptr([(one, 0, 0)], address, size, 1),
            ValueError,
            "Expecting",
        ),
        (lambda: executor.unsafe_compute_mask_ptr([(one, 0)], 0, size, 1), ValueError, "Null"),
        (lambda: executor.unsafe_compute_mask_ptr([(one, 0)], 3, size, 1), ValueError, "aligned"),
        (
            lambda: executor.unsafe_compute_mask_ptr([(one, 0)], address, size - 4, 1),
            ValueError,
            "size",
        ),
        (lambda: executor.consume_token_par([]), ValueError, "No matchers"),
        (lambda: executor.consume_token_par([(one, "a")]), TypeError, "int"),
        (lambda: two.unsafe_compute_mask_ptr(0, size), ValueError, "Null"),
        (lambda: llg.LLMatcher("byte", ""), TypeError, "LLTokenizer"),
        (lambda: llg.LLParserLimits(most=1), TypeError, "most"),
    ]:
        with pytest.raises(error, match=text):
            call()
    assert llg.LLParserLimits(max_grammar_size=5).max_grammar_size == 5


def test_structural_tags(byte, wrapped):
    tags = [
        llg.StructTag(trigger="<f", begin="<f=a>", grammar={"const": 1}, end="</f>"),
        llg.StructTag(trigger="<f", begin="<f=b>", grammar='start: "x"+', end="</f>"),
    ]
    grammar = llg.StructTag.to_grammar(tags)
    for text, legal in [
        ("a<f=a>1</f>b<f=b>xx</f>", True),
        ("<g>", True),
        ("<f=a>2", False),
        ("<f=c", False),
        ("<f=b></f>", False),
    ]:
        matcher = llg.LLMatcher(byte, grammar)
        assert not matcher.is_error(), matcher.get_error()
        tokens = byte.tokenize_str(text)
        assert (matcher.validate_tokens(tokens) == len(tokens)) == legal, text
    with pytest.raises(ffwd.Error, match="text_regex"):
        llg.StructTag.to_grammar(tags, text_regex="a*")
    with pytest.raises(AssertionError):
        llg.StructTag(trigger="a", begin="b", grammar={}, end="")


def test_a_trigger_can_be_a_special_token():
    vocabulary = ffwd.Vocabulary.from_file(TOKENIZER)
    tokenizer = llg.LLTokenizer(str(TOKENIZER))
    special = [t for t in range(len(vocabulary)) if vocabulary.is_special(t)]
    names = {
        added["content"]: added["id"] for added in json.loads(TOKENIZER.read_text())["added_tokens"]
    }
    name = next(
        (
            n
            for n, t in names.items()
            if t in special and t not in vocabulary.eos and n[0] == "<" and n[-1] == ">"
        ),
        None,
    )
    if name is None:
        pytest.skip("the tokenizer has no such special token")
    tag = llg.StructTag(trigger=name, begin=name + "(", grammar={"const": 1}, end=")")
    matcher = llg.LLMatcher(tokenizer, llg.StructTag.to_grammar([tag]))
    assert matcher.consume_tokens([names[name], *vocabulary.encode("(1)")]), matcher.get_error()


def test_tokenizers(byte, wrapped):
    assert byte.vocab_size == 257 and byte.eos_token == BYTE_EOS and byte.eos_tokens == [BYTE_EOS]
    assert byte.tokenize_str("aé") == [97, 0xC3, 0xA9] == byte.greedy_tokenize("aé")
    assert byte.tokenize_bytes(b"a\xff[13]b") == [97, 13, 98]
    assert byte.tokenize_partial(b"ab") == ([97, 98], b"")
    assert byte.decode_str([97, 98]) == "ab" and byte.dbg_tokens([97, 98]) == '"a‧b"'
    assert byte.decode_bytes([0xC3]) == b"\xc3" and byte.is_special_token(BYTE_EOS)
    assert wrapped.tokenize_str("ab") == Wrapped()("ab")
    assert wrapped.greedy_tokenize("abc") == [SMALL.index(b"abc")]
    assert wrapped.tokenize_bytes(b"a\xff<tool>") == [SMALL.index(b"a"), len(SMALL) + 1]
    assert wrapped.tokenize_str("a<tool>", parse_special=True) == [
        SMALL.index(b"a"),
        len(SMALL) + 1,
    ]
    assert wrapped.is_special_token(len(SMALL) + 1) and not wrapped.is_canonical
    two = llg.LLTokenizer(Wrapped(), n_vocab=100, eos_token=[3, 4])
    assert two.eos_tokens == [3, 4] and two.vocab_size == 100
    real = llg.LLTokenizer(str(TOKENIZER.parent))
    assert real.is_canonical
    text = 'The "name" is\n 12'
    assert real.decode_str(real.tokenize_str(text)) == text
    tokens, rest = real.tokenize_partial(text.encode())
    assert real.decode_bytes(tokens) + rest == text.encode()
    assert real.tokenize_str(text)[: len(tokens)] == tokens


def test_patterns_between_slashes():
    assert llg.regex_to_lark(r"a/\d+") == r"a\/[0-9]+"
    assert llg.regex_to_lark(r"[\d_]\w", "dw") == "[0-9_][0-9a-zA-Z_]"
    assert llg.regex_to_lark(r"\D\w") == r"[^0-9]\w"


def test_logits():
    logits = numpy.random.rand(2, 70).astype(numpy.float32)
    mask = numpy.random.randint(-(1 << 31), 1 << 31, (2, 2), dtype=numpy.int64).astype(numpy.int32)
    masked = logits.copy()
    llg_numpy.apply_token_bitmask_inplace(masked, mask)
    for row in range(2):
        legal = legal_bits(mask[row].tolist())
        for token in range(70):
            expected = logits[row, token] if token in legal else -numpy.inf
            assert masked[row, token] == expected
    torch = pytest.importorskip("torch")
    from ffwd.compat.llguidance import torch as llg_torch

    tensor = torch.from_numpy(logits.copy())
    llg_torch.apply_token_bitmask_inplace(tensor, torch.from_numpy(mask))
    assert numpy.array_equal(tensor.numpy(), masked)
    byte = llg.LLTokenizer("byte")
    matcher = llg.LLMatcher(byte, "start: /[a-z]/")
    bitmask = llg_torch.allocate_token_bitmask(2, byte.vocab_size)
    llg_torch.fill_next_token_bitmask(matcher, bitmask, 1)
    assert legal_bits(bitmask[1].tolist()) == set(range(97, 123)) and (bitmask[0] == -1).all()


def test_legal_sets_are_those_of_llguidance():
    """The real package, where it is installed, on constraints without whitespace."""
    real = pytest.importorskip("llguidance")
    if real.__name__ != "llguidance":
        pytest.skip("llguidance is not the package")
    random.seed(4)
    for kind, text, options in [
        ("regex", "[ab]{2,5}(12|true)?", None),
        ("lark", 'start: "a" start "b" | "12"', None),
        # No numbers: `ffwd` writes them in one form only, without `-0`.
        ("json_schema", WITHOUT_NUMBERS, {"whitespace_flexible": False}),
    ]:
        matchers = []
        for package in (real, llg):
            make = getattr(package.LLMatcher, f"grammar_from_{kind}")
            grammar = make(text, options) if options else make(text)
            matchers.append((package.LLTokenizer("byte"), grammar, package))
        for _ in range(6):
            theirs, ours = (p.LLMatcher(tokenizer, grammar) for tokenizer, grammar, p in matchers)
            for _ in range(20):
                if theirs.is_stopped():
                    assert ours.is_stopped() and theirs.stop_reason() == ours.stop_reason()
                    break
                # Only bytes: the number of the end token of the byte tokenizer is their own.
                left, right = (
                    {t for t, v in enumerate(m.compute_logit_bias()[:255]) if v} - {10, 13}
                    for m in (theirs, ours)
                )
                assert left == right, (kind, text)
                assert theirs.is_accepting() == ours.is_accepting()
                assert theirs.compute_ff_bytes() == ours.compute_ff_bytes()
                if not left:
                    break
                token = random.choice(sorted(left))
                assert theirs.consume_token(token) and ours.consume_token(token)

"""Vocabularies of other tokenizers than `tokenizer.json`, compared with their own libraries."""

import base64
import importlib.util
import json
import random
from pathlib import Path

import pytest

import ffwd

PATTERN = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"

TEXTS = [
    "Hello, world!",
    '{"name": "Émile",\n  "age": 41, "tags": ["a", "b"]}',
    "naïve café — 日本語のテキスト 🎉🎉 x",
    "    four spaces\tand a tab\r\n\r\nand lines",
    "aaaaaaaaaaaaaaa bbbbbbbbbb !!!!!!!!! 1234567890",
    "<s> [INST] not special </s>",
    "",
]


def texts():
    """The texts above, and random ones of few and of many characters."""
    random.seed(5)
    few = ["".join(random.choices("ab 1.\n", k=random.randrange(40))) for _ in range(40)]
    many = ["".join(chr(random.randrange(32, 0x2FF)) for _ in range(30)) for _ in range(20)]
    return TEXTS + few + many


def data_of(package, name):
    """A data file of an installed package; skips the test if there is none."""
    found = importlib.util.find_spec(package)
    if found is None:
        pytest.skip(f"{package} is not installed")
    path = Path(found.origin).parent / "data" / name
    if not path.exists():
        pytest.skip(f"{package} has no {name}")
    return path


def tekken(**changes):
    """A small tekken.json."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"ab", b" ab", b"cut off"]
    config = {
        "pattern": PATTERN,
        "num_vocab_tokens": len(tokens),
        "default_vocab_size": 20 + 258,
        "default_num_special_tokens": 20,
        "version": "v3",
    }
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for rank, token in enumerate(tokens)
    ]
    return json.dumps({"config": config, "vocab": vocab, **changes})


def test_special_tokens_of_tekken_come_first(tmp_path):
    path = tmp_path / "tekken.json"
    path.write_text(tekken())
    vocabulary = ffwd.Vocabulary.from_file(path)
    assert len(vocabulary) == 278 and vocabulary.eos == [2] and vocabulary.has_tokenizer
    assert vocabulary.token_bytes(20 + 256) == b"ab"
    assert vocabulary.token_bytes(9) == b"" and vocabulary.is_special(9)
    assert vocabulary.token_id("[TOOL_CALLS]") == 9
    assert vocabulary.encode("ab ab") == [276, 277]
    assert vocabulary.decode([276, 2, 277]) == b"ab ab"


def test_a_marker_becomes_text():
    vocabulary = ffwd.Vocabulary.from_json(tekken()).with_markers(["[TOOL_CALLS]"])
    assert vocabulary.token_bytes(9) == b"[TOOL_CALLS]" and not vocabulary.is_special(9)
    grammar = ffwd.Compiler(vocabulary).compile(ffwd.Constraint.choice(["[TOOL_CALLS]ab"]))
    assert grammar.matcher().accept_tokens([9, 276, 2]) == 3


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"vocab": [], "config": {"default_vocab_size": 1}}', "\n\n"]
)
def test_what_is_no_tokenizer_is_one_error(text):
    with pytest.raises(ffwd.Error) as error:
        ffwd.Vocabulary.from_json(text)
    assert error.value.kind == "tokenizer"


def test_contradictions_of_tekken_are_errors():
    for special in (99, 277):
        listed = [{"rank": special, "token_str": "x", "is_control": True}]
        if special < 20:
            continue
        with pytest.raises(ffwd.Error, match=f"special token {special}"):
            ffwd.Vocabulary.from_json(tekken(special_tokens=listed))


@pytest.fixture(scope="module", params=["tekken_240911.json"])
def mistral_tekken(request):
    path = data_of("mistral_common", request.param)
    pytest.importorskip("numpy")  # Their tokenizer needs it.
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    return path, Tekkenizer.from_file(path)


def test_tekken_has_the_tokens_of_its_library(mistral_tekken):
    path, theirs = mistral_tekken
    for vocabulary in (ffwd.Vocabulary.from_file(path), ffwd.Vocabulary.from_transformers(theirs)):
        assert len(vocabulary) == theirs.n_words and vocabulary.eos == [theirs.eos_id]
        assert vocabulary.has_tokenizer
        for token in range(0, theirs.n_words, 37):
            assert vocabulary.token_bytes(token) == theirs.id_to_byte_piece(token), token
            assert vocabulary.is_special(token) == theirs.is_special(token)
        for text in texts():
            assert vocabulary.encode(text) == theirs.encode(text, bos=False, eos=False), text


def test_forced_tokens_of_tekken_are_its_own(mistral_tekken):
    path, theirs = mistral_tekken
    compiler = ffwd.Compiler(ffwd.Vocabulary.from_file(path))
    text = '{"unconstitutional": 12345, "é": "naïveté"}'
    matcher = compiler.compile(ffwd.Constraint.choice([text])).matcher()
    tokens = matcher.forced_tokens()
    assert tokens and tokens == theirs.encode(text, bos=False, eos=False)[: len(tokens)]


def test_wrappers_of_a_mistral_tokenizer_are_opened(mistral_tekken):
    path, theirs = mistral_tekken

    class Instruct:
        tokenizer = theirs

    class Outer:
        backend_tokenizer = None
        instruct_tokenizer = Instruct()
        eos_token_id = 5

    vocabulary = ffwd.Vocabulary.from_transformers(Outer(), logits_size=131_200)
    assert vocabulary.eos == [5] and vocabulary.logits_size == 131_200
    with pytest.raises(TypeError, match="no backend tokenizer"):
        ffwd.Vocabulary.from_transformers(object())


@pytest.mark.parametrize(
    "name", ["tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"]
)
def test_sentencepiece_has_the_tokens_of_its_library(name):
    path = data_of("mistral_common", name)
    sentencepiece = pytest.importorskip("sentencepiece")
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
    for vocabulary in (ffwd.Vocabulary.from_file(path), ffwd.Vocabulary.from_transformers(theirs)):
        assert len(vocabulary) == theirs.get_piece_size() and vocabulary.eos == [theirs.eos_id()]
        assert vocabulary.has_tokenizer
        for token in range(len(vocabulary)):
            assert vocabulary.is_special(token) == (
                theirs.is_control(token) or theirs.is_unknown(token)
            )
            if theirs.is_byte(token):
                assert vocabulary.token_bytes(token) == bytes(
                    [int(theirs.id_to_piece(token)[3:5], 16)]
                )
            elif not vocabulary.is_special(token):
                piece = theirs.id_to_piece(token).replace("\u2581", " ")
                assert vocabulary.token_bytes(token) == piece.encode()
        for text in texts():
            assert vocabulary.encode(text) == theirs.encode(text), text


def test_a_unigram_model_has_the_tokens_of_its_library(tmp_path):
    sentencepiece = pytest.importorskip("sentencepiece")
    lines = [
        " ".join(random.choices(["abba", "ab", "cab", "bac", "12", "1.5"], k=9)) for _ in range(200)
    ]
    (tmp_path / "lines").write_text("\n".join(lines))
    for kind, size in (("unigram", 300), ("bpe", 290)):
        sentencepiece.SentencePieceTrainer.train(
            input=str(tmp_path / "lines"),
            model_prefix=str(tmp_path / kind),
            model_type=kind,
            vocab_size=size,
            byte_fallback=True,
            hard_vocab_limit=False,
            user_defined_symbols=["<tool>"],
            remove_extra_whitespaces=False,
            minloglevel=2,
        )
        path = tmp_path / f"{kind}.model"
        theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
        vocabulary = ffwd.Vocabulary.from_file(path)
        assert vocabulary.has_tokenizer, kind
        for _ in range(100):
            text = "".join(random.choices("abc12. ", k=random.randrange(1, 20)))
            assert vocabulary.encode(text) == theirs.encode(text), (kind, text)


def test_an_encoding_of_tiktoken():
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)}
    for token in (b"ab", b"abc", b" a", b" ab", b"bc", b"abab"):
        ranks[token] = len(ranks)
    special = {"<|endoftext|>": 262, "<|x|>": 263}
    theirs = tiktoken.Encoding(
        "small", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special
    )
    vocabulary = ffwd.Vocabulary.from_transformers(theirs)
    assert vocabulary.eos == [262] and vocabulary.is_special(263)
    for text in texts():
        assert vocabulary.encode(text) == theirs.encode(text, disallowed_special=()), text

"""`ffwd.grammars`: what the backends of vLLM and SGLang share."""

import json

import pytest

import ffwd
from ffwd import grammars as module


def test_compiled_grammars_are_kept_and_bounded(real):
    grammars = module.Grammars(real)
    options = module.Options()
    first = grammars.get("REGEX", "a0", options)
    assert grammars.get("REGEX", "a0", options) is first
    assert grammars.get("CHOICE", '["a0"]', options) is not first
    for i in range(1, module.MAX_GRAMMARS + 20):
        grammars.get("REGEX", f"a{i}", options)
        if i % 50 == 0:
            assert grammars.get("REGEX", "a0", options) is first
    assert len(grammars) == module.MAX_GRAMMARS
    assert grammars.get("REGEX", "a1", options) is not None
    for _ in range(2):
        with pytest.raises(ffwd.Error):
            grammars.get("REGEX", "(", options)
    assert len(grammars) == module.MAX_GRAMMARS


def test_large_grammars_are_dropped_by_their_memory(real, monkeypatch):
    grammars = module.Grammars(real)
    options = module.Options()
    texts = [json.dumps([f"{i} {j}" for j in range(2000)]) for i in range(6)]
    size = grammars.get("CHOICE", texts[0], options).memory_bytes
    monkeypatch.setattr(module, "MAX_MEMORY", 7 * size // 2)
    kept = [grammars.get("CHOICE", text, options) for text in texts]
    assert len(grammars) == 3
    assert grammars.get("CHOICE", texts[5], options) is kept[5]
    assert grammars.get("CHOICE", texts[0], options) is not kept[0]
    monkeypatch.setattr(module, "MAX_MEMORY", 0)
    assert grammars.get("REGEX", "a", options).matcher() is not None
    assert len(grammars) == 0, "a grammar that is too large is not kept"


def test_whitespace_patterns():
    for pattern, expected in (
        ("", "compact"),
        ("[ ]?", "single_space"),
        (r"[ \t\n\r]{0,3}", 3),
        (r"\s*", 64),
        ("\n?", "compact"),
    ):
        assert module.whitespace_of_pattern(pattern, False) == expected
        assert module.whitespace_of_pattern(pattern, True) == "compact"
    for pattern in (r"\s+", "(", "x" * 10_000):
        with pytest.raises(ValueError):
            module.whitespace_of_pattern(pattern, False)

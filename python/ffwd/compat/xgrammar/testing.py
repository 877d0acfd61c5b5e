"""The helpers of XGrammar's own tests that have a meaning here. Not for production."""

from __future__ import annotations

import json
from typing import Any

from ._refused import Refused
from .compiler import CompiledGrammar, GrammarCompiler
from .grammar import Grammar
from .matcher import GrammarMatcher
from .structural_tag import plain
from .tokenizer_info import TokenizerInfo


def _compiled(grammar: Grammar | str, info: TokenizerInfo | None = None) -> CompiledGrammar:
    compiler = GrammarCompiler(info or TokenizerInfo([]), cache_enabled=False)
    return compiler.compile_grammar(grammar)


def _get_matcher_from_grammar(grammar: Grammar | str, **kwargs: Any) -> GrammarMatcher:
    """Return a matcher of texts, without a tokenizer."""
    return GrammarMatcher(_compiled(grammar), terminate_without_stop_token=True, **kwargs)


def _get_matcher_from_grammar_and_tokenizer_info(
    grammar: Grammar | str, tokenizer_info: TokenizerInfo | None = None, **kwargs: Any
) -> GrammarMatcher:
    """Return a matcher of tokens."""
    return GrammarMatcher(_compiled(grammar, tokenizer_info), **kwargs)


def _is_grammar_accept_string(
    grammar: Grammar | str,
    input_str: str | bytes,
    *,
    debug_print: bool = False,
    print_time: bool = False,
    require_termination: bool = True,
) -> bool:
    """True if a text is an output of the grammar, or without `require_termination` its start."""
    matcher = _get_matcher_from_grammar(grammar)
    return matcher.accept_string(input_str) and (not require_termination or matcher.is_terminated())


def _bits(bitmask: Any, vocab_size: int, index: int) -> list[bool]:
    row = bitmask.tolist()
    row = row[index] if row and isinstance(row[0], list) else row
    return [bool(row[token // 32] >> token % 32 & 1) for token in range(vocab_size)]


def _get_masked_tokens_from_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> list[int]:
    """Return the ids whose bit is not set in a row."""
    import torch

    if bitmask.device.type != "cpu":
        raise ValueError("the bitmask is not on the CPU")
    if bitmask.dtype != torch.int32:
        raise ValueError(f"the bitmask is of {bitmask.dtype}, expected torch.int32")
    return [token for token, bit in enumerate(_bits(bitmask, vocab_size, index)) if not bit]


def _is_single_token_bitmask(bitmask: Any, vocab_size: int, index: int = 0) -> tuple[bool, int]:
    """Return whether one bit of a row is set, and its id, otherwise -1."""
    legal = [token for token, bit in enumerate(_bits(bitmask, vocab_size, index)) if bit]
    return (True, legal[0]) if len(legal) == 1 else (False, -1)


def bool_mask_to_bitmask(bool_mask: Any) -> Any:
    """Return the bitmask of a bool tensor of shape (batch, width)."""
    import torch

    width = bool_mask.shape[-1]
    padded = torch.nn.functional.pad(bool_mask.to(torch.int64), (0, -width % 32))
    words = padded.unflatten(-1, (-1, 32)) << torch.arange(32, dtype=torch.int64)
    words = words.sum(-1)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32)


def bitmask_to_bool_mask(bit_mask: Any, vocab_size: int | None = None) -> Any:
    """Return the bool tensor of a bitmask, of the given width."""
    import torch

    bits = (bit_mask.unsqueeze(-1) >> torch.arange(32, dtype=torch.int32)) & 1
    return bits.flatten(-2).bool()[..., :vocab_size]


def _traverse_draft_tree(
    retrieve_next_token: Any,
    retrieve_next_sibling: Any,
    draft_tokens: Any,
    matcher: GrammarMatcher,
    bitmask: Any,
    time_threshold: float = -1.0,
    temperatures: Any = None,
) -> bool:
    return matcher.traverse_draft_tree(
        retrieve_next_token,
        retrieve_next_sibling,
        draft_tokens,
        bitmask,
        time_threshold,
        temperatures,
    )


def _json_schema_to_ebnf(schema: Any, *, json_format: str = "json", **options: Any) -> Grammar:
    """Return the grammar of a JSON Schema, of which XGrammar returns the text."""
    if json_format == "json":
        return Grammar.from_json_schema(schema, **options)
    if isinstance(schema, str):
        schema = json.loads(schema)
    content = {"type": "json_schema", "json_schema": plain(schema), "style": json_format}
    return Grammar.from_structural_tag({"type": "structural_tag", "format": content})


# What XGrammar's tests do with the inside of its grammars.
_INSIDE = {
    "GrammarFunctor",
    "_ebnf_to_grammar_no_normalization",
    "_generate_float_regex",
    "_generate_range_regex",
    "_get_allow_empty_rule_ids",
    "_is_rule_fsm_accept_string",
    "_print_grammar_fsms",
    "_regex_to_ebnf",
}


def __getattr__(name: str) -> Any:
    if name in _INSIDE:
        return Refused(name, "is about the inside of XGrammar's grammars")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

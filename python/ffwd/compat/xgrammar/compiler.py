"""`GrammarCompiler` and `CompiledGrammar`."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import ffwd

from ._refused import refuse
from .exception import DeserializeFormatError, reraise
from .grammar import Grammar
from .structural_tag import structural_tag_text
from .tokenizer_info import TokenizerInfo, read_serialized

# The most grammars that a compiler keeps.
_MAX_CACHED = 4096


class CompiledGrammar:
    """A grammar compiled for a tokenizer. Made by `GrammarCompiler`."""

    def __init__(self, grammar: Grammar, tokenizer_info: TokenizerInfo) -> None:
        self._grammar = grammar
        self._info = tokenizer_info
        self._compiled: dict[tuple[int, ...], ffwd.Grammar] = {}
        self.for_stops(tuple(tokenizer_info.stop_token_ids))

    def for_stops(self, stops: tuple[int, ...]) -> ffwd.Grammar:
        """Return the grammar of `ffwd` whose end tokens are these."""
        known = self._compiled.get(stops)
        if known is None:
            try:
                known = self._info.compiler(stops).compile(self._grammar.constraint)
            except ffwd.Error as error:
                reraise(error)
            if len(self._compiled) >= 8:
                self._compiled.clear()
            self._compiled[stops] = known
        return known

    @property
    def grammar(self) -> Grammar:
        """The grammar."""
        return self._grammar

    @property
    def tokenizer_info(self) -> TokenizerInfo:
        """The tokenizer."""
        return self._info

    @property
    def memory_size_bytes(self) -> int:
        """Size of the tables of this grammar, without those that all grammars share."""
        return sum(grammar.memory_bytes for grammar in self._compiled.values())

    def serialize_json(self) -> str:
        """Return the grammar as JSON. Compiling is cheap, so tables are not written."""
        parts = json.loads(self._grammar.serialize_json())
        return json.dumps({**parts, "tokenizer_metadata": json.loads(self._info.dump_metadata())})

    @staticmethod
    def deserialize_json(json_str: str, tokenizer_info: TokenizerInfo) -> CompiledGrammar:
        """Read the text of `serialize_json` and compile the grammar.

        Raises:
            InvalidJSONError: The text is not JSON.
            DeserializeVersionError: It is of another version.
            DeserializeFormatError: It has another form, or another tokenizer.
        """
        parts = read_serialized(json_str)
        if parts.get("tokenizer_metadata") != json.loads(tokenizer_info.dump_metadata()):
            raise DeserializeFormatError("the text is of another tokenizer")
        return CompiledGrammar(Grammar.deserialize_json(json_str), tokenizer_info)


class GrammarCompiler:
    """Compiles grammars for a tokenizer. It can be used from several threads.

    Args:
        tokenizer_info: The tokenizer.
        max_threads: Has no effect: a grammar is compiled by one thread.
        cache_enabled: Keep grammars, to return them when the same text comes again.
        cache_limit_bytes: The most bytes of the tables of kept grammars; -1 for no limit. There is
            also a limit on their number.

    Raises:
        ValueError: `tokenizer_info` is none, or an option is not positive.
    """

    def __init__(
        self,
        tokenizer_info: TokenizerInfo,
        *,
        max_threads: int = 8,
        cache_enabled: bool = True,
        cache_limit_bytes: int = -1,
    ) -> None:
        if not isinstance(tokenizer_info, TokenizerInfo):
            raise ValueError(
                "the compiler needs a TokenizerInfo; see TokenizerInfo.from_huggingface"
            )
        if max_threads < 1 or cache_limit_bytes < -1:
            raise ValueError("max_threads is at least 1, cache_limit_bytes at least -1")
        self._info = tokenizer_info
        self._enabled = cache_enabled
        self._limit = cache_limit_bytes
        self._lock = threading.Lock()
        self._cache: OrderedDict[Hashable, CompiledGrammar] = OrderedDict()

    def _cached(self, key: Hashable, grammar: Callable[[], Grammar]) -> CompiledGrammar:
        if not self._enabled:
            return CompiledGrammar(grammar(), self._info)
        with self._lock:
            known = self._cache.get(key)
            if known is not None:
                self._cache.move_to_end(key)
                return known
        # Two threads may compile the same text; the first one is kept.
        compiled = CompiledGrammar(grammar(), self._info)
        with self._lock:
            compiled = self._cache.setdefault(key, compiled)
            while len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
            if self._limit >= 0:
                size = sum(kept.memory_size_bytes for kept in self._cache.values())
                while self._cache and size > self._limit:
                    size -= self._cache.popitem(last=False)[1].memory_size_bytes
        return compiled

    def compile_json_schema(
        self,
        schema: Any,
        *,
        any_whitespace: bool = True,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        strict_mode: bool = True,
        max_whitespace_cnt: int | None = None,
        any_order: bool = False,
    ) -> CompiledGrammar:
        """Compile a JSON Schema; see `Grammar.from_json_schema`."""
        if hasattr(schema, "model_json_schema"):
            schema = schema.model_json_schema()
        if isinstance(schema, dict):
            schema = json.dumps(schema)
        options = {
            "any_whitespace": any_whitespace,
            "indent": indent,
            "separators": None if separators is None else tuple(separators),
            "strict_mode": strict_mode,
            "max_whitespace_cnt": max_whitespace_cnt,
            "any_order": any_order,
        }
        key = ("json_schema", schema, *options.values())
        return self._cached(key, lambda: Grammar.from_json_schema(schema, **options))

    def compile_builtin_json_grammar(self) -> CompiledGrammar:
        """Compile the grammar of any JSON object or array."""
        return self._cached(("json",), Grammar.builtin_json_grammar)

    def compile_regex(self, regex: str) -> CompiledGrammar:
        """Compile a regular expression; see `Grammar.from_regex`."""
        return self._cached(("regex", regex), lambda: Grammar.from_regex(regex))

    def compile_lark(
        self, lark_string: str, *, named_grammars: dict[str, Any] | None = None
    ) -> CompiledGrammar:
        """Compile a grammar in Lark's notation; see `Grammar.from_lark`."""
        if named_grammars:
            raise refuse("named_grammars", "is given", "write their rules into the grammar")
        return self._cached(("lark", lark_string), lambda: Grammar.from_lark(lark_string))

    def compile_structural_tag(self, *args: Any, **kwargs: Any) -> CompiledGrammar:
        """Compile a structural tag; see `Grammar.from_structural_tag`."""
        text = structural_tag_text(args, kwargs)
        return self._cached(("structural_tag", text), lambda: Grammar.from_structural_tag(text))

    def compile_grammar(
        self, grammar: str | Grammar, *, root_rule_name: str = "root"
    ) -> CompiledGrammar:
        """Compile a grammar, or a text in GBNF.

        Raises:
            ValueError: The argument is neither.
        """
        if isinstance(grammar, Grammar):
            return self._cached(("grammar", grammar), lambda: grammar)
        if isinstance(grammar, str):
            key = ("ebnf", grammar, root_rule_name)
            return self._cached(
                key, lambda: Grammar.from_ebnf(grammar, root_rule_name=root_rule_name)
            )
        raise ValueError(f"expected a str or a Grammar, got {type(grammar).__name__}")

    def clear_cache(self) -> None:
        """Forget all grammars."""
        with self._lock:
            self._cache.clear()

    def get_cache_size_bytes(self) -> int:
        """Return the size of the tables of the kept grammars."""
        with self._lock:
            return sum(compiled.memory_size_bytes for compiled in self._cache.values())

    @property
    def cache_limit_bytes(self) -> int:
        """The most bytes of kept grammars; -1 for no limit."""
        return self._limit

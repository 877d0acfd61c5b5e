"""What vLLM's requests mean as constraints: kinds, options, and a bounded cache of grammars."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ffwd

WHITESPACE_VARIABLE = "FFWD_VLLM_WHITESPACE"
MAX_GRAMMARS = 256
# Bytes of all grammars, as they were at their last uses.
MAX_MEMORY = 128 << 20
_MAX_PATTERN = 1000


@dataclass(frozen=True)
class Options:
    """How JSON texts are written.

    Attributes:
        whitespace: As in `ffwd.Constraint.json_schema`.
        closed_objects: Permit declared properties only, where some are declared.
    """

    whitespace: str | int = "compact"
    closed_objects: bool = False


class Specification(str):
    """The text of a constraint with its options, in place of vLLM's bare text."""

    options: Options

    def __new__(cls, text: str, options: Options) -> Specification:
        self = super().__new__(cls, text)
        self.options = options
        return self


def options_of(config: Any, params: Any = None) -> Options:
    """Return the options of a request.

    Args:
        config: vLLM's `StructuredOutputsConfig`.
        params: vLLM's `StructuredOutputsParams` of the request, if there is one.

    Raises:
        ValueError: The whitespace pattern or the environment variable cannot be honoured.
    """
    sources = [source for source in (config, params) if source is not None]
    compact = any(source.disable_any_whitespace for source in sources)
    whitespace: str | int = "compact" if compact else default_whitespace()
    pattern = getattr(params, "whitespace_pattern", None)
    if pattern is not None:
        whitespace = whitespace_of_pattern(pattern, compact)
    closed = any(source.disable_additional_properties for source in sources)
    return Options(whitespace, closed)


def default_whitespace() -> str | int:
    """Return the whitespace of requests that ask for none, from `FFWD_VLLM_WHITESPACE`.

    Raises:
        ValueError: The variable has another value than those of `ffwd.Constraint`.
    """
    value = os.environ.get(WHITESPACE_VARIABLE, "compact")
    if value in ("compact", "single_space"):
        return value
    if value.isdecimal() and 1 <= int(value) <= 64:
        return int(value)
    raise ValueError(
        f'{WHITESPACE_VARIABLE} is {value!r}; expected "compact", "single_space", or 1 to 64'
    )


@lru_cache(maxsize=MAX_GRAMMARS)
def whitespace_of_pattern(pattern: str, compact: bool) -> str | int:
    """Return whitespace that matches a `whitespace_pattern` at each position.

    Raises:
        ValueError: The pattern is no regular expression, or forbids to leave whitespace out.
    """
    if len(pattern) > _MAX_PATTERN:
        raise ValueError("whitespace_pattern is too long")
    grammar = _byte_compiler().compile(ffwd.Constraint.regex(pattern))

    def matches(text: str) -> bool:
        matcher = grammar.matcher()
        return matcher.accept_string(text) and matcher.is_accepting()

    if not matches(""):
        raise ValueError(
            f"whitespace_pattern {pattern!r} demands whitespace; a pattern must permit none"
        )
    if compact:
        return "compact"
    most = 0
    while most < 64 and all(matches(char * (most + 1)) for char in " \t\n\r"):
        most += 1
    if most:
        return most
    return "single_space" if matches(" ") else "compact"


@lru_cache(maxsize=1)
def _byte_compiler() -> ffwd.Compiler:
    tokens = [bytes([byte]) for byte in range(256)]
    return ffwd.Compiler(ffwd.Vocabulary.from_tokens([*tokens, b""], eos=256))


def constraint_of(kind: str, text: str, options: Options) -> ffwd.Constraint:
    """Return the constraint of a request.

    Args:
        kind: The name of vLLM's `StructuredOutputOptions`, such as `"JSON"`.
        text: The text that vLLM passes to its backends.
        options: How JSON texts are written.

    Raises:
        ffwd.Error: The text has a fault, or is not supported; says where.
        ValueError: The kind is not known.
    """
    if kind == "JSON":
        return ffwd.Constraint.json_schema(
            text, whitespace=options.whitespace, closed_objects=options.closed_objects
        )
    if kind == "JSON_OBJECT":
        return ffwd.Constraint.json_object(whitespace=options.whitespace)
    if kind == "REGEX":
        return ffwd.Constraint.regex(text)
    if kind == "CHOICE":
        return ffwd.Constraint.choice(json.loads(text))
    if kind == "GRAMMAR":
        return _grammar(text)
    if kind == "STRUCTURAL_TAG":
        return ffwd.Constraint.structural_tag(
            _with_type(text), whitespace=options.whitespace, closed_objects=options.closed_objects
        )
    raise ValueError(f"constraints of the kind {kind} are not known")


def _grammar(text: str) -> ffwd.Constraint:
    """Return a grammar in the notation that its text looks like, otherwise in the other one."""
    gbnf, lark = ffwd.Constraint.gbnf, ffwd.Constraint.lark
    first, second = (gbnf, lark) if "::=" in text else (lark, gbnf)
    try:
        return first(text)
    except ffwd.Error as error:
        try:
            return second(text)
        except ffwd.Error:
            raise error from None


def _with_type(text: str) -> str:
    """Return a structural tag with its member `type`, which vLLM lets a program leave out."""
    try:
        tag = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(tag, dict) and "type" not in tag:
        return json.dumps({"type": "structural_tag", **tag}, ensure_ascii=False)
    return text


class Grammars:
    """The compiled grammars of a vocabulary, the least recently used of which are dropped.

    Any thread may use it. A grammar is compiled without the lock.
    """

    def __init__(self, vocabulary: ffwd.Vocabulary) -> None:
        """Prepare the vocabulary."""
        self.vocabulary = vocabulary
        self._compiler = ffwd.Compiler(vocabulary)
        self._compiler.warm_up()
        self._lock = threading.Lock()
        # Each with its bytes of memory, which grow as it is used.
        self._grammars: OrderedDict[tuple[str, str, Options], tuple[ffwd.Grammar, int]] = OrderedDict()
        self._memory = 0

    def get(self, kind: str, text: str, options: Options) -> ffwd.Grammar:
        """Return the grammar of a constraint, from the cache if it is there.

        Raises:
            ffwd.Error, ValueError: As `constraint_of`.
        """
        key = (kind, str(text), options)
        with self._lock:
            grammar, _ = self._grammars.get(key, (None, 0))
        if grammar is None:
            grammar = self._compiler.compile(constraint_of(*key))
        memory = grammar.memory_bytes + len(key[1])
        with self._lock:
            # Another thread may have compiled it, too.
            grammar = self._grammars.get(key, (grammar, 0))[0]
            self._drop(key)
            self._grammars[key] = (grammar, memory)
            self._memory += memory
            while len(self._grammars) > MAX_GRAMMARS or self._memory > MAX_MEMORY:
                self._drop(next(iter(self._grammars)))
        return grammar

    def _drop(self, key: tuple[str, str, Options]) -> None:
        _, memory = self._grammars.pop(key, (None, 0))
        self._memory -= memory

    def __len__(self) -> int:
        """Return the number of grammars that are kept."""
        return len(self._grammars)

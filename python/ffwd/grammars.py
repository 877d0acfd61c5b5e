"""Constraints of requests to an inference server: kinds, options, and a bounded cache of grammars.

Both servers, vLLM and SGLang, name the same kinds and pass the same texts.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache

from ._ffwd import Compiler, Constraint, Error, Grammar, Vocabulary

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


def room_for_thinking(grammar: Grammar, max_tokens: int) -> int:
    """Return how many tokens of thinking leave room for the answer.

    Args:
        grammar: The constraint of the answer. Its shortest text fits, and a quarter of the limit beside it.
        max_tokens: The limit of thinking and answer together.
    """
    shortest = grammar.matcher().shortest_completion() or b""
    tokens = len(grammar.vocabulary.encode(shortest.decode(errors="replace")))
    return max(0, max_tokens - tokens - max_tokens // 4)


@lru_cache(maxsize=MAX_GRAMMARS)
def whitespace_of_pattern(pattern: str, compact: bool) -> str | int:
    """Return whitespace that matches a `whitespace_pattern` at each position.

    Raises:
        ValueError: The pattern is no regular expression, or forbids to leave whitespace out.
    """
    if len(pattern) > _MAX_PATTERN:
        raise ValueError("whitespace_pattern is too long")
    grammar = _byte_compiler().compile(Constraint.regex(pattern))

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
def _byte_compiler() -> Compiler:
    tokens = [bytes([byte]) for byte in range(256)]
    return Compiler(Vocabulary.from_tokens([*tokens, b""], eos=256))


def constraint_of(kind: str, text: str, options: Options) -> Constraint:
    """Return the constraint of a request.

    Args:
        kind: `"JSON"`, `"JSON_OBJECT"`, `"REGEX"`, `"CHOICE"`, `"GRAMMAR"` or `"STRUCTURAL_TAG"`.
        text: The text that the server passes to its backends.
        options: How JSON texts are written.

    Raises:
        ffwd.Error: The text has a fault, or is not supported; says where.
        ValueError: The kind is not known.
    """
    if kind == "JSON":
        return Constraint.json_schema(
            text, whitespace=options.whitespace, closed_objects=options.closed_objects
        )
    if kind == "JSON_OBJECT":
        return Constraint.json_object(whitespace=options.whitespace)
    if kind == "REGEX":
        return Constraint.regex(text)
    if kind == "CHOICE":
        return Constraint.choice(json.loads(text))
    if kind == "GRAMMAR":
        return _grammar(text)
    if kind == "STRUCTURAL_TAG":
        return Constraint.structural_tag(
            _with_type(text), whitespace=options.whitespace, closed_objects=options.closed_objects
        )
    raise ValueError(f"constraints of the kind {kind} are not known")


def _grammar(text: str) -> Constraint:
    """Return a grammar in the notation that its text looks like, otherwise in the other one."""
    gbnf, lark = Constraint.gbnf, Constraint.lark
    first, second = (gbnf, lark) if "::=" in text else (lark, gbnf)
    try:
        return first(text)
    except Error as error:
        try:
            return second(text)
        except Error:
            raise error from None


def _with_type(text: str) -> str:
    """Return a structural tag with its member `type`, which a request may leave out."""
    try:
        tag = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(tag, dict) and "type" not in tag:
        return json.dumps({"type": "structural_tag", **tag}, ensure_ascii=False)
    return text


def message_of(error: Exception) -> str:
    """Return an error's text in one line: message, JSON pointer or line, hint."""
    if isinstance(error, RecursionError):
        return "the constraint is nested too deeply"
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())


class Grammars:
    """The compiled grammars of a vocabulary, the least recently used of which are dropped.

    Any thread may use it. A grammar is compiled without the lock.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Prepare the vocabulary."""
        self.vocabulary = vocabulary
        self._compiler = Compiler(vocabulary)
        self._compiler.warm_up()
        self._lock = threading.Lock()
        # Each with its bytes of memory, which grow as it is used.
        self._grammars: OrderedDict[tuple[str, str, Options], tuple[Grammar, int]] = OrderedDict()
        self._memory = 0

    def get(self, kind: str, text: str, options: Options) -> Grammar:
        """Return the grammar of a constraint, from the cache if it is there.

        Raises:
            Error, ValueError: As `constraint_of`.
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

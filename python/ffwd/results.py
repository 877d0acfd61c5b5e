"""What the runtime returns: outputs, records with all about them, statistics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Stats:
    """Statistics of a generation.

    Attributes:
        tokens: Output tokens, without the end token.
        forwards: Calls of the model, that for the prompt included.
        prompt_tokens: Tokens of the prompt.
        prompt_cached: Those of them that an earlier prompt began with and that were there already.
        forced: Output tokens that had no alternative and were drafted.
        unverified: Output tokens that no forward verified.
        drafted: Tokens proposed for verification.
        accepted: Those that the model agreed with.
        drafted_by_source, accepted_by_source: The same by source: `forced`, `lookup` (copied from
            the text), `draft_model`.
        draft_forwards: Calls of the draft model.
        tokens_per_forward: `tokens / forwards`.
        deterministic_fraction: `forced / tokens`.
        seconds: Wall-clock time, without compilation of the constraint.
        compile_seconds: Time of that compilation.
        mode: The mode.
        finish: Name of the reason for the end; see `Finish`.
        guarded: JSON pointers of values that repeated themselves and were ended.
        shortened: JSON pointers of strings that were ended before their `maxLength`.
        taken_back: Tokens after the ends of these strings, which were taken back.
        survival: In the unverified modes: the probability of all unverified tokens.
        spent: Seconds by activity; None for a generation in a batch.
    """

    tokens: int
    forwards: int
    prompt_tokens: int
    prompt_cached: int
    forced: int
    unverified: int
    drafted: int
    accepted: int
    drafted_by_source: Mapping[str, int]
    accepted_by_source: Mapping[str, int]
    draft_forwards: int
    tokens_per_forward: float
    deterministic_fraction: float
    seconds: float
    compile_seconds: float
    mode: str
    finish: str
    guarded: list[str] = field(default_factory=list)
    shortened: list[str] = field(default_factory=list)
    taken_back: int = 0
    survival: float | None = None
    spent: Mapping[str, float] | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Stats:
        """Return the statistics that the compiled module wrote as JSON."""
        return cls(**{f.name: data[f.name] for f in fields(cls) if f.name in data})


@dataclass(frozen=True)
class Finish:
    """The reason why a generation ended.

    Attributes:
        reason: `"stop"`, `"stop_text"`, `"stop_token"`, `"closed"` (by a completion in front of the
            token limit), `"length"` or `"cancelled"`.
        path: For `"length"` and `"cancelled"`: JSON pointer of the unfinished value.
        partial: The text of that value.
        stop: For `"stop_text"`: that text.
        token: For `"stop_token"`: that id.
    """

    reason: str
    path: str | None = None
    partial: str | None = None
    stop: str | None = None
    token: int | None = None


@dataclass(frozen=True)
class Span:
    """A part of the text that a record was extracted from. Ends are exclusive.

    Attributes:
        start, end: Offsets in characters: the part is `text[start:end]`.
        byte_start, byte_end: Offsets in the text's bytes in UTF-8.
        page: Number of the page, if the text comes from a document with pages.
        box: Left, top, right and bottom edge of its words on that page, from the left upper corner.
    """

    start: int
    end: int
    byte_start: int
    byte_end: int
    page: int | None = None
    box: tuple[float, ...] | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Span:
        """Return the span that the compiled module wrote as JSON."""
        box = data.get("box")
        return cls(*data["chars"], *data["bytes"], data.get("page"), box and tuple(box))


@dataclass(frozen=True)
class Confidence:
    """The confidence in a value.

    Attributes:
        probability: Product of the probabilities of its free tokens among the legal ones.
        margin: Smallest lead of one of these tokens over the next legal one.
        legal_mass: Smallest share of the model's probability on legal tokens. Near 0 if the model
            preferred a text that the constraint forbids.
        alternatives: Pairs of a value and its probability, the most probable first; empty unless
            requested.
    """

    probability: float
    margin: float
    legal_mass: float
    alternatives: list[tuple[Any, float]] = field(default_factory=list)

    @classmethod
    def all_of(cls, data: Mapping[str, Any]) -> dict[str, Confidence]:
        """Return the confidences by pointer, from what the compiled module wrote as JSON."""
        known: dict[str, list[tuple[Any, float]]] = {}
        for entry in data.get("alternatives", ()):
            values = [(value["value"], value["probability"]) for value in entry["values"]]
            known[entry["pointer"]] = values
        return {
            pointer: cls(alternatives=known.get(pointer, []), **value)
            for value in data["confidence"]
            for pointer in [value.pop("pointer")]
        }


@dataclass(frozen=True)
class TokenLogprob:
    """Log-probabilities of a token.

    Attributes:
        raw: The model's own, before penalties, bias and mask.
        masked: Among the legal tokens, before temperature.
        margin: Lead of its probability over that of the next legal token.
        legal_mass: Share of the model's probability on legal tokens.
    """

    raw: float
    masked: float
    margin: float
    legal_mass: float


@dataclass(frozen=True)
class Output:
    """A finished generation.

    Attributes:
        text: The text.
        answer: The text after the thinking; without thinking the whole text. None if the generation
            ended before the answer.
        tokens: The ids, without the end token.
        complete: True if the text satisfies the constraint, however it ended.
        finish: The reason for the end.
        stats: Statistics.
        confidence: Confidence by JSON pointer, if requested.
        logprobs: One for each token, if requested; None for tokens that no forward verified.
    """

    text: str
    answer: str | None
    tokens: list[int]
    complete: bool
    finish: Finish
    stats: Stats
    confidence: dict[str, Confidence]
    logprobs: list[TokenLogprob | None]

    @classmethod
    def of(cls, text: str) -> Output:
        """Return the output that the compiled module wrote as JSON."""
        data = json.loads(text)
        return cls(
            text=data["text"],
            answer=data["answer"],
            tokens=data["tokens"],
            complete=data["complete"],
            finish=Finish(**data["finish"]),
            stats=Stats.of(data["stats"]),
            confidence=Confidence.all_of(data),
            logprobs=[known and TokenLogprob(**known) for known in data["logprobs"]],
        )


@dataclass(frozen=True)
class Extraction(Generic[T]):
    """A record and all about it.

    Attributes:
        record: The record.
        text: The record as the generated text.
        finish: The reason for the end; with `"closed"` the last values are not the model's.
        stats: Statistics.
        spans: By JSON pointer: where in the text a value was copied from. Several spans only for
            copied strings (`verbatim`), any of which may be meant. Values without a span are left
            out.
        confidence: Confidence by JSON pointer, if requested.
        source: The file, such as `mail.eml#invoice.pdf`, of `extract_files`.
    """

    record: T
    text: str
    finish: Finish
    stats: Stats
    spans: dict[str, list[Span]]
    confidence: dict[str, Confidence]
    source: str | None = None

    @classmethod
    def of(cls, record: T, details: str) -> Extraction[T]:
        """Return the details that the compiled module wrote as JSON."""
        data = json.loads(details)
        spans = {v["pointer"]: [Span.of(s) for s in v["occurrences"]] for v in data["spans"]}
        return cls(
            record=record,
            text=data["text"],
            finish=Finish(**data["finish"]),
            stats=Stats.of(data["stats"]),
            spans=spans,
            confidence=Confidence.all_of(data),
            source=data.get("source"),
        )


@dataclass(frozen=True)
class Partial:
    """A record while it is generated.

    Attributes:
        value: The record so far as JSON has it. Strings may be unfinished. A property whose value
            has not begun is None.
        done: JSON pointers of the complete values.
    """

    value: Any
    done: frozenset[str]

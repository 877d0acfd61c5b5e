"""Whether a forced run or a copy pays as a draft, from what the engine's own steps cost.

A drafted token that is accepted saves its request a step, of which the request bears its share. Each
drafted token costs its own time, in the model and in the verification. With p the share of drafted
tokens that are accepted, t the time of a step without drafts, n the number of its requests and d the
time of a drafted token, a draft pays if

    p * t / n > d

so the larger the batch, the better drafts must be; from some size on none pays. t and d come from a
regression of the latest steps on requests and drafted tokens, p from the request's latest drafts of
that kind.

# Alternatives considered

Comparing phases with and without drafts was rejected: the lengths of steps differ more by the
requests in them than by the drafts. One time for all tokens of a step was rejected: the verification
of a drafted token costs more than the sampling of another.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..copies import Copies, CopyLength

# The first steps of an engine are slow, and are not counted.
_WARM = 16
_KEPT = 0.98
_MIN_STEPS = 16.0
_RETRY = 16
_DEFAULT_SHARE = 0.3
_TINY = 1e-9


@dataclass
class Drafts:
    """What is known of a request's drafts of one kind.

    Attributes:
        kind: `forced` or `copied`.
        acceptance: Share of drafted tokens that were accepted lately; None without drafts.
        skipped: Drafts that were not made since the last one.
        drafted: Number of tokens of the draft that is being verified.
    """

    kind: str
    acceptance: float | None = None
    skipped: int = 0
    drafted: int = 0


@dataclass
class Record:
    """What is known of a request.

    Attributes:
        forced: Its forced runs as drafts.
        copied: Its copies, which stand behind them.
        tokens: Number of the request's tokens when the last draft was made.
        run: The last forced run in the tokenizer's tokens, while the model is writing it.
        start: Number of the request's tokens in front of that run.
        text: Its tokens, once they were copied from.
        length: How many to copy.
    """

    forced: Drafts = field(default_factory=lambda: Drafts("forced"))
    copied: Drafts = field(default_factory=lambda: Drafts("copied"))
    tokens: int = 0
    run: list[int] = field(default_factory=list)
    start: int = 0
    text: Copies | None = None
    length: CopyLength | None = None


class Gate:
    """Measures the steps of an engine. One thread uses it."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Know nothing yet.

        Args:
            clock: Returns the time in seconds.
        """
        self.acceptance = {"forced": 1.0, "copied": 0.5}
        self._clock = clock
        self._began: float | None = None
        self._drafted = 0
        self._warm = _WARM
        self._requests: frozenset[str] = frozenset()
        # Sums over steps, the older the lighter, of products of (1, requests, drafted, seconds).
        self._sums = [[0.0] * 4 for _ in range(4)]

    def ended(self, requests: list[str]) -> None:
        """Note the end of a step.

        Args:
            requests: Ids of the requests that were in it. A step with one that was not in the step
                before has a prompt in it and is not counted.
        """
        now = self._clock()
        if self._began is None or not requests or not self._requests.issuperset(requests):
            return
        if self._warm:
            self._warm -= 1
            return
        terms = (1.0, float(len(requests)), float(self._drafted), now - self._began)
        for row, a in zip(self._sums, terms):
            for j, b in enumerate(terms):
                row[j] = _KEPT * row[j] + a * b

    def begins(self, requests: list[str], drafted: int) -> None:
        """Note the start of the next step.

        Args:
            requests: Ids of its requests.
            drafted: Number of its drafted tokens.
        """
        self._requests, self._drafted, self._began = frozenset(requests), drafted, self._clock()

    def costs(self, requests: int) -> tuple[float, float] | None:
        """Return the seconds of a step without drafts and of a drafted token.

        Args:
            requests: Number of requests in the step.

        Returns:
            None while they are not known.
        """
        weight = self._sums[0][0]
        if weight < _MIN_STEPS:
            return None
        mean = [total / weight for total in self._sums[0]]
        spread = [
            [self._sums[i][j] / weight - mean[i] * mean[j] for j in range(4)] for i in range(4)
        ]
        n, d, both = spread[1][1], spread[2][2], spread[1][2]
        if d <= _TINY:
            return None
        request = 0.0
        token = spread[2][3] / d
        rest = n * d - both * both
        if n > _TINY and rest > 1e-6 * n * d:
            request = (spread[1][3] * d - spread[2][3] * both) / rest
            token = (spread[2][3] * n - spread[1][3] * both) / rest
        token = max(0.0, token)
        step = mean[3] - token * mean[2] + request * (requests - mean[1])
        return max(0.0, step), token

    def least_share(self, requests: int) -> float:
        """Return the share of drafted tokens that must be accepted for a draft to pay."""
        costs = self.costs(requests)
        if costs is None:
            return _DEFAULT_SHARE
        step, token = costs
        saved = step / max(1, requests)
        return token / saved if saved > 0 else 0.0

    def observe(self, record: Record, tokens: int) -> None:
        """Note what became of a request's draft.

        Args:
            record: The record of the request.
            tokens: Number of the request's tokens after the step.
        """
        # The last new token was sampled, not drafted.
        accepted = max(tokens - record.tokens - 1, 0)
        for drafts in (record.forced, record.copied):
            if drafts.drafted == 0:
                continue
            of_these = min(accepted, drafts.drafted)
            accepted -= of_these
            if drafts is record.copied and record.length:
                record.length.learn(drafts.drafted, of_these)
            share = of_these / drafts.drafted
            known = self._share(drafts)
            drafts.acceptance = known + 0.25 * (share - known)
            self.acceptance[drafts.kind] += 0.05 * (share - self.acceptance[drafts.kind])
            drafts.drafted = 0

    def _share(self, drafts: Drafts) -> float:
        return self.acceptance[drafts.kind] if drafts.acceptance is None else drafts.acceptance

    def pays(self, drafts: Drafts, requests: int) -> bool:
        """Return whether such a draft should be made; now and then also where it would not pay.

        Args:
            drafts: What is known of the request's drafts of this kind.
            requests: Number of requests in the batch.
        """
        drafts.skipped += 1
        if self._share(drafts) < self.least_share(requests) and drafts.skipped < _RETRY:
            return False
        drafts.skipped = 0
        return True

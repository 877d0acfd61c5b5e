"""Whether a forced run pays as a draft, from what the engine's own steps cost.

A step takes a time of its own and a time for each token in it. A drafted token that is accepted
saves the request a step, of which the other requests bear their share; a drafted token that is
rejected costs its time in vain. With p the share of drafted tokens that are accepted, a the time of
a step, b the time of a token and n the number of requests, a draft pays if

    p * (a / n + b) > b

so the larger the batch, the better drafts must be. a and b come from a regression over the latest
steps, p from the latest drafts of the request.

# Alternatives considered

Comparing phases with and without drafts was rejected: the lengths of steps differ more by the
requests in them than by the drafts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_KEPT = 0.98
_MIN_STEPS = 16.0
_RETRY = 16
_DEFAULT_SHARE = 0.3


@dataclass
class Record:
    """What is known of a request's drafts.

    Attributes:
        acceptance: Share of drafted forced tokens that were accepted lately; None without drafts.
        skipped: Runs that were not drafted since the last one.
        forced: Forced tokens at the start of the draft that is being verified.
        tokens: Number of the request's tokens when that draft was made.
    """

    acceptance: float | None = None
    skipped: int = 0
    forced: int = 0
    tokens: int = 0


class Gate:
    """Measures the steps of an engine. One thread uses it."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Know nothing yet.

        Args:
            clock: Returns the time in seconds.
        """
        self.acceptance = 1.0
        self._clock = clock
        self._began: float | None = None
        self._rows = 0
        self._requests: frozenset[str] = frozenset()
        # Sums over steps, the older the lighter: weight, rows, seconds, rows^2, rows * seconds.
        self._sums = [0.0] * 5

    def ended(self, requests: list[str]) -> None:
        """Note the end of a step.

        Args:
            requests: Ids of the requests that were in it. A step with one that was not in the step
                before has a prompt in it and is not counted.
        """
        now = self._clock()
        if self._began is not None and requests and self._requests.issuperset(requests):
            seconds, rows = now - self._began, float(self._rows)
            terms = (1.0, rows, seconds, rows * rows, rows * seconds)
            self._sums = [_KEPT * total + term for total, term in zip(self._sums, terms)]

    def begins(self, requests: list[str], rows: int) -> None:
        """Note the start of the next step.

        Args:
            requests: Ids of its requests.
            rows: Number of its tokens, drafts included.
        """
        self._requests, self._rows, self._began = frozenset(requests), rows, self._clock()

    def costs(self) -> tuple[float, float] | None:
        """Return the seconds of a step and of a token in it, or None if they are not known."""
        weight, rows, seconds, squares, products = self._sums
        spread = weight * squares - rows * rows
        if weight < _MIN_STEPS or spread <= 1e-9 * weight * squares:
            return None
        token = max(0.0, (weight * products - rows * seconds) / spread)
        step = max(0.0, (seconds - token * rows) / weight)
        return step, token

    def least_share(self, requests: int) -> float:
        """Return the share of drafted tokens that must be accepted for a draft to pay."""
        costs = self.costs()
        if costs is None:
            return _DEFAULT_SHARE
        step, token = costs
        saved = step / max(1, requests) + token
        return token / saved if saved > 0 else 0.0

    def observe(self, record: Record, tokens: int) -> None:
        """Note what became of a request's draft.

        Args:
            record: The record of the request.
            tokens: Number of the request's tokens after the step.
        """
        if record.forced == 0:
            return
        # The last new token was sampled, not drafted.
        accepted = min(max(tokens - record.tokens - 1, 0), record.forced)
        share = accepted / record.forced
        known = self.acceptance if record.acceptance is None else record.acceptance
        record.acceptance = known + 0.25 * (share - known)
        self.acceptance += 0.05 * (share - self.acceptance)
        record.forced = 0

    def pays(self, record: Record, requests: int) -> bool:
        """Return whether a forced run should be drafted; now and then also where it would not pay.

        Args:
            record: The record of the request.
            requests: Number of requests in the batch.
        """
        share = self.acceptance if record.acceptance is None else record.acceptance
        record.skipped += 1
        if share < self.least_share(requests) and record.skipped < _RETRY:
            return False
        record.skipped = 0
        return True

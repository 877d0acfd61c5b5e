"""Which way of a step is faster: the outputs of the last one first, so that drafts are known, or last.

Both ways are measured in tokens per second, apart for each number of requests (by powers of two): long phases
of the faster way, short trials of the other. A trial that changes nothing doubles the time to the next one.

# Alternatives considered

A sum of what overlapping saves and what drafts save was rejected: neither can be measured alone while the
engine runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

# Steps that are not counted, because an engine begins slowly and does not know the model's habits.
_WARM = 48
# Steps before the first trial, of a trial, of one whose outcome is close, and of the first and the longest
# phase between trials.
_BEGIN = 48
_TRIAL = 8
_CLOSE_TRIAL = 40
_FIRST = 96
_LONGEST = 8192
# Up to this number of requests, drafts are taken to pay before anything is measured.
_FEW = 8


@dataclass
class _Way:
    """What is known of both ways for about one number of requests; index 1 is `known`."""

    rates: tuple[float, float] = (0.0, 0.0)
    known: bool = True
    is_trial: bool = False
    warm: int = _WARM
    phase: int = _BEGIN
    length: int = _FIRST
    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Pace:
    """Chooses the way of the next step: long phases of the faster one, short trials of the other."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Know nothing yet.

        Args:
            clock: Returns the time in seconds.
        """
        self._clock = clock
        self._ways: dict[int, _Way] = {}
        self._last = (0, 0.0)

    def known(self, requests: int) -> bool:
        """Return whether outputs should come first.

        Args:
            requests: Number of requests that run.
        """
        return self._way(requests).known

    def _way(self, requests: int) -> _Way:
        known = requests <= _FEW
        return self._ways.setdefault(requests.bit_length(), _Way(known=known))

    def note(self, requests: int, tokens: int) -> None:
        """Note the outputs of a step.

        Args:
            requests: Number of requests that run. A step behind a pause is not counted.
            tokens: Number of new tokens.
        """
        now, (before, then) = self._clock(), self._last
        self._last = (requests, now)
        if not requests or not before:
            return
        way = self._way(requests)
        if way.warm:
            way.warm -= 1
            return
        way.steps, way.tokens, way.seconds = way.steps + 1, way.tokens + tokens, way.seconds + now - then
        if way.steps < way.phase:
            return
        rate = way.tokens / max(way.seconds, 1e-9)
        ahead, known = way.rates
        other = ahead if way.known else known
        if way.is_trial and way.steps < _CLOSE_TRIAL and 0.8 < rate / max(other, 1e-9) < 1.25:
            way.phase = _CLOSE_TRIAL
            return
        way.rates = (ahead, rate) if way.known else (rate, known)
        way.steps, way.tokens, way.seconds = 0, 0, 0.0
        if not way.is_trial:
            # The other way is tried.
            way.known, way.is_trial, way.phase = not way.known, True, _TRIAL
            return
        best = way.rates[1] > way.rates[0]
        way.length = min(2 * way.length, _LONGEST) if best != way.known else _FIRST
        way.known, way.is_trial, way.phase = best, False, way.length

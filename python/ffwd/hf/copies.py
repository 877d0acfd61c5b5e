"""Drafts that copy the text so far: prompts contain much of what a record says.

# Cost

A few entries of dictionaries for each token of the text, and as many lookups for a draft.
"""

from __future__ import annotations

# A copy begins where this many of the last tokens occur before, or fewer if there is no such place.
LONGEST_MATCH = 4


class Copies:
    """Where tokens occur in a text that grows.

    Attributes:
        text: The ids so far.
    """

    def __init__(self) -> None:
        self.text: list[int] = []
        # From one to `LONGEST_MATCH` tokens to the end of their latest occurrence. The tokens at
        # the end of the text are entered once another one follows.
        self._ends: dict[tuple[int, ...], int] = {}

    def extend(self, tokens: list[int]) -> None:
        """Append tokens to the text."""
        first = max(1, len(self.text))
        self.text += tokens
        for end in range(first, len(self.text)):
            for length in range(1, min(LONGEST_MATCH, end) + 1):
                self._ends[tuple(self.text[end - length : end])] = end

    def find(self, draft: list[int], limit: int) -> list[int]:
        """Return up to `limit` tokens that follow the last tokens of `text + draft` elsewhere.

        The longest match decides, then the latest one.
        """
        if limit < 1:
            return []
        last = (self.text[-LONGEST_MATCH:] + draft)[-LONGEST_MATCH:]
        for start in range(len(last)):
            end = self._ends.get(tuple(last[start:]))
            if end is not None:
                return self.text[end : end + limit]
        return []


class CopyLength:
    """How many tokens to copy: more after copies that were right, none for a while after failures.

    Most rejected copies cost little, because a forward of a few positions takes hardly longer than
    one of a single position. So only several failures in a row cause a pause.
    """

    FIRST = 8
    SHORTEST = 4
    FAILURES = 4

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._length = min(self.FIRST, limit)
        self._failures = 0
        self._pause = 0

    @property
    def length(self) -> int:
        """Most tokens to copy now."""
        return 0 if self._pause else self._length

    def learn(self, proposed: int, accepted: int) -> None:
        """Note a forward: how many tokens were copied, and how many of them were accepted."""
        if self._pause:
            self._pause -= 1
        if proposed <= 0:
            return
        if accepted == proposed:
            self._length = min(2 * self._length, self.limit)
        else:
            self._length = min(max(self.SHORTEST, 2 * accepted), self._length)
        self._failures = 0 if accepted else self._failures + 1
        if self._failures >= self.FAILURES:
            # Twice as long after each further failure.
            self._pause = min(2 ** (self._failures - self.FAILURES + 1), 32)

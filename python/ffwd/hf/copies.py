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
    """How many tokens to copy: twice as many after a copy that was right, fewer after another."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.length = min(4, limit)
        self.pause = 0
        self.failures = 0

    def learn(self, proposed: int, accepted: int) -> None:
        """Note the last copy: how many tokens were proposed, and how many were accepted."""
        if self.length == 0:
            self.pause -= 1
            self.length = int(self.pause <= 0)
        if proposed <= 0:
            return
        if accepted >= proposed:
            self.length = min(2 * max(self.length, proposed), self.limit)
            self.failures = 0
        elif accepted > 0:
            self.length = max(2, accepted)
            self.failures = 0
        else:
            # Wait longer after each copy of which nothing was right.
            self.failures += 1
            self.length = 0
            self.pause = min(2**self.failures, 32)

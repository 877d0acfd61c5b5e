"""Drafts that copy the text so far: prompts contain much of what a record says.

# Cost

Four bytes for each token of the text, and for a draft a pass of NumPy over them.

# Alternatives considered

Dictionaries from the last tokens to their places were rejected: they take kilobytes for each token
of a long prompt, and an engine has hundreds of requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# A copy begins where this many of the last tokens occur before, or fewer if there is no such place.
LONGEST_MATCH = 4


class Copies:
    """Where tokens occur in a text that grows."""

    def __init__(self) -> None:
        self._room = np.empty(256, dtype=np.int32)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def text(self) -> list[int]:
        """The ids so far."""
        return self._room[: self._length].tolist()

    def extend(self, tokens: list[int]) -> None:
        """Append tokens to the text."""
        length = self._length + len(tokens)
        if length > len(self._room):
            self._room = np.resize(self._room, 2 * length)
        self._room[self._length : length] = tokens
        self._length = length

    def find(self, draft: list[int], limit: int) -> list[int]:
        """Return up to `limit` tokens that follow the last tokens of `text + draft` elsewhere.

        The longest match decides, then the latest one.
        """
        text = self._room[: self._length]
        last = (text[-LONGEST_MATCH:].tolist() + draft)[-LONGEST_MATCH:]
        if limit < 1 or not last:
            return []
        # Where the last token occurs with a token behind it, then with the token before, and so on.
        ends = np.flatnonzero(text[:-1] == last[-1])
        for back in range(1, len(last)):
            longer = ends[back <= ends]
            longer = longer[text[longer - back] == last[-1 - back]]
            if not len(longer):
                break
            ends = longer
        return text[ends[-1] + 1 :][:limit].tolist() if len(ends) else []


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


@dataclass
class Statistics:
    """What a generation took.

    Attributes:
        forwards: Runs of the model, those of the prompt included.
        tokens: Tokens that were generated, the end token included.
        drafted: Tokens that were drafted.
        accepted: Drafted tokens that were accepted.
    """

    forwards: int = 0
    tokens: int = 0
    drafted: int = 0
    accepted: int = 0

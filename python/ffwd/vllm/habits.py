"""The tokens in which a model writes forced runs, where they are not those of its tokenizer.

A constraint forces bytes. The tokenizer would write them in certain tokens, and a model often
prefers others: it has seen the comma of a JSON text with a space after it, so it does not join the
comma with the quote that follows. What it wrote for a run is the best draft for the same run later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import ffwd

MAX_RUNS = 4096


class Habits:
    """Maps runs to the tokens that the model wrote for them last; the oldest are dropped."""

    def __init__(self, vocabulary: ffwd.Vocabulary) -> None:
        """Know nothing yet."""
        self._vocabulary = vocabulary
        self._known: OrderedDict[tuple[int, ...], list[int]] = OrderedDict()

    def draft(self, run: list[int]) -> list[int]:
        """Return the tokens in which the model wrote a run, or those of the tokenizer.

        Args:
            run: The run in the tokenizer's tokens.
        """
        key = tuple(run)
        known = self._known.get(key)
        if known is None:
            return run
        self._known.move_to_end(key)
        return known

    def learn(self, run: list[int], written: Sequence[int]) -> bool:
        """Note what the model wrote where a run was forced.

        Args:
            run: The run in the tokenizer's tokens.
            written: The tokens that the model wrote from its start on.

        Returns:
            False if these do not reach the end of the run yet; nothing is noted then.
        """
        text = self._vocabulary.decode(run)
        tokens: list[int] = []
        at = 0
        for token in written:
            piece = self._vocabulary.token_bytes(token)
            if not piece or not text.startswith(piece, at):
                break  # the end of the output, or a token that reaches beyond the run
            tokens.append(token)
            at += len(piece)
        else:
            if at < len(text):
                return False
        if tokens:
            self._known[tuple(run)] = tokens
            self._known.move_to_end(tuple(run))
            if len(self._known) > MAX_RUNS:
                self._known.popitem(last=False)
        return True

    def __len__(self) -> int:
        """Return the number of runs that are known."""
        return len(self._known)

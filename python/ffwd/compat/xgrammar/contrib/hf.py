"""A logits processor for `generate` of transformers. `ffwd.hf` has a faster one of its own."""

from __future__ import annotations

from typing import Any

from ..compiler import CompiledGrammar
from ..matcher import GrammarMatcher, allocate_token_bitmask, apply_token_bitmask_inplace


class LogitsProcessor:
    """Masks the logits of one call of `generate`.

    Args:
        compiled_grammar: One grammar for all rows of the batch, or one for each row.
    """

    def __init__(self, compiled_grammar: CompiledGrammar | list[CompiledGrammar]) -> None:
        listed = isinstance(compiled_grammar, list)
        self.compiled_grammars = list(compiled_grammar) if listed else [compiled_grammar]
        self.full_vocab_size = self.compiled_grammars[0].tokenizer_info.vocab_size
        self.matchers: list[GrammarMatcher] = []
        self.token_bitmask: Any = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Accept the last token of each row, except in the first call, and mask the scores.

        Args:
            input_ids: Ids of shape (batch, length).
            scores: Logits of shape (batch, width), which are changed.

        Raises:
            RuntimeError: The batch has another size than in the first call, or a token was not
                legal.
        """
        batch = input_ids.shape[0]
        if not self.matchers:
            self._start(batch)
        elif batch != len(self.matchers):
            raise RuntimeError(
                f"input_ids has {batch} rows, the first call had {len(self.matchers)}"
            )
        else:
            for matcher, token in zip(self.matchers, input_ids[:, -1].tolist()):
                if not matcher.is_terminated() and not matcher.accept_token(token):
                    raise RuntimeError(
                        f"token {token} is not legal; use one processor for one call"
                    )
        for row, matcher in enumerate(self.matchers):
            if not matcher.is_terminated():
                matcher.fill_next_token_bitmask(self.token_bitmask, row)
        apply_token_bitmask_inplace(scores, self.token_bitmask.to(scores.device))
        return scores

    def _start(self, batch: int) -> None:
        grammars = self.compiled_grammars
        grammars = grammars * batch if len(grammars) == 1 else grammars
        if len(grammars) != batch:
            raise RuntimeError(f"{len(grammars)} grammars for a batch of {batch}")
        self.matchers = [GrammarMatcher(grammar) for grammar in grammars]
        self.token_bitmask = allocate_token_bitmask(batch, self.full_vocab_size)

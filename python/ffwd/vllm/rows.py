"""The bitmask of a step: the rows of all requests in one call of the engine.

Row `j` of a request is the mask after `j` tokens of its draft. vLLM's own loop does this with a
call for each row; here one call fills them, outside of Python's lock and on several threads.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

import ffwd

from .backend import Grammar, request_grammar

logger = logging.getLogger("vllm.ffwd")


def grammar_bitmask(
    manager: Any, requests: dict[str, Any], ids: list[str], drafts: dict[str, list[int]]
) -> np.ndarray[Any, Any]:
    """Return the bitmask of a step.

    Args:
        manager: vLLM's `StructuredOutputManager`, with a backend of this package.
        requests: All requests by id.
        ids: Those that have rows, in their order; not empty.
        drafts: The drafted tokens that are verified in this step.

    Returns:
        int32 of shape (rows, words): for each request one row more than its drafted tokens, since
        vLLM 0.33 one more than any may have. It is overwritten in the next step.
    """
    block = 1 + manager.vllm_config.num_speculative_tokens
    if manager._grammar_bitmask is None:
        most = manager.vllm_config.scheduler_config.max_num_seqs
        manager._grammar_bitmask = manager.backend.allocate_token_bitmask(most * block)
    bitmask = manager._grammar_bitmask
    # Tokens that end the thinking and that the constraint does not allow next, since 0.33.
    ends_of = getattr(manager, "_masked_reasoning_ends", None)
    matchers, firsts, chains = [], [], []
    row = 0
    for request_id in ids:
        request, draft = requests[request_id], drafts.get(request_id) or []
        grammar = request_grammar(request)
        assert grammar is not None
        padding = next((i for i, token in enumerate(draft) if token < 0), len(draft))
        bounds = manager._get_constraint_bounds(request, draft[:padding])
        plain = bounds.grammar_start == bounds.constraint_start == 0 and padding == len(draft)
        if plain and not grammar.stops and not grammar.is_terminated():
            matchers.append(grammar.matcher)
            firsts.append(row)
            chains.append(draft)
        else:
            ends = ends_of(request) if ends_of and bounds.constraint_start else ()
            _fill(grammar, bitmask, row, draft, padding, bounds, ends)
        row += len(draft) + 1 if ends_of is None else block
    if matchers:
        legal = ffwd.fill_batch(matchers, bitmask, firsts, chains)
        for count, first, chain in zip(legal, firsts, chains):
            if count < len(chain):
                _repeat(bitmask, first + count, first + len(chain), chain[count])
    return bitmask[:row].numpy()


def _fill(
    grammar: Grammar,
    bitmask: Any,
    first: int,
    draft: list[int],
    padding: int,
    bounds: Any,
    ends: tuple[int, ...] = (),
) -> None:
    """Fill the rows of one request, one after the other.

    Args:
        grammar: The state of the request; it is left as it was.
        bitmask: The bitmask.
        first: First row of the request.
        draft: Its drafted tokens.
        padding: Number of tokens in front of padding.
        bounds: The first token that the grammar follows, and the first that it constrains.
        ends: Tokens that are not legal in front of that one.
    """
    followed = 0
    for i in range(len(draft) + 1):
        if bounds.constraint_start <= i <= padding and not grammar.is_terminated():
            grammar.fill_bitmask(bitmask, first + i)
        else:
            bitmask[first + i].fill_(-1)
            if i < bounds.constraint_start and i <= padding:
                for token in ends:
                    bitmask[first + i, token // 32] &= ~np.uint32(1 << token % 32).view(np.int32)
        if bounds.grammar_start <= i < padding:
            if grammar.is_terminated() or not grammar.accept_tokens("draft", [draft[i]]):
                _repeat(bitmask, first + i, first + len(draft), draft[i])
                break
            followed += 1
    if followed:
        grammar.rollback(followed)


def _repeat(bitmask: Any, row: int, last: int, token: int) -> None:
    """Copy a row to those after it, up to `last`: the token drafted there cannot follow."""
    logger.error("Drafted token %d is not legal; it was not validated.", token)
    bitmask[row + 1 : last + 1] = bitmask[row]

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
        int32 of shape (rows, words): for each request one row more than its drafted tokens. It is
        overwritten in the next step.
    """
    if manager._grammar_bitmask is None:
        most = manager.vllm_config.scheduler_config.max_num_seqs
        rows = most * (1 + manager.vllm_config.num_speculative_tokens)
        manager._grammar_bitmask = manager.backend.allocate_token_bitmask(rows)
    bitmask = manager._grammar_bitmask
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
            _fill(grammar, bitmask, row, draft, padding, bounds)
        row += len(draft) + 1
    if matchers:
        legal = ffwd.fill_batch(matchers, bitmask, firsts, chains)
        for count, first, chain in zip(legal, firsts, chains):
            if count < len(chain):
                _repeat(bitmask, first + count, first + len(chain), chain[count])
    return bitmask[:row].numpy()


def _fill(
    grammar: Grammar, bitmask: Any, first: int, draft: list[int], padding: int, bounds: Any
) -> None:
    """Fill the rows of one request, one after the other.

    Args:
        grammar: The state of the request; it is left as it was.
        bitmask: The bitmask.
        first: First row of the request.
        draft: Its drafted tokens.
        padding: Number of tokens in front of padding.
        bounds: The first token that the grammar follows, and the first that it constrains.
    """
    followed = 0
    for i in range(len(draft) + 1):
        if bounds.constraint_start <= i <= padding and not grammar.is_terminated():
            grammar.fill_bitmask(bitmask, first + i)
        else:
            bitmask[first + i].fill_(-1)
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

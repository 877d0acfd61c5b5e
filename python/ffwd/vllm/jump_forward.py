"""Jump-forward: forced runs as drafts that vLLM verifies.

After each step of the synchronous scheduler, the drafter's tokens for the next step pass through
`Scheduler.update_draft_token_ids`. Here the tokens that the grammar forces are put in front of
them. The model verifies them in one forward, as it does with any draft, so the text is that of
decoding without drafts.

# Alternatives considered

A drafter of its own in the worker was rejected: the worker does not know the grammar. Appending
forced tokens without a forward was rejected: the model often writes the same bytes in other tokens.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from .backend import Backend, Grammar, request_grammar

logger = logging.getLogger("vllm.ffwd")

VARIABLE = "FFWD_VLLM_JUMP_FORWARD"


def enabled() -> bool:
    """Return whether the environment permits jump-forward. It does unless the variable is 0."""
    return os.environ.get(VARIABLE, "1").strip().lower() not in ("0", "false", "off", "no")


def lead(scheduler: Any, drafted: Any) -> Any:
    """Return the drafts of the next step with forced runs in front.

    Args:
        scheduler: vLLM's scheduler, after a step.
        drafted: vLLM's `DraftTokenIds`: the drafts of the drafter. It is not changed.
    """
    backend = scheduler.structured_output_manager.backend
    if not isinstance(backend, Backend) or scheduler.num_spec_tokens == 0:
        return drafted
    gate, ids = backend.gate, drafted.req_ids
    gate.ended(ids)
    drafts = [
        _draft(scheduler, backend, request_id, draft, len(ids))
        for request_id, draft in zip(ids, drafted.draft_token_ids)
    ]
    gate.begins(ids, sum(map(len, drafts)))
    return type(drafted)(ids, drafts)


def _draft(
    scheduler: Any, backend: Backend, request_id: str, draft: list[int], requests: int
) -> list[int]:
    request = scheduler.requests.get(request_id)
    if request is None or request.is_finished() or request.is_prefill_chunk:
        return draft
    grammar = request_grammar(request)
    if grammar is None or grammar.is_terminated():
        return draft
    bounds = scheduler.structured_output_manager._get_constraint_bounds(request, ())
    if bounds.constraint_start:
        return draft
    record, tokens = grammar.record, request.num_tokens
    backend.gate.observe(record, tokens)
    if record.run and backend.habits.learn(record.run, request.all_token_ids[record.start :]):
        record.run = []
    run = forced_tokens(grammar, request.all_token_ids[-1], scheduler.num_spec_tokens)
    if not run:
        return draft
    if not record.run:
        record.run, record.start = run, tokens
    if not backend.gate.pays(record, requests):
        return draft
    forced = backend.habits.draft(run)[: scheduler.num_spec_tokens]
    record.forced, record.tokens = len(forced), tokens
    return joined(forced, draft)


def forced_tokens(grammar: Grammar, last: int, limit: int) -> list[int]:
    """Return the forced run of a request in at most `limit` tokens.

    Args:
        grammar: The state of the request.
        last: Its last token, of the prompt or of the output.
        limit: Most tokens.
    """
    matcher = grammar.matcher
    known = last if 0 <= last < matcher.vocabulary.logits_size else None
    return matcher.forced_draft(limit, known)


def joined(forced: list[int], draft: list[int]) -> list[int]:
    """Return the drafter's tokens where they begin with the forced ones, otherwise the latter."""
    return draft if draft[: len(forced)] == forced else forced

"""Jump-forward: forced runs as drafts that vLLM verifies, and copies of the text behind them.

After each step of the synchronous scheduler, the drafter's tokens for the next step pass through
`Scheduler.update_draft_token_ids`. Here the tokens that the grammar forces are put in front of
them. The drafter of this package has none; there a copy of what follows the last tokens elsewhere in
the prompt or the output comes behind the forced ones. The model verifies drafts in one forward, so the
text is that of decoding without drafts.

# Alternatives considered

A drafter of its own in the worker was rejected: the worker does not know the grammar. Appending
forced tokens without a forward was rejected: the model often writes the same bytes in other tokens.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from ..copies import Copies, CopyLength
from .backend import Backend, Grammar, request_grammar
from .drafter import has_own_drafter
from .gate import Gate

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
    record, gate, limit = grammar.record, backend.gate, scheduler.num_spec_tokens
    gate.observe(record, request.num_tokens)
    record.tokens = request.num_tokens
    forced = _forced(request, grammar, backend, limit, requests)
    if forced is None:
        return draft
    if not draft and has_own_drafter(scheduler.vllm_config):
        return forced + _copied(request, grammar, gate, forced, limit, requests)
    return joined(forced, draft)


def _forced(
    request: Any, grammar: Grammar, backend: Backend, limit: int, requests: int
) -> list[int] | None:
    """Return the draft of the forced run; None if there is one that does not pay."""
    record, last = grammar.record, request.all_token_ids[-1]
    if record.run and backend.habits.learn(record.run, request.all_token_ids[record.start :]):
        record.run = []
    run = forced_tokens(grammar, last, limit)
    if not run:
        return []
    if not record.run:
        record.run, record.start = run, request.num_tokens
    if not backend.gate.pays(record.forced, requests):
        return None
    forced = backend.habits.draft(run)[:limit]
    record.forced.drafted = len(forced)
    return forced


def _copied(
    request: Any, grammar: Grammar, gate: Gate, forced: list[int], limit: int, requests: int
) -> list[int]:
    """Return what follows the last tokens of the request elsewhere, as far as it is legal."""
    record = grammar.record
    if record.text is None or record.length is None:
        record.text, record.length = Copies(), CopyLength(limit)
    if record.length.length == 0:
        record.length.learn(0, 0)
        return []
    # First, so that large batches do not pay for looking.
    if not gate.pays(record.copied, requests):
        return []
    record.text.extend(request.all_token_ids[len(record.text) :])
    found = record.text.find(forced, min(limit - len(forced), record.length.length))
    if found:
        found = grammar.validate_tokens(forced + found)[len(forced) :]
    record.copied.drafted = len(found)
    return found


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

"""The rows of a step, filled in one call, against those of vLLM's own loop."""

import random
from types import SimpleNamespace

from vllm_helpers import *  # noqa: F403, I001  (skips the file: it must come first)
from vllm_helpers import CONSTRAINTS, legal_tokens, random_token
import numpy as np
import pytest
from vllm.v1.structured_output import ConstraintBounds, StructuredOutputManager

import ffwd

REQUESTS, DRAFT = 12, 5


class Manager:
    """The state of vLLM's manager that its loop and ours read."""

    _fill_bitmasks = StructuredOutputManager._fill_bitmasks
    if hasattr(StructuredOutputManager, "_masked_reasoning_ends"):  # vLLM 0.33

        def _masked_reasoning_ends(self, request):
            return (7, 31, 64)

    fill_bitmask_parallel_threshold = 128

    def __init__(self, backend, bounds):
        import torch

        self.backend = backend
        self.bounds = bounds
        self._grammar_bitmask = None
        self._full_mask = torch.tensor(-1, dtype=torch.int32)
        self.vllm_config = SimpleNamespace(
            num_speculative_tokens=DRAFT,
            scheduler_config=SimpleNamespace(max_num_seqs=REQUESTS),
            model_config=SimpleNamespace(is_diffusion=False),
        )

    def _get_constraint_bounds(self, request, spec_tokens, spec_tokens_committed=False):
        return self.bounds[request.request_id]


def drafted(rng, matcher, vocabulary, own):
    """A draft that the grammar permits, at times with padding after it."""
    fork, draft = matcher.fork(), []
    for _ in range(rng.randint(0, DRAFT)):
        if fork.is_terminated():
            break
        token = random_token(rng, legal_tokens(fork, own), vocabulary)
        fork.accept_token(token)
        draft.append(token)
    return draft + [-1] * (rng.randint(0, DRAFT - len(draft)) if rng.random() < 0.2 else 0)


def batch(rng, backend, vocabulary):
    own = ffwd.allocate_token_bitmask(1, vocabulary)
    requests, drafts, bounds = {}, {}, {}
    for i in range(rng.randint(1, REQUESTS)):
        kind, text, _ = rng.choice(CONSTRAINTS)
        stops = {300 + i} if rng.random() < 0.2 else None
        grammar = backend.compile_grammar(kind, text, stops)
        for _ in range(rng.randint(0, 8)):
            if not grammar.is_terminated():
                legal = legal_tokens(grammar.matcher, own)
                grammar.accept_tokens("r", [random_token(rng, legal, vocabulary)])
        name = f"r{i}"
        draft = drafted(rng, grammar.matcher, vocabulary, own)
        if draft or rng.random() < 0.5:
            drafts[name] = draft
        bounds[name] = ConstraintBounds(0, 0)
        if rng.random() < 0.2:  # reasoning ends somewhere in the draft, or not at all
            start = rng.randint(0, len(draft) + 1)
            bounds[name] = ConstraintBounds(start, start)
            # The grammar follows what comes after the start only.
            fork, rest = grammar.matcher.fork(), draft[:start]
            while len(rest) < len(draft) and not fork.is_terminated():
                rest.append(random_token(rng, legal_tokens(fork, own), vocabulary))
                fork.accept_token(rest[-1])
            drafts[name] = rest
        structured = SimpleNamespace(grammar=grammar)
        requests[name] = SimpleNamespace(request_id=name, structured_output_request=structured)
    return requests, drafts, bounds


@pytest.mark.parametrize("seed", range(60))
def test_rows_equal_those_of_the_original(seed, backend, reference):
    rng = random.Random(seed)
    requests, drafts, bounds = batch(rng, backend, reference)
    # A token may be named as an end that the grammar needs as text; both then see an illegal draft.
    ids = list(requests)
    rng.shuffle(ids)
    states = [requests[i].structured_output_request.grammar.matcher.num_accepted for i in ids]
    patched = StructuredOutputManager.grammar_bitmask
    expected = patched.__wrapped__(Manager(backend, bounds), requests, ids, drafts).copy()
    found = patched(Manager(backend, bounds), requests, ids, drafts)
    assert found.dtype == np.int32 and found.shape == expected.shape
    for name, j, row in rows_of(ids, drafts):
        a, b = found[row], expected[row]
        grammar, draft = requests[name].structured_output_request.grammar, drafts.get(name, [])
        if ends(grammar, draft[:j], bounds[name], reference):
            continue  # nothing after the end is read: vLLM permits all, this engine the end
        assert np.array_equal(a, b), (name, j, draft, bounds[name])
    after = [requests[i].structured_output_request.grammar.matcher.num_accepted for i in ids]
    assert after == states


def rows_of(ids, drafts):
    """Requests, tokens of their drafts, and the rows: one behind the other, or in blocks since vLLM 0.33."""
    blocks, row = hasattr(Manager, "_masked_reasoning_ends"), 0
    for i, name in enumerate(ids):
        row = i * (1 + DRAFT) if blocks else row
        for j in range(len(drafts.get(name, [])) + 1):
            yield name, j, row
            row += 1


def ends(grammar, tokens, bounds, vocabulary):
    fed = tokens[bounds.grammar_start :]
    return any(token in vocabulary.eos or token in grammar.stops for token in fed)


def test_no_rows_and_other_backends_take_the_original_way(backend):
    manager = Manager(backend, {})
    assert StructuredOutputManager.grammar_bitmask(manager, {}, [], {}) is None


def test_an_illegal_draft_repeats_its_row(backend, reference):
    """As vLLM does: an unvalidated token does not open the rows after it."""
    kind, text, _ = CONSTRAINTS[3]
    grammar = backend.compile_grammar(kind, text)
    request = SimpleNamespace(
        request_id="r0", structured_output_request=SimpleNamespace(grammar=grammar)
    )
    draft = [reference.encode("maybe")[0], 5]
    arguments = ({"r0": request}, ["r0"], {"r0": draft})
    patched = StructuredOutputManager.grammar_bitmask
    bounds = {"r0": ConstraintBounds(0, 0)}
    expected = patched.__wrapped__(Manager(backend, bounds), *arguments).copy()
    found = patched(Manager(backend, bounds), *arguments)
    assert np.array_equal(found[:3], expected[:3]) and np.array_equal(found[0], found[2])


def test_temperatures_of_drafts_are_repeated():
    """The kernel of vLLM for processors writes into a copy; here is what it should do."""
    import torch
    from vllm.utils import cpu_triton_utils

    import ffwd.vllm

    ffwd.vllm.register()
    temperatures, counts = torch.tensor([0.0, 0.7, 0.0, 1.5]), [2, 0, 1, 3]
    found = torch.full((6,), torch.nan)
    ends = torch.tensor(counts, dtype=torch.int32).cumsum(0)
    cpu_triton_utils._expand_kernel_impl(found, temperatures, ends, 0, 1, MAX_NUM_TOKENS=128)
    expected = [
        1.0 if value == 0 else value
        for value, count in zip(temperatures.tolist(), counts)
        for _ in range(count)
    ]
    assert found.tolist() == expected

"""Jump-forward on the asynchronous scheduler: outputs first where drafts pay, the next step first elsewhere.

The asynchronous scheduler starts a step before the last one's tokens are known, so nobody knows what is
forced. Here each step of the engine core goes one of two ways. *Ahead* is vLLM's own: the next step is
scheduled first, without drafts of this package. *Known* takes the outputs in first; the drafts of the next
step are then those of the synchronous scheduler (`jump_forward`). `pace` chooses the way.

The worker keeps the last token of each request on the device, and counts as if all drafts were accepted. In a
known step the scheduler's counts are exact and the drafts are real tokens, which the replaced functions of the
worker take over.

# Alternatives considered

Forced runs in front of drafters on the device were left out: their places in a step would have to be told
from ours, and none was at hand to try it. Predicting the tokens of the step that runs was rejected: each
forced run would take a forward more, and the tokens that a model writes for it are not those of its
tokenizer.
"""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Literal, get_args

from . import contract
from .drafter import has_own_drafter

if TYPE_CHECKING:
    from .pace import Pace

EXACT = "ffwd_exact"
# With the value 1, the asynchronous scheduler stays where the platform turns it off, which is the processor.
VARIABLE = "FFWD_VLLM_ASYNC"


def apply() -> None:
    """Replace the functions of the scheduler and the engine core, and those of the worker when it starts."""
    from vllm.v1.worker.worker_base import WorkerBase

    _configuration()
    _engine()
    original = WorkerBase.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if not hasattr(WorkerBase, EXACT):
            setattr(WorkerBase, EXACT, True)
            _worker()
        original(self, *args, **kwargs)

    WorkerBase.__init__ = init  # type: ignore[method-assign]


def _configuration() -> None:
    """Permit the asynchronous scheduler with the drafter of this package."""
    import vllm.config.vllm as module

    original = module.VllmConfig.__post_init__
    usual = module.NgramGPUTypes
    with_own = Literal[(*get_args(usual), "custom_class")]

    @functools.wraps(original)
    def post_init(self: Any) -> None:
        module.NgramGPUTypes = with_own if has_own_drafter(self) else usual
        try:
            original(self)
        finally:
            module.NgramGPUTypes = usual

    module.VllmConfig.__post_init__ = post_init
    from vllm.platforms import current_platform

    platform: Any = type(current_platform)
    update = platform.check_and_update_config

    def check_and_update_config(config: Any) -> None:
        wanted = config.scheduler_config.async_scheduling
        update(config)
        if os.environ.get(VARIABLE) == "1":
            config.scheduler_config.async_scheduling = wanted

    platform.check_and_update_config = staticmethod(check_and_update_config)


def _engine() -> None:
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.engine.core import EngineCore

    from .backend import Backend, request_grammar

    original_step = EngineCore.step_with_batch_queue
    original_after = AsyncScheduler._update_after_schedule

    @functools.wraps(original_step)
    def step(self: Any) -> Any:
        scheduler = self.scheduler
        backend = scheduler.structured_output_manager.backend
        usable = isinstance(backend, Backend) and isinstance(scheduler, AsyncScheduler)
        if not usable or not has_own_drafter(scheduler.vllm_config):
            return original_step(self)
        pace = backend.pace
        running = len(scheduler.running)
        setattr(scheduler, EXACT, not self.batch_queue)
        if any(map(request_grammar, scheduler.running)):
            if not self.batch_queue:
                _draft(scheduler)
            elif pace.known(running):
                # The outputs that are there, and no new step.
                scheduler.has_requests = lambda: False
                try:
                    return _noted(pace, running, original_step(self))
                finally:
                    del scheduler.has_requests
        return _noted(pace, running, original_step(self))

    @functools.wraps(original_after)
    def update_after_schedule(self: Any, scheduler_output: Any) -> None:
        original_after(self, scheduler_output)
        if has_own_drafter(self.vllm_config):
            setattr(scheduler_output, EXACT, getattr(self, EXACT, False))
            # Its worker has no drafts of which these would be the places.
            for request_id in scheduler_output.num_scheduled_tokens:
                self.requests[request_id].spec_token_ids = []

    EngineCore.step_with_batch_queue = step  # type: ignore[method-assign]
    AsyncScheduler._update_after_schedule = update_after_schedule  # type: ignore[method-assign]


def _noted(pace: Pace, running: int, result: Any) -> Any:
    outputs = result[0]
    if outputs:
        new = (len(one.new_token_ids) for all_of in outputs.values() for one in all_of.outputs)
        pace.note(running, sum(new))
    return result


def _draft(scheduler: Any) -> None:
    """Give the requests their drafts, as the synchronous scheduler does after each step."""
    from vllm.v1.outputs import DraftTokenIds

    ids = [request.request_id for request in scheduler.running]
    # Passes through `jump_forward.lead`.
    scheduler.update_draft_token_ids(DraftTokenIds(ids, [[] for _ in ids]))


def _worker() -> None:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    difference = contract.other_signature(((GPUModelRunner, contract.RUNNER),))
    if difference is not None:
        raise RuntimeError(f"ffwd does not know this vLLM ({difference}); use --no-async-scheduling")
    original_states = GPUModelRunner._update_states
    original_inputs = GPUModelRunner._prepare_input_ids
    original_bookkeeping = GPUModelRunner._bookkeeping_sync

    @functools.wraps(original_states)
    def update_states(self: Any, scheduler_output: Any) -> Any:
        correct = original_states(self, scheduler_output)
        if not getattr(scheduler_output, EXACT, False) or not self.use_async_spec_decode:
            return correct
        # The counts are exact already, and the drafts are those of the scheduler.
        self.prev_num_draft_tokens.np.fill(0)
        self._draft_token_req_ids = None
        return None

    @functools.wraps(original_inputs)
    def prepare_input_ids(
        self: Any, scheduler_output: Any, num_reqs: int, total: int, cu_num_tokens: Any
    ) -> None:
        if isinstance(self._draft_token_ids, list) and self.use_async_scheduling:
            self._draft_token_ids = self._draft_token_req_ids = None
        original_inputs(self, scheduler_output, num_reqs, total, cu_num_tokens)
        if self.use_async_spec_decode:
            _write_drafts(self, scheduler_output.scheduled_spec_decode_tokens, cu_num_tokens)

    @functools.wraps(original_bookkeeping)
    def bookkeeping_sync(self: Any, scheduler_output: Any, sampler_output: Any, *rest: Any) -> Any:
        sampled = sampler_output.sampled_token_ids
        own = self.use_async_spec_decode and self.input_batch.prev_sampled_token_ids is None
        if own and sampled.shape[-1] > 1 and has_own_drafter(self.vllm_config):
            # What a drafter on the device does: the last token of each request, and their number.
            counts = ((sampled >= 0) & (sampled < self.input_batch.vocab_size)).sum(1)
            last = sampled.gather(1, (counts - 1).clamp(min=0).unsqueeze(1)).squeeze(1)
            self._copy_valid_sampled_token_count(last, counts)
        return original_bookkeeping(self, scheduler_output, sampler_output, *rest)

    GPUModelRunner._update_states = update_states  # type: ignore[method-assign]
    GPUModelRunner._prepare_input_ids = prepare_input_ids  # type: ignore[method-assign]
    GPUModelRunner._bookkeeping_sync = bookkeeping_sync  # type: ignore[method-assign]


def _write_drafts(runner: Any, drafts: dict[str, list[int]], ends: Any) -> None:
    """Write drafts that are tokens, not places of the worker's own, into the inputs of a step.

    Args:
        runner: vLLM's runner of the model.
        drafts: The drafts of each request.
        ends: For each row of the batch, where its inputs end.
    """
    import torch

    places: list[int] = []
    tokens: list[int] = []
    for request_id, draft in drafts.items():
        end = int(ends[runner.input_batch.req_id_to_index[request_id]])
        real = [(end - len(draft) + i, token) for i, token in enumerate(draft) if token >= 0]
        places.extend(place for place, _ in real)
        tokens.extend(token for _, token in real)
    if places:
        ids = runner.input_ids.gpu
        at = torch.tensor(places, dtype=torch.int64).to(ids.device, non_blocking=True)
        ids[at] = torch.tensor(tokens, dtype=ids.dtype).to(ids.device, non_blocking=True)

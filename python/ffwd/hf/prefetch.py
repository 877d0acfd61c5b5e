"""`Prefetch`: the masks of a step are made while the device computes it.

`generate` calls stopping criteria as soon as the tokens of a step are chosen, before it queues the
next forward. The ids are then copied to the CPU behind the choice, and a thread waits for the copy,
advances the matchers and fills the bitmask, while Python queues the forward and the device computes
it. When the logits are there, so is the bitmask.

# Cost

A copy of the ids, and an event. The thread holds Python's lock for some microseconds: tokens are
accepted and masks filled in one call without it.

# Alternatives considered

A hook on the model's forward was rejected: it sees the new tokens only, which do not tell a beam that
changed its row. Filling on the calling thread was rejected: where the device is faster than Python can
queue, it would add its whole time to each step.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import torch
import transformers

if TYPE_CHECKING:
    from .processor import LogitsProcessor


class Prefetch(transformers.StoppingCriteria):
    """A criterion that ends no generation, and lets a processor begin its next masks.

    Attributes:
        on_cpu: Also begin where the model is on the CPU, whose cores the forward needs (default: no).
    """

    def __init__(self, processor: LogitsProcessor) -> None:
        self._processor = processor
        self.on_cpu = False
        self._never = torch.zeros(0, dtype=torch.bool)

    def __call__(
        self, input_ids: torch.LongTensor, scores: Any = None, **kwargs: Any
    ) -> torch.BoolTensor:
        """Begin the masks behind these ids. Returns False for each row."""
        if self.on_cpu or input_ids.device.type != "cpu":
            self._processor.begin_masks(input_ids)
        if self._never.shape[0] != len(input_ids) or self._never.device != input_ids.device:
            self._never = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
        return self._never


class Ahead:
    """Work on ids of a device that a thread does once the ids are on the CPU."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._ids: torch.Tensor | None = None
        self._job: Future[None] | None = None

    def begin(self, ids: torch.Tensor, work: Callable[[torch.Tensor], None]) -> None:
        """Call `work` with a copy of the ids on the CPU, on another thread."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(1, thread_name_prefix="ffwd-masks")
        pinned = ids.device.type == "cuda"
        copy = torch.empty(ids.shape, dtype=ids.dtype, pin_memory=pinned)
        copy.copy_(ids, non_blocking=True)
        copied: Any = None
        if ids.device.type != "cpu":
            copied = torch.Event(device=ids.device, blocking=True)
            copied.record()

        def job() -> None:
            if copied is not None:
                copied.synchronize()
            work(copy)

        self._ids, self._job = ids, self._threads.submit(job)

    def finish(self, ids: torch.Tensor | None = None) -> bool:
        """Wait until the work is done. Returns True if it was done for this very tensor.

        Raises:
            ValueError: What the work for this tensor raised.
        """
        job, begun = self._job, self._ids
        self._ids = self._job = None
        if job is None:
            return False
        wait([job])
        if ids is None or ids is not begun:
            return False
        job.result()
        return True

"""A drafter of vLLM without drafts of its own.

With it vLLM runs its speculative path, and `jump_forward` puts forced tokens and copies there.
"""

from __future__ import annotations

from typing import Any


class JumpForward:
    """The drafter `ffwd.vllm.JumpForward` of `speculative_config`."""

    def __init__(self, vllm_config: Any) -> None:
        """Take the configuration of the engine, which is not needed."""

    def propose(self, sampled_token_ids: list[list[int]], *_: Any, **__: Any) -> list[list[int]]:
        """Return an empty draft for each request of the batch.

        Args:
            sampled_token_ids: The new tokens of each request.
        """
        return [[] for _ in sampled_token_ids]

    def load_model(self, *_: Any, **__: Any) -> None:
        """Do nothing: there is no model."""


def has_own_drafter(config: Any) -> bool:
    """Return whether the drafter of vLLM's configuration is that of this package."""
    return getattr(config.speculative_config, "model", None) == "ffwd.vllm.JumpForward"

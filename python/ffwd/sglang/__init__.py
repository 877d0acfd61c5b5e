"""The constraint engine as a grammar backend of SGLang.

SGLang finds `register` by the entry point `sglang.srt.plugins`, and a server then takes
`--grammar-backend ffwd`. Two functions are hooked through SGLang's own registry of hooks.

Nothing of SGLang is imported with this module.
"""

from __future__ import annotations

from typing import Any

__all__ = ["register"]

NAME = "ffwd"


def register() -> None:
    """Make SGLang accept the backend `ffwd`. Further calls do nothing.

    SGLang calls it in each of its processes. A program that writes a `ServerArgs` itself calls it
    first.

    Raises:
        ImportError: SGLang is not installed, or has no such registry.
    """
    from sglang.srt.constrained.base_grammar_backend import register_grammar_backend
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.server_args import GRAMMAR_BACKEND_CHOICES, add_grammar_backend_choices

    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])
        protocol = "sglang.srt.entrypoints.openai.protocol.ChatCompletionRequest"
        HookRegistry.register(f"{protocol}.to_sampling_params", _beside_format, HookType.AROUND)
        manager = "sglang.srt.constrained.grammar_manager.GrammarManager"
        HookRegistry.register(f"{manager}._apply_request_reasoning_config", _leave_room)
    register_grammar_backend(NAME, _make)


def _make(server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any) -> Any:
    """Make the backend of a scheduler, as SGLang's registry calls it."""
    from .backend import make

    return make(tokenizer, vocab_size, eos_token_ids)


def _beside_format(*arguments: Any, **more: Any) -> Any:
    from .tools import beside_format

    return beside_format(*arguments, **more)


def _leave_room(*arguments: Any) -> None:
    from .reasoning import leave_room

    leave_room(*arguments)

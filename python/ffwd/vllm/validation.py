"""Refusal of faulty requests in vLLM's front end, before they reach the engine."""

from __future__ import annotations

from typing import Any

import ffwd

from ..grammars import message_of, room_for_thinking
from .constraints import Specification, options_of
from .contract import REASONING
from .tokenizers import grammars_of

# Fields of a request, and what each is called in messages.
NOUNS = {
    "json": "JSON schema",
    "regex": "regex",
    "choice": "choice",
    "grammar": "grammar specification",
    "json_object": "JSON object",
    "structural_tag": "structural tag specification",
}


def validate(params: Any, model_config: Any, config: Any, tokenizer: Any) -> None:
    """Compile the constraint of a request, so that a fault is an answer with status 400.

    Args:
        params: vLLM's `SamplingParams`, with a constraint.
        model_config: vLLM's `ModelConfig`.
        config: vLLM's `StructuredOutputsConfig`.
        tokenizer: vLLM's tokenizer, or None.

    Raises:
        VLLMValidationError: The request cannot be served; says where and why.
    """
    from vllm.exceptions import VLLMValidationError

    wanted = params.structured_outputs
    if model_config.is_diffusion:
        raise VLLMValidationError("Structured outputs are not yet supported for diffusion models.")
    if tokenizer is None:
        raise VLLMValidationError(
            "Structured outputs need a tokenizer, so skip_tokenizer_init must not be set."
        )
    if wanted._backend not in (None, "ffwd"):
        raise VLLMValidationError(
            f"The request names the backend {wanted._backend!r}, and this engine has 'ffwd'."
        )
    _check_values(wanted)
    field = field_of(wanted)
    try:
        kind, specification = specification_of(config, wanted)
        grammars = grammars_of(tokenizer, model_config.get_vocab_size(), model_config)
        grammar = grammars.get(kind, specification, specification.options)
    except (ffwd.Error, ValueError, TypeError, RecursionError) as error:
        message = f"Invalid {NOUNS[field]}: {message_of(error)}"
        raise VLLMValidationError(message, parameter=field) from error
    wanted._backend = "ffwd"
    wanted.__post_init__()
    reasoning = getattr(config, REASONING, None)
    if reasoning is not None and reasoning.enabled and params.max_tokens:
        room = room_for_thinking(grammar, params.max_tokens)
        room = max(0, room - len(reasoning.reasoning_end_token_ids or ()))
        given = params.thinking_token_budget
        params.thinking_token_budget = room if given is None else min(given, room)


def specification_of(config: Any, wanted: Any) -> tuple[str, Specification]:
    """Return the kind of a request's constraint by name, and its text with options.

    Args:
        config: vLLM's `StructuredOutputsConfig`.
        wanted: vLLM's `StructuredOutputsParams`.

    Raises:
        ValueError, TypeError, RecursionError: It is no text and cannot be written as one.
    """
    from vllm.v1.structured_output.request import get_structured_output_key

    kind, text = get_structured_output_key(wanted)
    return kind.name, Specification(text, options_of(config, wanted))


def field_of(wanted: Any) -> str:
    """Return the name of the field that has the constraint."""
    return next(name for name in NOUNS if getattr(wanted, name) is not None)


def _check_values(wanted: Any) -> None:
    """Refuse values that vLLM itself refuses whatever the backend."""
    from vllm.exceptions import VLLMValidationError
    from vllm.sampling_params import check_json_nesting

    if wanted.json_object is False:
        raise VLLMValidationError("json_object must be True or absent.", parameter="json_object")
    if isinstance(wanted.choice, list) and not wanted.choice:
        raise VLLMValidationError("choice cannot be an empty list.", parameter="choice")
    for name in ("json", "grammar", "structural_tag"):
        value = getattr(wanted, name)
        if isinstance(value, str) and not value.strip():
            raise VLLMValidationError(f"{name} cannot be an empty string.", parameter=name)
    if wanted.regex and "\x00" in wanted.regex:
        raise VLLMValidationError("regex has a NUL character.", parameter="regex")
    check_json_nesting(wanted.json)
    check_json_nesting(wanted.structural_tag, structural_tag=True)

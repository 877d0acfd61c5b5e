"""What this package expects of vLLM: its version, and all that it replaces or relies on."""

from __future__ import annotations

import inspect
from typing import Any, get_args

VERSIONS = ("0.32",)

MANAGER = {
    "grammar_init": "self request",
    "_get_constraint_bounds": "self request spec_tokens spec_tokens_committed",
    "validate_tokens": "self request spec_tokens",
    "accept_tokens": "self request new_token_ids",
    "grammar_bitmask": "self requests structured_output_request_ids scheduled_spec_decode_tokens",
}
BACKEND = {
    "compile_grammar": "self request_type grammar_spec stop_token_ids",
    "allocate_token_bitmask": "self max_num_seqs",
    "destroy": "self",
}
GRAMMAR = {
    "accept_tokens": "self request_id tokens",
    "validate_tokens": "self tokens",
    "rollback": "self num_tokens",
    "fill_bitmask": "self bitmask batch_index",
    "is_terminated": "self",
    "reset": "self",
}
PARAMS = {"_validate_structured_outputs": "self model_config structured_outputs_config tokenizer"}
SCHEDULER = {"update_draft_token_ids": "self draft_token_ids"}
BEAM_SEARCH = {"_init_beam_search_structured_output": "self structured_outputs tokenizer"}

CONSTRAINTS = {"json", "regex", "choice", "grammar", "json_object", "structural_tag"}
OPTIONS = {"disable_any_whitespace", "disable_additional_properties", "whitespace_pattern"}
VALIDATOR = "_validate_structured_output_config"


def difference() -> str | None:
    """Return how this vLLM differs from what is expected, or None.

    Raises:
        ImportError: vLLM is not installed.
    """
    import vllm

    version = getattr(vllm, "__version__", "unknown")
    if ".".join(version.split(".")[:2]) not in VERSIONS:
        return f"it is version {version}, and this package knows {', '.join(VERSIONS)}"
    try:
        return _first_difference()
    except (ImportError, AttributeError, KeyError) as error:
        return f"a part of it is missing ({error})"


def _first_difference() -> str | None:
    from vllm.entrypoints.generate.beam_search.offline import BeamSearchOfflineMixin
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.structured_output import StructuredOutputManager
    from vllm.v1.structured_output.backend_types import (
        StructuredOutputBackend,
        StructuredOutputGrammar,
    )

    for owner, methods in (
        (StructuredOutputManager, MANAGER),
        (StructuredOutputBackend, BACKEND),
        (StructuredOutputGrammar, GRAMMAR),
        (SamplingParams, PARAMS),
        (Scheduler, SCHEDULER),
        (BeamSearchOfflineMixin, BEAM_SEARCH),
    ):
        for name, expected in methods.items():
            found = " ".join(inspect.signature(getattr(owner, name)).parameters)
            if found != expected:
                return f"{owner.__name__}.{name} takes ({found}), not ({expected})"
    unknown = StructuredOutputGrammar.__abstractmethods__ - GRAMMAR.keys()
    unknown |= StructuredOutputBackend.__abstractmethods__ - BACKEND.keys()
    if unknown:
        return f"its backends have a further method {min(unknown)}"
    fields = StructuredOutputsParams.__dataclass_fields__.keys()
    own = {name for name in fields if not name.startswith("_")}
    if own != CONSTRAINTS | OPTIONS:
        return f"StructuredOutputsParams has the fields {', '.join(sorted(own))}"
    return _config_difference()


def _config_difference() -> str | None:
    from vllm.config.structured_outputs import StructuredOutputsConfig
    from vllm.v1.outputs import DraftTokenIds
    from vllm.v1.structured_output.request import StructuredOutputRequest

    config: Any = StructuredOutputsConfig
    if "xgrammar" not in get_args(config.__dataclass_fields__["backend"].type):
        return "the name of a backend is no longer one of a list"
    if list(config.__pydantic_decorators__.model_validators) != [VALIDATOR]:
        return "StructuredOutputsConfig is validated otherwise"
    if list(inspect.signature(DraftTokenIds).parameters) != ["req_ids", "draft_token_ids"]:
        return "DraftTokenIds has other members"
    if "structured_output_key" not in vars(StructuredOutputRequest):
        return "StructuredOutputRequest has no structured_output_key"
    return None

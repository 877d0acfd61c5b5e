"""What this package expects of vLLM: its version, and all that it replaces or relies on."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, get_args

VERSIONS = ("0.32", "0.33")

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

PARSER = {"_apply_structural_tag": "self request"}
# Where the front end finds the configuration of thinking.
REASONING = "_ffwd_reasoning"
# For jump-forward on the asynchronous scheduler.
ENGINE = {"step_with_batch_queue": "self"}
ASYNC_SCHEDULER = {"_update_after_schedule": "self scheduler_output"}
WORKER = {"__init__": "self vllm_config local_rank rank distributed_init_method is_driver_worker"}
RUNNER = {
    "_update_states": "self scheduler_output",
    "_prepare_input_ids": "self scheduler_output num_reqs total_num_scheduled_tokens cu_num_tokens",
    "_bookkeeping_sync": "self scheduler_output sampler_output logits hidden_states num_scheduled_tokens",
    "_copy_valid_sampled_token_count": "self next_token_ids valid_sampled_tokens_count",
}

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


def asynchronous_difference() -> str | None:
    """Return how this vLLM differs from what jump-forward needs on the asynchronous scheduler, or None."""
    try:
        import vllm.config.vllm as config
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.worker.worker_base import WorkerBase

        if not get_args(config.NgramGPUTypes):
            return "NgramGPUTypes is no list of methods"
        owners = ((EngineCore, ENGINE), (AsyncScheduler, ASYNC_SCHEDULER), (WorkerBase, WORKER))
        return other_signature(owners)
    except (ImportError, AttributeError) as error:
        return f"a part of it is missing ({error})"


def other_signature(owners: Iterable[tuple[type, dict[str, str]]]) -> str | None:
    for owner, methods in owners:
        for name, expected in methods.items():
            found = " ".join(inspect.signature(getattr(owner, name)).parameters)
            if found != expected:
                return f"{owner.__name__}.{name} takes ({found}), not ({expected})"
    return None


def _first_difference() -> str | None:
    from vllm.entrypoints.generate.beam_search.offline import BeamSearchOfflineMixin
    from vllm.parser.abstract_parser import DelegatingParser
    from vllm.sampling_params import SamplingParams, StructuredOutputsParams
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.structured_output import StructuredOutputManager
    from vllm.v1.structured_output.backend_types import (
        StructuredOutputBackend,
        StructuredOutputGrammar,
    )

    other = other_signature(
        (
            (StructuredOutputManager, MANAGER),
            (StructuredOutputBackend, BACKEND),
            (StructuredOutputGrammar, GRAMMAR),
            (SamplingParams, PARAMS),
            (Scheduler, SCHEDULER),
            (BeamSearchOfflineMixin, BEAM_SEARCH),
            (DelegatingParser, PARSER),
        )
    )
    if other is not None:
        return other
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

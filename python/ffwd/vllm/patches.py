"""What is replaced in vLLM so that it knows the backend `ffwd`.

Each replacement calls the original for other backends. `contract` checks all of this first.
"""

from __future__ import annotations

import functools
import logging
from concurrent.futures import Future
from typing import Any, Literal, get_args

from . import asynchronous, contract
from .contract import REASONING, VALIDATOR

logger = logging.getLogger("vllm.ffwd")


def apply() -> None:
    """Replace the functions. Must be called once."""
    _name()
    _front_end()
    _core()
    _beam_search()
    _temperatures()
    _tools()
    from . import jump_forward

    if jump_forward.enabled():
        difference = contract.asynchronous_difference()
        if difference is None:
            asynchronous.apply()
        else:
            logger.warning("Jump-forward takes the synchronous scheduler in this vLLM: %s.", difference)


def _tools() -> None:
    """Let tools and a final format hold together: a call, or an answer in the format.

    vLLM joins both only for strict tools, and for formats that XGrammar takes.
    """
    import vllm.parser.abstract_parser as module
    from vllm.config import VllmConfig
    from vllm.tool_parsers.tool_strict_level import ToolStrictLevel

    parser: Any = module.DelegatingParser
    original, supports = parser._apply_structural_tag, module._xgrammar_supports
    post_init = VllmConfig.__post_init__
    active: list[bool] = []

    @functools.wraps(post_init)
    def noted(self: Any) -> None:
        post_init(self)
        if self.structured_outputs_config.backend == "ffwd":
            active.append(True)
            # For the front end, which gets this part of the configuration alone.
            object.__setattr__(self.structured_outputs_config, REASONING, self.reasoning_config)

    @functools.wraps(original)
    def apply_structural_tag(self: Any, request: Any) -> Any:
        if not (active and request.tools and request.tool_choice == "auto"):
            return original(self, request)
        if request.extract_structured_outputs() is None:
            return original(self, request)
        level = self.tool_strict_level
        self.tool_strict_level = ToolStrictLevel.PARAMETER
        try:
            return original(self, request)
        finally:
            self.tool_strict_level = level

    VllmConfig.__post_init__ = noted  # type: ignore[method-assign]
    parser._apply_structural_tag = apply_structural_tag
    module._xgrammar_supports = lambda wanted: bool(active) or supports(wanted)


def _name() -> None:
    """Add the name to the list of backends, and permit the options of JSON texts with it."""
    import pydantic.dataclasses
    import vllm.config.structured_outputs as module
    from vllm.config import VllmConfig

    config: Any = module.StructuredOutputsConfig
    names = Literal[(*get_args(config.__dataclass_fields__["backend"].type), "ffwd")]
    module.StructuredOutputsBackend = names  # type: ignore[misc]
    config.__annotations__["backend"] = names
    config.__dataclass_fields__["backend"].type = names
    validator = config.__pydantic_decorators__.model_validators[VALIDATOR]
    checked = validator.func

    @functools.wraps(checked)
    def validated(self: Any) -> Any:
        return self if self.backend == "ffwd" else checked(self)

    validator.func = validated
    setattr(config, VALIDATOR, validated)
    pydantic.dataclasses.rebuild_dataclass(config, force=True)
    # The configuration of an engine has the schema of its parts in its own.
    pydantic.dataclasses.rebuild_dataclass(VllmConfig, force=True)


def _front_end() -> None:
    from vllm.sampling_params import SamplingParams

    original = SamplingParams._validate_structured_outputs

    @functools.wraps(original)
    def validate(
        self: Any, model_config: Any, structured_outputs_config: Any, tokenizer: Any
    ) -> None:
        config = structured_outputs_config
        if config is None or self.structured_outputs is None or config.backend != "ffwd":
            return original(self, model_config, config, tokenizer)
        from . import validation

        return validation.validate(self, model_config, config, tokenizer)

    SamplingParams._validate_structured_outputs = validate  # type: ignore[method-assign]


def _core() -> None:
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.structured_output import StructuredOutputManager

    from . import jump_forward

    original_init = StructuredOutputManager.grammar_init
    original_bitmask = StructuredOutputManager.grammar_bitmask
    original_update = Scheduler.update_draft_token_ids

    @functools.wraps(original_init)
    def grammar_init(self: Any, request: Any) -> None:
        structured = request.structured_output_request
        own = self.vllm_config.structured_outputs_config.backend == "ffwd"
        # A front end that validates nothing, such as that in Rust, names no backend.
        if structured is not None and structured.params._backend in ("ffwd", None if own else "ffwd"):
            structured.params._backend = "ffwd"
            try:
                _prepare(self, structured)
            except Exception as error:
                # The scheduler ends this request with an error, and no other.
                structured.grammar = Future()
                structured._grammar.set_exception(error)
                return
        original_init(self, request)

    @functools.wraps(original_bitmask)
    def grammar_bitmask(
        self: Any,
        requests: dict[str, Any],
        structured_output_request_ids: list[str],
        scheduled_spec_decode_tokens: dict[str, list[int]],
    ) -> Any:
        from . import rows
        from .backend import Backend

        arguments = (requests, structured_output_request_ids, scheduled_spec_decode_tokens)
        if not structured_output_request_ids or not isinstance(self.backend, Backend):
            return original_bitmask(self, *arguments)
        return rows.grammar_bitmask(self, *arguments)

    @functools.wraps(original_update)
    def update_draft_token_ids(self: Any, draft_token_ids: Any) -> None:
        original_update(self, jump_forward.lead(self, draft_token_ids))

    StructuredOutputManager.grammar_init = grammar_init  # type: ignore[method-assign]
    StructuredOutputManager.grammar_bitmask = grammar_bitmask  # type: ignore[method-assign]
    if jump_forward.enabled():
        Scheduler.update_draft_token_ids = update_draft_token_ids  # type: ignore[method-assign]


def _prepare(manager: Any, structured: Any) -> None:
    """Make the backend at the first request, and give the request's text its options."""
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions

    from .backend import Backend
    from .validation import specification_of

    config = manager.vllm_config
    if manager.backend is None:
        size = config.model_config.get_vocab_size()
        manager.backend = Backend(config, tokenizer=manager.tokenizer, vocab_size=size)
    kind, text = specification_of(config.structured_outputs_config, structured.params)
    # A cached property, so the value in its place is what everyone reads.
    vars(structured)["structured_output_key"] = (StructuredOutputOptions[kind], text)


def _beam_search() -> None:
    from vllm.entrypoints.generate.beam_search.offline import BeamSearchOfflineMixin as Mixin
    from vllm.v1.structured_output.backend_types import StructuredOutputOptions

    original = Mixin._init_beam_search_structured_output

    @functools.wraps(original)
    def start(self: Any, structured_outputs: Any, tokenizer: Any) -> Any:
        config = self.llm_engine.vllm_config
        options = config.structured_outputs_config
        name = structured_outputs._backend or (options.backend if options else None)
        if name != "ffwd":
            return original(self, structured_outputs, tokenizer)
        from .backend import Backend
        from .validation import specification_of

        structured_outputs._backend = name
        size = self.model_config.get_vocab_size()
        backend = Backend(vllm_config=config, tokenizer=tokenizer, vocab_size=size)
        kind, text = specification_of(options, structured_outputs)
        return backend, (StructuredOutputOptions[kind], text), backend.allocate_token_bitmask(1)

    Mixin._init_beam_search_structured_output = start  # type: ignore[method-assign]


def _temperatures() -> None:
    """Mend the temperatures of drafts on processors.

    vLLM's kernel for them writes into a copy as integers, so drafts of sampled requests, and of greedy ones
    beside them, are verified with what happens to be in memory.
    """
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    import vllm.utils.cpu_triton_utils as module

    def expand(
        output: Any, values: Any, ends: Any, replace_from: float, replace_to: float, *_: Any, **__: Any
    ) -> None:
        counts = ends.diff(prepend=ends.new_zeros(1))
        output.copy_(values.masked_fill(values == replace_from, replace_to).repeat_interleave(counts))

    module._expand_kernel_impl = expand

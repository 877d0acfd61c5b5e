"""The options of vLLM's requests: how their JSON texts are written."""

from __future__ import annotations

import os
from typing import Any

from ..grammars import Options, whitespace_of_pattern

WHITESPACE_VARIABLE = "FFWD_VLLM_WHITESPACE"


class Specification(str):
    """The text of a constraint with its options, in place of vLLM's bare text."""

    options: Options

    def __new__(cls, text: str, options: Options) -> Specification:
        self = super().__new__(cls, text)
        self.options = options
        return self


def options_of(config: Any, params: Any = None) -> Options:
    """Return the options of a request.

    Args:
        config: vLLM's `StructuredOutputsConfig`.
        params: vLLM's `StructuredOutputsParams` of the request, if there is one.

    Raises:
        ValueError: The whitespace pattern or the environment variable cannot be honoured.
    """
    sources = [source for source in (config, params) if source is not None]
    compact = any(source.disable_any_whitespace for source in sources)
    whitespace: str | int = "compact" if compact else default_whitespace()
    pattern = getattr(params, "whitespace_pattern", None)
    if pattern is not None:
        whitespace = whitespace_of_pattern(pattern, compact)
    closed = any(source.disable_additional_properties for source in sources)
    return Options(whitespace, closed)


def default_whitespace() -> str | int:
    """Return the whitespace of requests that ask for none, from `FFWD_VLLM_WHITESPACE`.

    Raises:
        ValueError: The variable has another value than those of `ffwd.Constraint`.
    """
    value = os.environ.get(WHITESPACE_VARIABLE, "compact")
    if value in ("compact", "single_space"):
        return value
    if value.isdecimal() and 1 <= int(value) <= 64:
        return int(value)
    raise ValueError(
        f'{WHITESPACE_VARIABLE} is {value!r}; expected "compact", "single_space", or 1 to 64'
    )

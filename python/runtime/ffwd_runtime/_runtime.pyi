"""Types of the compiled module, which takes and gives plain values and JSON texts.

`ffwd.Engine` is the public interface.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

__version__: str

def _make_constraint(method: str, arguments: Mapping[str, Any]) -> Any: ...

@final
class Options:
    def __new__(
        cls,
        *,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int = 0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        logit_bias: Sequence[tuple[int, float]] | None = None,
        mode: str = "exact",
        stop: Sequence[str] | None = None,
        stop_tokens: Sequence[int] | None = None,
        close_before_limit: bool = False,
        guard: bool | None = None,
        end_at_words: bool | None = None,
        think_until: str | None = None,
        think_budget: int = 256,
        draft_model: bool = True,
        lookup: bool = True,
        confidence: bool = False,
        logprobs: bool = False,
    ) -> Options: ...

@final
class Engine:
    def __new__(
        cls,
        *,
        model: str | os.PathLike[str] | None = None,
        adapter: str | None = None,
        model_folders: Sequence[str] = ...,
        draft: str | os.PathLike[str] | None = None,
        without_draft: bool = False,
        precision: str = "stored",
        kv: str = "f32",
        max_context: int | None = None,
        threads: int | None = None,
        chat_template: str | None = None,
        markers: Sequence[str] = ...,
    ) -> Engine: ...
    def generate(
        self, prompt: str | None, messages: str | None, constraint: Any, options: Options
    ) -> str: ...
    def stream(
        self, prompt: str | None, messages: str | None, constraint: Any, options: Options
    ) -> Stream: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, tokens: Sequence[int]) -> bytes: ...
    @property
    def logits_size(self) -> int: ...
    @property
    def context_size(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def has_draft(self) -> bool: ...
    @property
    def whitespace(self) -> str: ...

@final
class Extractor:
    def __new__(
        cls,
        engine: Engine,
        schema: str,
        *,
        instructions: str = "",
        examples: Sequence[tuple[str, str]] = ...,
        system: str | None = None,
        prompt: str | None = None,
        verbatim: bool = False,
        whole_words: bool = False,
        open_objects: bool = False,
        whitespace: str | int | None = None,
        key_order: str = "declared",
        documents: Mapping[str, str] | None = None,
    ) -> Extractor: ...
    def extract(
        self, text: str, options: Options, details: bool, alternatives: bool
    ) -> tuple[str, str | None]: ...
    def stream(self, text: str, options: Options) -> Stream: ...
    def many(
        self,
        texts: Iterator[str | tuple[str | int | None, str]],
        batch: int,
        output: Mapping[str, object],
        options: Options,
        details: bool,
        alternatives: bool,
    ) -> Many: ...
    def prompt(self, text: str) -> str: ...
    @property
    def warnings(self) -> list[tuple[str, str, str | None]]: ...

@final
class Many:
    def __iter__(self) -> Many: ...
    def __next__(self) -> tuple[str, str | None]: ...
    @property
    def is_broken(self) -> bool: ...
    @property
    def failures(self) -> os.PathLike[str] | None: ...
    def close(self) -> None: ...

@final
class Stream:
    def __iter__(self) -> Stream: ...
    def __next__(self) -> tuple[str, list[str]]: ...
    @property
    def result(self) -> str | None: ...
    def close(self) -> None: ...

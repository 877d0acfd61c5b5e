"""A provider for langextract: its extractions by a model of `ffwd.Engine`, exact by their schema.

langextract finds it by its entry point. The model id is `ffwd:` and what `ffwd.Engine` takes as its
model, such as `ffwd:small` or `ffwd:model.gguf`; `ffwd` is the embedded model:

    result = langextract.extract(text, prompt_description=..., examples=..., model_id="ffwd:small")

The schema comes from the examples: each extraction is of one of their classes, and has the
attributes of its class. Its text is copied from the document, byte for byte, if the examples copy
theirs; so langextract finds it there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langextract.core.base_model import BaseLanguageModel
from langextract.core.data import ATTRIBUTE_SUFFIX, EXTRACTIONS_KEY, ExampleData
from langextract.core.exceptions import InferenceRuntimeError
from langextract.core.schema import BaseSchema
from langextract.core.types import ScoredOutput

from . import Constraint, Engine, Error
from .options import GenerateOptions

# What langextract gives every provider, and a model in this process has no use for.
_UNUSED = {"api_key", "format_type", "model_url", "base_url", "max_workers"}


def _item(name: str, examples: Sequence[ExampleData], suffix: str) -> dict[str, Any]:
    """Return the schema of the extractions of a class."""
    found = [
        (example.text, extraction)
        for example in examples
        for extraction in example.extractions or []
        if extraction.extraction_class == name
    ]
    text: dict[str, Any] = {"type": "string", "minLength": 1}
    if all(extraction.extraction_text in source for source, extraction in found):
        text["x-verbatim"] = True
    item: dict[str, Any] = {"type": "object", "properties": {name: text}, "required": [name]}
    attributes: dict[str, Any] = {}
    for _, extraction in found:
        for key, value in (extraction.attributes or {}).items():
            one = {"type": "string", "maxLength": 200}
            many = {"type": "array", "items": one, "maxItems": 16}
            attributes[key] = many if isinstance(value, list) else attributes.get(key, one)
    if attributes:
        item["properties"][name + suffix] = {"type": "object", "properties": attributes}
        item["properties"][name + suffix]["required"] = list(attributes)
        item["required"].append(name + suffix)
    return item


def _document(prompt: str, last_example: str | None) -> str:
    """Return the text of a prompt from which is extracted: its question behind the examples."""
    prompt = prompt.removesuffix("\nA: ")
    if last_example is None:
        return prompt.rpartition("\nQ: ")[2]
    return prompt.partition(f"Q: {last_example}\n")[2].partition("\nQ: ")[2] or prompt


class FfwdSchema(BaseSchema):
    """A JSON Schema of langextract's output."""

    def __init__(self, schema: dict[str, Any], last_example: str | None = None) -> None:
        self.schema_dict = schema
        self._last_example = last_example

    @classmethod
    def from_examples(
        cls, examples_data: Sequence[ExampleData], attribute_suffix: str = ATTRIBUTE_SUFFIX
    ) -> FfwdSchema:
        """Make the schema of extractions such as those of the examples."""
        all_of = [extraction for example in examples_data for extraction in example.extractions or []]
        names = dict.fromkeys(extraction.extraction_class for extraction in all_of)
        items = [_item(name, examples_data, attribute_suffix) for name in names]
        found = {"type": "array", "items": {"anyOf": items} if items else {"type": "object"}}
        schema = {"properties": {EXTRACTIONS_KEY: found}, "required": [EXTRACTIONS_KEY]}
        return cls(schema, examples_data[-1].text if examples_data else None)

    @classmethod
    def from_schema_dict(cls, output_schema: dict[str, Any]) -> FfwdSchema:
        """Make the schema from one of the caller's own."""
        return cls(dict(output_schema))

    def to_provider_config(self) -> dict[str, Any]:
        """Return what the provider gets."""
        return {"schema": self.schema_dict, "last_example": self._last_example}

    @property
    def requires_raw_output(self) -> bool:
        """True: outputs are JSON without a fence."""
        return True


class FfwdLanguageModel(BaseLanguageModel):
    """The provider. Its parameters are those of `ffwd.Engine` and the options of a generation."""

    def __init__(
        self,
        model_id: str = "ffwd",
        schema: dict[str, Any] | None = None,
        last_example: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        options = {name: value for name, value in options.items() if name not in _UNUSED}
        generation = GenerateOptions.__annotations__.keys() & options.keys()
        self._options: dict[str, Any] = {"max_tokens": 1024, "close_before_limit": True, "guard": True}
        self._options |= {name: options.pop(name) for name in generation}
        self._engine = Engine(model_id.partition(":")[2] or None, **options)
        self.apply_schema(FfwdSchema(schema, last_example) if schema else FfwdSchema.from_examples([]))

    @classmethod
    def get_model_patterns(cls) -> tuple[str, ...]:
        """Return the patterns of model ids."""
        return (r"^ffwd(:|$)",)

    @classmethod
    def get_schema_class(cls) -> type[FfwdSchema]:
        """Return the class of schemas."""
        return FfwdSchema

    def apply_schema(self, schema_instance: BaseSchema | None) -> None:
        """Take a schema, or keep the one of any extraction."""
        if schema_instance is not None:
            super().apply_schema(schema_instance)

    def infer(self, batch_prompts: Sequence[str], **_: Any) -> Iterator[Sequence[ScoredOutput]]:
        """Generate the output of each prompt."""
        for prompt in batch_prompts:
            try:
                output = self._output(prompt)
            except Error as error:
                raise InferenceRuntimeError(str(error), original=error, provider="ffwd") from error
            yield [ScoredOutput(score=1.0, output=output)]

    def _output(self, prompt: str) -> str:
        config = self.schema.to_provider_config()
        source = _document(prompt, config["last_example"])
        constraint = Constraint.json_schema(config["schema"], closed_objects=True, source=source)
        try:
            messages = [{"role": "user", "content": prompt}]
            return self._engine.generate(messages, constraint, **self._options).text
        except Error as error:
            if error.kind != "unsupported":  # the model has no chat template
                raise
        return self._engine.generate(prompt, constraint, **self._options).text

"""The options of a generation, and those of an extraction."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Any, Literal, TypedDict

Mode = Literal["exact", "off", "canonical", "longest"]


class GenerateOptions(TypedDict, total=False):
    """Options of a generation. Each has a default, so all may be left out.

    Attributes:
        max_tokens: Largest number of output tokens (512).
        temperature: Divides the logits (0, which takes the most probable token).
        seed: Seed of the random numbers, from 0 up to 64 bits (0).
        top_k: Keep only the most probable tokens (None, which keeps all).
        top_p: Keep the fewest tokens whose probabilities reach this sum (1.0).
        min_p: Keep tokens with at least this part of the highest probability (0.0).
        repetition_penalty: Weakens tokens that are present already (1.0).
        presence_penalty: Subtracted from the logits of these tokens (0.0).
        frequency_penalty: The same, once for each occurrence (0.0).
        logit_bias: From token ids to numbers that are added to their logits; `-inf` forbids one.
        mode: `"exact"`: drafts that the model verifies, with the text of `"off"`; `"off"`: one
            forward for each token; `"canonical"`, `"longest"`: forced text is not verified.
        stop: A text or several that end the output in front of them.
        stop_tokens: Ids that end the output.
        close_before_limit: Complete the output by a short end when `max_tokens` is near (False).
        guard: End values of a JSON output that repeat themselves (in extractions True).
        end_at_words: End strings that reach `maxLength` at a word (in extractions True).
        think_until: Let the model write freely up to this text; the constraint holds after it.
        think_budget: Most tokens of that free text (256).
        draft_model: Use the draft model, if there is one (True).
        lookup: Draft values by copying from the text (True).
        confidence: Report the confidence in each value of a JSON output (False).
        logprobs: Report the log-probabilities of the tokens (False).
        split_special_tokens: Read special tokens such as `<|im_start|>` in a prompt that is a text
            as plain text (False). In the messages of a conversation they are always text.
    """

    max_tokens: int
    temperature: float
    seed: int
    top_k: int | None
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    mode: Mode
    stop: str | Iterable[str]
    stop_tokens: Iterable[int]
    close_before_limit: bool
    guard: bool
    end_at_words: bool
    think_until: str
    think_budget: int
    draft_model: bool
    lookup: bool
    confidence: bool
    logprobs: bool
    split_special_tokens: bool


class SchemaOptions(TypedDict, total=False):
    """Options of how a schema is read and put to the model.

    Attributes:
        instructions: A text in the prompt, such as what a property means.
        examples: Pairs of a text and its record, which is an instance of the type, or plain JSON.
        system: The system message of the prompt.
        prompt: The user message of the prompt, a template with `{text}` and, if wanted, `{schema}`,
            `{fields}`, `{notes}`, `{instructions}` and `{examples}`.
        prompt_form: The form of the prompt: `"default"`, `"nuextract"`, `"nuextract-1.5"` or
            `"lfm2-extract"` (that of the model's chat template).
        verbatim: Copy all free strings from the text, byte for byte (False).
        whole_words: Let copied strings begin and end at words (False).
        open_objects: Permit properties that the schema does not mention (False).
        whitespace: As that of `Constraint.json_schema` (what suits the model).
        key_order: As that of `Constraint.json_schema` (`"declared"`).
        documents: Further JSON documents for `$ref`: from URI to JSON text.
    """

    instructions: str
    examples: Iterable[tuple[str, Any]]
    system: str
    prompt: str
    prompt_form: Literal["default", "nuextract", "nuextract-1.5", "lfm2-extract"]
    verbatim: bool
    whole_words: bool
    open_objects: bool
    whitespace: Literal["compact", "single_space"] | int | None
    key_order: Literal["declared", "any"]
    documents: Mapping[str, str]


class ExtractOptions(GenerateOptions, SchemaOptions, total=False):
    """The options of both, and what to return.

    Attributes:
        alternatives: With `details`: the probabilities of the values that the schema chooses from a
            few, such as those of enums. Costs forwards (False).
    """

    alternatives: bool


class RunOptions(TypedDict, total=False):
    """How many texts run, and the files of their records.

    Attributes:
        batch: Number of texts that run together (16).
        progress: Show the progress with tqdm (False).
        errors: `"raise"`: the failure of a text is raised in its place, and the next call continues
            with the next text. `"return"`: the exception is the item.
        output: A file that gets each record as soon as it is complete, as `ffwd extract --output`
            writes it: JSON Lines, or a table if it ends in `.csv` or `.tsv`. Failures are in a file
            beside it.
        resume: Records that the output has of the same texts are not made again. An output that
            another schema, model or option made is an error; `"keep"` keeps such records (False).
        restart: Replace the output, if it exists (False).
        keep_stale: Keep the records of texts that changed or are no longer there (False).
    """

    batch: int
    progress: bool
    errors: Literal["raise", "return"]
    output: str | PathLike[str] | None
    resume: bool | Literal["keep"]
    restart: bool
    keep_stale: bool


class ManyOptions(ExtractOptions, RunOptions, total=False):
    """The options of an extraction from many texts."""


SCHEMA_OPTIONS = frozenset(SchemaOptions.__annotations__)


RUN_OPTIONS = frozenset(RunOptions.__annotations__)


def check_schema_options(options: Iterable[str]) -> None:
    """Check for misspelt options of a schema; the compiled module checks all others.

    Raises:
        TypeError: An option is almost one of `SchemaOptions`.
    """
    for name in set(options) - ManyOptions.__annotations__.keys():
        for right in difflib.get_close_matches(name, SCHEMA_OPTIONS, 1, 0.8):
            raise TypeError(f'there is no option "{name}"; did you mean "{right}"?')


def for_runtime(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a generation in the types of the compiled module.

    Raises:
        TypeError: An option has another type.
    """
    plain = {name: value for name, value in options.items() if value is not None}
    if isinstance(plain.get("stop"), str):
        plain["stop"] = [plain["stop"]]
    for name in {"stop", "stop_tokens"} & plain.keys():
        plain[name] = list(plain[name])
    if "logit_bias" in plain:
        plain["logit_bias"] = list(plain["logit_bias"].items())
    return plain

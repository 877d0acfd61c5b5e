"""`Engine`: models that write records and other constrained text, on the CPU of this process.

The models run in the package `ffwd-llm-runtime`, which is imported when the first engine is made.
"""

from __future__ import annotations

import importlib.util
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from ._ffwd import Constraint, ConstraintWarning, __version__
from .options import RUN_OPTIONS, SCHEMA_OPTIONS, check_schema_options, for_runtime
from .records import Records, RecordStream, TextStream
from .results import Extraction, Output
from .schemas import record_type

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import ExtractOptions, GenerateOptions, ManyOptions, SchemaOptions

T = TypeVar("T")
JsonSchema = str | bytes | bool | Mapping[str, Any]
Path = str | os.PathLike[str]
Text = str | tuple[str | int | None, str]


class Engine:
    """A model with its tokenizer, and a draft model that makes it faster.

    Several threads may use an engine at the same time. Each call releases Python's lock while the
    model runs, and Ctrl-C ends it at once. An engine belongs to the process that loaded it: start
    further processes with the method "spawn".

    Args:
        model: A GGUF file, a folder with `config.json` and safetensors, `"small"` or `"medium"`
            (published models with an adapter that extracts), or a repository of the model hub as
            `"OWNER/NAME"` or `"OWNER/NAME:FILE.gguf"`. None is the embedded model.
        adapter: An adapter (LoRA) of the model: a folder as PEFT writes it, or a GGUF file, with
            `:SCALE` behind it to multiply its scale. `"extract"` is the one that comes with the
            package for the bases of `"small"` and `"medium"`. Engines of one file share its weights.
        draft: A smaller model with the same tokenizer. None is the embedded draft model with the
            embedded model, otherwise no draft model. False is none.
        threads: Number of threads that run forwards and batches. They belong to this engine. None:
            all engines without a number share one for each physical core that the process may use,
            or as many as the environment variable `CANDLE_NUM_THREADS` says.
        precision: Format of the weights in memory: `"stored"` (that of the file), `"f32"`,
            `"q8_0"` or `"q4_k"`.
        kv: Format of keys and values: `"f32"` or `"f16"`.
        max_context: Limit the context to this number of tokens.
        chat_template: A chat template (Jinja) instead of the model's own.
        markers: Texts in outputs that are special tokens of the tokenizer, such as
            `"[TOOL_CALLS]"`, and are text for this engine.
        end_tokens: Tokens that end a generation, by their texts or ids, instead of those that the
            files name and the chat template writes.

    Raises:
        ImportError: The package `ffwd-llm-runtime` is not installed, or has another version.
        ffwd.Error: A file is missing, is no model, or draft and model have different tokenizers.
        ValueError: An option is out of range.
    """

    def __init__(
        self,
        model: Path | None = None,
        *,
        adapter: Path | None = None,
        draft: Path | Literal[False] | None = None,
        threads: int | None = None,
        precision: Literal["stored", "f32", "q8_0", "q4_k"] = "stored",
        kv: Literal["f32", "f16"] = "f32",
        max_context: int | None = None,
        chat_template: str | None = None,
        markers: Sequence[str] = (),
        end_tokens: Sequence[str | int] = (),
    ) -> None:
        runtime = _runtime()
        self._name = "embedded" if model is None else os.fspath(model)
        self._inner = runtime.Engine(
            model,
            draft or None,
            draft is False,
            _model_folders(runtime),
            adapter=None if adapter is None else os.fspath(adapter),
            precision=precision,
            kv=kv,
            max_context=max_context,
            threads=threads,
            chat_template=chat_template,
            markers=list(markers),
            end_tokens=[str(token) for token in end_tokens],
        )

    @classmethod
    def embedded(cls, *, draft: bool = True, threads: int | None = None) -> Engine:
        """Load the small model that is inside the package `ffwd-llm-runtime`.

        It was trained on short business texts in English and serves for tests and first steps.

        Args:
            draft: Load its draft model too. It changes the time only.
            threads: See the class.
        """
        return cls(draft=None if draft else False, threads=threads)

    def __repr__(self) -> str:
        return f"<ffwd.Engine {self._name!r}>"

    @property
    def threads(self) -> int:
        """Number of threads of a forward."""
        return self._inner.threads

    @property
    def context_size(self) -> int:
        """Largest number of tokens of a prompt and its output."""
        return self._inner.context_size

    @property
    def logits_size(self) -> int:
        """Width of the model's logits, in tokens."""
        return self._inner.logits_size

    @property
    def has_draft(self) -> bool:
        """True if there is a draft model."""
        return self._inner.has_draft

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, in which special tokens have no meaning."""
        return self._inner.encode(text)

    def decode(self, tokens: Iterable[int]) -> bytes:
        """Return the bytes of ids; special tokens have none.

        Raises:
            ValueError: An id is out of range.
        """
        return self._inner.decode(list(tokens))

    @overload
    def extractor(self, schema: type[T], **options: Unpack[SchemaOptions]) -> Extractor[T]: ...
    @overload
    def extractor(self, schema: JsonSchema, **options: Unpack[SchemaOptions]) -> Extractor[Any]: ...
    def extractor(self, schema: Any, **options: Any) -> Extractor[Any]:
        """Make a schema ready for many texts, one after the other or together.

        Args:
            schema: What a record is: a pydantic model, a dataclass or another type that pydantic
                reads, or a JSON Schema.
            options: See `ffwd.options.SchemaOptions`.

        Raises:
            ffwd.Error: The schema is not supported, an example does not fit it, or the template of
                the prompt is wrong; `pointer` says where.
            ImportError: It is a type, and pydantic is not installed.
            TypeError: There is no such option, or no JSON Schema describes the type.
        """
        return Extractor(self, schema, options)

    @overload
    def extract(
        self,
        text: str,
        schema: type[T],
        *,
        details: Literal[False] = False,
        **options: Unpack[ExtractOptions],
    ) -> T: ...
    @overload
    def extract(
        self,
        text: str,
        schema: type[T],
        *,
        details: Literal[True],
        **options: Unpack[ExtractOptions],
    ) -> Extraction[T]: ...
    @overload
    def extract(
        self,
        text: str,
        schema: JsonSchema,
        *,
        details: bool = False,
        **options: Unpack[ExtractOptions],
    ) -> Any: ...
    def extract(self, text: str, schema: Any, *, details: bool = False, **options: Any) -> Any:
        """Extract a record from a text.

        Args:
            text: The text.
            schema: What the record is: a pydantic model, a dataclass or another type that pydantic
                reads, or a JSON Schema.
            details: Return an `Extraction` with statistics, spans and confidence.
            options: See `ffwd.options.ExtractOptions`. `confidence` and `alternatives` are parts of
                the details.

        Returns:
            The record: an instance of the type, or plain JSON values of a JSON Schema.

        Raises:
            ffwd.Truncated: The record does not end within `max_tokens`.
            ffwd.InvalidRecord: A validator of the type refuses the record.
            ffwd.Error: The schema is not supported, or the text is blank or too long.
        """
        extractor, rest = self._split(schema, options)
        return extractor.extract(text, details=details, **rest)

    @overload
    def extract_many(
        self,
        texts: Iterable[Text],
        schema: type[T],
        *,
        details: Literal[False] = False,
        **options: Unpack[ManyOptions],
    ) -> Records[T]: ...
    @overload
    def extract_many(
        self,
        texts: Iterable[Text],
        schema: type[T],
        *,
        details: Literal[True],
        **options: Unpack[ManyOptions],
    ) -> Records[Extraction[T]]: ...
    @overload
    def extract_many(
        self,
        texts: Iterable[Text],
        schema: JsonSchema,
        *,
        details: bool = False,
        **options: Unpack[ManyOptions],
    ) -> Records[Any]: ...
    def extract_many(
        self,
        texts: Iterable[Text],
        schema: Any,
        *,
        details: bool = False,
        **options: Any,
    ) -> Records[Any]:
        """Extract the records of many texts, `batch` of them together, in the order of the texts.

        Texts are taken from the iterable only when records are taken from the result, at most two
        batches ahead. The records are those of `extract`.

        Args:
            texts: The texts, such as a generator, or pairs of what identifies a text and the text. An
                `output` has the identifiers.
            schema: As that of `extract`.
            details: As that of `extract`. A record of an earlier run has no statistics.
            options: See `ffwd.options.ManyOptions`.

        Raises:
            ValueError: `batch` is not positive, or `errors` has another value.
            ImportError: `progress` is wanted, and tqdm is not installed.
            ffwd.Error: As `extractor`; or the output exists, or was made by something else.
        """
        extractor, rest = self._split(schema, options)
        return extractor.extract_many(texts, details=details, **rest)

    @overload
    def extract_files(
        self,
        files: Path | Iterable[Path],
        schema: type[T],
        *,
        details: Literal[False] = False,
        **options: Unpack[ManyOptions],
    ) -> Records[T]: ...
    @overload
    def extract_files(
        self,
        files: Path | Iterable[Path],
        schema: type[T],
        *,
        details: Literal[True],
        **options: Unpack[ManyOptions],
    ) -> Records[Extraction[T]]: ...
    @overload
    def extract_files(
        self,
        files: Path | Iterable[Path],
        schema: JsonSchema,
        *,
        details: bool = False,
        **options: Unpack[ManyOptions],
    ) -> Records[Any]: ...
    def extract_files(
        self,
        files: Path | Iterable[Path],
        schema: Any,
        *,
        details: bool = False,
        **options: Any,
    ) -> Records[Any]:
        """Extract the records of documents: PDF, `.eml`, `.mbox`, `.html`, `.docx`, hOCR and texts.

        A file may hold several texts, such as an e-mail with attachments. Pages without text and the
        like are warnings.

        Args:
            files: A file, a folder, a pattern such as `mails/**/*.eml`, or several of these.
            schema: As that of `extract`.
            details: As that of `extract`. `source` is the file, and spans have `page` and `box`.
            options: See `ffwd.options.ManyOptions`.

        Raises:
            ffwd.Error: As `extract_many`; or no file is there.
        """
        extractor, rest = self._split(schema, options)
        return extractor.extract_files(files, details=details, **rest)

    @overload
    def extract_streaming(
        self, text: str, schema: type[T], **options: Unpack[ExtractOptions]
    ) -> RecordStream[T]: ...
    @overload
    def extract_streaming(
        self, text: str, schema: JsonSchema, **options: Unpack[ExtractOptions]
    ) -> RecordStream[Any]: ...
    def extract_streaming(self, text: str, schema: Any, **options: Any) -> RecordStream[Any]:
        """Extract a record, and iterate over its parts while it is generated.

        Returns:
            An iterator of `Partial`, one each time that a value begins, grows or ends. Its `record`
            is the whole record, once the iterator has ended.

        Raises:
            ffwd.Error: As `extractor`. The errors of the text come from the iterator.
        """
        extractor, rest = self._split(schema, options)
        return extractor.extract_streaming(text, **rest)

    def generate(
        self,
        prompt: str | Sequence[Mapping[str, Any]],
        constraint: Constraint | None = None,
        **options: Unpack[GenerateOptions],
    ) -> Output:
        """Generate a text under a constraint.

        Args:
            prompt: A text to continue, in which special tokens such as `<|im_start|>` are these
                tokens unless `split_special_tokens` is set; or the messages of a conversation, each a dict with `role`
                and `content`, which the model's chat template renders.
            constraint: What the output may be; None is any text. If it names no whitespace, JSON
                has the whitespace that suits the model.
            options: See `ffwd.options.GenerateOptions`.

        Raises:
            ffwd.Error: The constraint does not compile, the prompt is empty or too long, the model
                has no chat template, or an option is out of range.
            TypeError: There is no such option.
        """
        arguments = self._generation(prompt, constraint, options)
        return Output.of(self._inner.generate(*arguments))

    def stream(
        self,
        prompt: str | Sequence[Mapping[str, Any]],
        constraint: Constraint | None = None,
        **options: Unpack[GenerateOptions],
    ) -> TextStream:
        """Generate a text, and iterate over its pieces while it is generated.

        Returns:
            An iterator of texts. Its `output` is the whole output, once the iterator has ended.

        Raises:
            TypeError: There is no such option. The errors of `generate` come from the iterator.
        """
        return TextStream(self._inner.stream(*self._generation(prompt, constraint, options)))

    def _generation(
        self, prompt: Any, constraint: Any, options: Mapping[str, Any]
    ) -> tuple[Any, ...]:
        """Return the arguments of the compiled module for a generation."""
        runtime = _runtime()
        made = None if constraint is None else _remade(runtime, constraint, self._inner.whitespace)
        is_chat = not isinstance(prompt, str)
        text = _messages(prompt) if is_chat else prompt
        return text, is_chat, made, runtime.Options(**for_runtime(options))

    def _split(
        self, schema: Any, options: Mapping[str, Any]
    ) -> tuple[Extractor[Any], dict[str, Any]]:
        """Return the extractor of a schema with its options, and the other options."""
        check_schema_options(options)
        own = {name: value for name, value in options.items() if name in SCHEMA_OPTIONS}
        rest = {name: value for name, value in options.items() if name not in SCHEMA_OPTIONS}
        return Extractor(self, schema, own), rest


class Extractor(Generic[T]):
    """A schema made ready for a model: `Engine.extractor` makes it.

    It reads and compiles the schema once. Several threads may use it at the same time.
    """

    def __init__(self, engine: Engine, schema: Any, options: Mapping[str, Any]) -> None:
        self._type = record_type(schema)
        plain = {name: value for name, value in options.items() if value is not None}
        if "examples" in plain:
            plain["examples"] = [
                (text, self._type.write(record)) for text, record in plain["examples"]
            ]
        self._inner = _runtime().Extractor(engine._inner, self._type.schema, **plain)

    @property
    def schema(self) -> str:
        """The JSON Schema, as the model reads it."""
        return self._type.schema

    @property
    def warnings(self) -> list[ConstraintWarning]:
        """What the author of the schema may not expect, such as unknown keywords."""
        return [ConstraintWarning(*parts) for parts in self._inner.warnings]

    def prompt(self, text: str) -> str:
        """Return the prompt about a text, as the model reads it."""
        return self._inner.prompt(text)

    @overload
    def extract(
        self, text: str, *, details: Literal[False] = False, **options: Unpack[ExtractOptions]
    ) -> T: ...
    @overload
    def extract(
        self, text: str, *, details: Literal[True], **options: Unpack[ExtractOptions]
    ) -> Extraction[T]: ...
    def extract(self, text: str, *, details: bool = False, **options: Any) -> Any:
        """Extract a record; see `Engine.extract`."""
        return self._read(self._inner.extract(text, *self._options(details, options)), details)

    @overload
    def extract_many(
        self,
        texts: Iterable[Text],
        *,
        details: Literal[False] = False,
        **options: Unpack[ManyOptions],
    ) -> Records[T]: ...
    @overload
    def extract_many(
        self,
        texts: Iterable[Text],
        *,
        details: Literal[True],
        **options: Unpack[ManyOptions],
    ) -> Records[Extraction[T]]: ...
    def extract_many(
        self,
        texts: Iterable[Text],
        *,
        details: bool = False,
        **options: Any,
    ) -> Records[Any]:
        """Extract the records of many texts; see `Engine.extract_many`."""
        run: Any = {name: options.pop(name) for name in RUN_OPTIONS & options.keys()}
        errors = run.pop("errors", "raise")
        if errors not in ("raise", "return"):
            raise ValueError(f'errors is {errors!r}; expected "raise" or "return"')
        if isinstance(texts, (str, bytes)):
            raise TypeError("texts is one text; expected an iterable of texts")
        resume, restart = run.pop("resume", False), run.pop("restart", False)
        if resume not in (False, True, "keep"):
            raise ValueError(f'resume is {resume!r}; expected True, False or "keep"')
        run["start"] = {True: "resume", False: "anew" if restart else "new"}.get(resume, "keep")
        progress = run.pop("progress", False)
        made, wanted = self._options(details, options)
        many = self._inner.many(iter(texts), run.pop("output", None), made, wanted, **run)
        total = len(texts) if hasattr(texts, "__len__") else None
        read = partial(self._read, details=details)
        return Records(many, read, errors, progress, total)

    def extract_files(
        self,
        files: Path | Iterable[Path],
        *,
        details: bool = False,
        **options: Unpack[ManyOptions],
    ) -> Records[Any]:
        """Extract the records of documents; see `Engine.extract_files`."""
        names = [files] if isinstance(files, (str, os.PathLike)) else list(files)
        texts: Any = _texts_of(_runtime().list_files(names))
        return self.extract_many(texts, details=details, **options)

    def extract_streaming(self, text: str, **options: Unpack[ExtractOptions]) -> RecordStream[T]:
        """Extract a record, and iterate over its parts; see `Engine.extract_streaming`."""
        made = self._options(False, options)[0]
        return RecordStream(self._inner.stream(text, made), self._type.read)

    def _options(self, details: bool, options: Mapping[str, Any]) -> tuple[Any, dict[str, bool]]:
        options = dict(options)
        alternatives = bool(options.pop("alternatives", False))
        if alternatives:
            options["confidence"] = True
        if options.get("confidence") and not details:
            raise ValueError(
                "confidence and alternatives are parts of the details: pass details=True"
            )
        wanted = {"details": details, "alternatives": alternatives}
        return _runtime().Options(**for_runtime(options)), wanted

    def _read(self, found: tuple[str, str | None], details: bool) -> Any:
        record = self._type.read(found[0])
        return Extraction.of(record, found[1] or "") if details else record


def _texts_of(files: Iterable[Path]) -> Iterator[Any]:
    """Read the texts of files, one after the other."""
    for file in files:
        texts, warned = _runtime().read_file(file)
        for message in warned:
            warnings.warn(message, stacklevel=3)
        yield from texts


def _runtime() -> Any:
    """Import the package with the models.

    Raises:
        ImportError: It is not installed, or has another version.
    """
    try:
        from ffwd_runtime import _runtime as module
    except ModuleNotFoundError as error:
        if error.name != "ffwd_runtime":
            raise
        raise ImportError(
            "ffwd.Engine runs models, which needs the package ffwd-llm-runtime: "
            "pip install 'ffwd-llm[runtime]'"
        ) from None
    if module.__version__ != __version__:
        raise ImportError(
            f"ffwd-llm-runtime {module.__version__} does not fit ffwd-llm {__version__}; install the "
            "same version of both"
        )
    return module


def _model_folders(runtime: Any) -> list[str]:
    """The folders of packages that bring models with a name, or adapters."""
    own = os.path.join(os.path.dirname(runtime.__file__), "adapters")
    small = importlib.util.find_spec("ffwd_small")
    return [own, *(small.submodule_search_locations or [] if small else [])]


def _messages(messages: Any) -> str:
    """Return the messages of a conversation as JSON.

    Raises:
        TypeError: They are not a sequence of mappings.
    """
    if not isinstance(messages, Sequence) or not all(isinstance(m, Mapping) for m in messages):
        raise TypeError(
            f"a prompt is {type(messages).__name__}; expected str or a list of messages"
        )
    return json.dumps([dict(message) for message in messages], allow_nan=False)


def _remade(runtime: Any, value: Any, whitespace: str) -> Any:
    """Make a constraint again in the module of the runtime, by the call that made it.

    Raises:
        TypeError: It is no constraint.
    """
    if not isinstance(value, Constraint):
        raise TypeError(f"a constraint is {type(value).__name__}; expected ffwd.Constraint")

    def inner(part: Any) -> Any:
        if isinstance(part, Constraint):
            return _remade(runtime, part, whitespace)
        if isinstance(part, Mapping):
            return {name: inner(entry) for name, entry in part.items()}
        if isinstance(part, (list, tuple)):
            return type(part)(inner(entry) for entry in part)
        return part

    method, arguments = value.__reduce__()[1]
    arguments = inner(arguments)
    if "whitespace" in arguments and arguments["whitespace"] is None:
        arguments["whitespace"] = whitespace
    return runtime._make_constraint(method, arguments)

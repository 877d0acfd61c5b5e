"""Iterators of the runtime: records of many texts, and outputs while they are generated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeVar

from ._ffwd import Error
from .results import Output, Partial

T = TypeVar("T")


class Records(Iterator[T]):
    """The records of many texts, in their order; `Engine.extract_many` makes it.

    As a context manager, and when it is dropped, it cancels the texts in work.
    """

    def __init__(
        self,
        inner: Any,
        read: Callable[[Any], T],
        errors: Literal["raise", "return"],
        progress: bool,
        total: int | None,
    ) -> None:
        self._inner = inner
        self._read = read
        self._returns = errors == "return"
        self._bar = _bar(total) if progress else None

    def __iter__(self) -> Records[T]:
        return self

    def __next__(self) -> T:
        try:
            item: Any = self._read(next(self._inner))
        except StopIteration:
            self._close_bar()
            raise
        except (Error, TypeError, UnicodeError) as error:
            self._step()
            # The failure of the iterable of texts is none of a text.
            if not self._returns or self._inner.is_broken:
                raise
            return error  # type: ignore[return-value]
        self._step()
        return item

    def close(self) -> None:
        """Cancel the texts in work. Further calls have no records."""
        self._inner.close()
        self._close_bar()

    def __enter__(self) -> Records[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _step(self) -> None:
        if self._bar is not None:
            self._bar.update(1)

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _bar(total: int | None) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError("progress=True needs tqdm: pip install tqdm") from None
    return tqdm(total=total, unit="text")


class _Stream(Generic[T]):
    """An output while it is generated."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def close(self) -> None:
        """Cancel the generation. Further calls have no parts."""
        self._inner.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _result(self) -> str:
        result = self._inner.result
        if result is None:
            raise RuntimeError("the output is not complete: take all parts from the iterator first")
        return result


class RecordStream(_Stream[T], Iterator[Partial]):
    """The parts of a record while it is generated; `Engine.extract_streaming` makes it.

    As a context manager, and when it is dropped, it cancels the generation.
    """

    def __init__(self, inner: Any, read: Callable[[str], T]) -> None:
        super().__init__(inner)
        self._read = read

    def __iter__(self) -> RecordStream[T]:
        return self

    def __next__(self) -> Partial:
        value, done = next(self._inner)
        return Partial(json.loads(value), frozenset(done))

    @property
    def record(self) -> T:
        """The whole record.

        Raises:
            RuntimeError: The iterator has not ended.
            ffwd.InvalidRecord: A validator of the type refuses the record.
        """
        return self._read(self._result())


class TextStream(_Stream[str], Iterator[str]):
    """The text of an output while it is generated; `Engine.stream` makes it.

    As a context manager, and when it is dropped, it cancels the generation.
    """

    def __iter__(self) -> TextStream:
        return self

    def __next__(self) -> str:
        return next(self._inner)[0]

    @property
    def output(self) -> Output:
        """The whole output.

        Raises:
            RuntimeError: The iterator has not ended.
        """
        return Output.of(self._result())

"""`extract`: the step of a pipeline of Ray Data."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._ffwd import Constraint
from ..options import ExtractOptions
from ..schemas import record_type
from . import worker

if TYPE_CHECKING:
    from ray.data import Dataset
    from typing_extensions import Unpack

logger = logging.getLogger("ffwd.ray")

# Batches of a call: the last texts of a call run in smaller batches.
_BATCHES = 16
# Processors that are left to the tasks of other steps.
_OTHERS = 2


def extract(
    dataset: Dataset,
    schema: Any,
    *,
    column: str = "text",
    prefix: str = "",
    engine: Mapping[str, Any] | None = None,
    workers: int | tuple[int, int] | None = None,
    cpus: int = 1,
    batch: int = 16,
    rows: int | None = None,
    remote: Mapping[str, Any] | None = None,
    **options: Unpack[ExtractOptions],
) -> Dataset:
    """Extract a record from each text of a dataset.

    The result has the rows and columns of the dataset and these ones. A text that fails is a row
    with an `error`, and does not end the job. If a worker or a machine dies, Ray repeats what it
    had not delivered, and each row comes out once.

    | column | content |
    | --- | --- |
    | `record` | the record as JSON text; null if it failed. `reader` makes instances of it |
    | `spans` | list of `pointer`, `start`, `end`: a value was quoted from `text[start:end]` |
    | `confidence` | list of `pointer`, `probability`, `margin`, `legal_mass`, `alternatives`, if wanted |
    | `finish` | the reason for the end, see `ffwd.results.Finish` |
    | `stats` | `prompt_tokens`, `tokens`, `forwards`, `seconds` |
    | `error` | null, or `kind`, `message`, `pointer`, `hint`, and the `partial` text |

    Nothing runs until the result is consumed, as always in Ray Data.

    Args:
        dataset: A dataset of Ray Data.
        schema: What a record is: a pydantic model, a dataclass or another type that pydantic reads,
            or a JSON Schema.
        column: Name of the column with the texts.
        prefix: Stands in front of the names of the new columns.
        engine: Arguments of `ffwd.Engine`, such as `{"model": "/models/model.gguf"}`. Its files
            must exist on each machine. None is the embedded model.
        workers: Number of workers, each with its own copy of the models, or its smallest and
            largest number. None is as many as the cluster has processors for, less two, which tasks
            that read, write and look up checkpoints need.
        cpus: Number of processors of a worker. They share its batches.
        batch: Number of texts that run together in a worker.
        rows: Number of texts of one call of a worker, and of a block of the result. It is what
            Ray repeats after a failure. None is 16 batches.
        remote: Further arguments of `Dataset.map_batches`, such as `memory`, `runtime_env` or
            `max_task_retries`.
        options: See `ffwd.options.ExtractOptions`.

    Raises:
        ffwd.Error: The schema is not supported; `pointer` says where.
        ImportError: Ray is not installed; or `schema` is a type, and pydantic is not.
        TypeError: There is no such option, or no JSON Schema describes the type.
        ValueError: A number is not positive.
    """
    from ray.data import ActorPoolStrategy

    unknown = sorted(options.keys() - ExtractOptions.__annotations__.keys())
    if unknown:
        raise TypeError(f"there is no option {unknown[0]!r} of an extraction")
    rows = _BATCHES * batch if rows is None else rows
    for name, number in {"cpus": cpus, "batch": batch, "rows": rows}.items():
        if number < 1:
            raise ValueError(f"{name} is {number}; expected a number from 1 up")
    # A faulty schema is an error here, not in each worker.
    Constraint.json_schema(record_type(schema).schema, documents=options.get("documents"))
    least, most = _pool(workers, cpus)
    # Blocks of this size are what Ray gives to workers, repeats, and writes down as done. Those of
    # the input may be whole files.
    blocks = dataset.repartition(target_num_rows_per_block=rows, strict=True)
    return blocks.map_batches(
        worker.Worker,
        fn_constructor_args=(schema,),
        fn_constructor_kwargs={
            "column": column,
            "prefix": prefix,
            "engine": dict(engine or {}),
            "cpus": cpus,
            "batch": batch,
            "options": dict(options),
        },
        batch_size=rows,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(min_size=least, max_size=most, initial_size=least),
        num_cpus=cpus,
        udf_modifying_row_count=False,
        **(remote or {}),
    )


def _pool(workers: int | tuple[int, int] | None, cpus: int) -> tuple[int, int]:
    """Return the smallest and the largest number of workers.

    Raises:
        ValueError: They are no such numbers.
    """
    import ray

    if not ray.is_initialized():
        ray.init()
    available = int(ray.cluster_resources().get("CPU", 1))
    if workers is None:
        number = max(1, (available - _OTHERS) // cpus)
        least, most = number, number
    else:
        least, most = (workers, workers) if isinstance(workers, int) else workers
    if not 1 <= least <= most:
        raise ValueError(f"workers is {workers}; expected numbers from 1 up")
    if least * cpus >= available:
        logger.warning(
            "%d workers of %d processors leave none of the %d of this cluster for the tasks that "
            "read; the job may wait until the cluster grows.",
            least,
            cpus,
            available,
        )
    return least, most

"""Extraction over the machines of a Ray cluster, as a step of a pipeline of Ray Data.

    >>> import ffwd.ray, ray  # doctest: +SKIP
    >>> letters = ray.data.read_parquet("s3://bucket/letters")  # doctest: +SKIP
    >>> invoices = ffwd.ray.extract(letters, Invoice, column="body")  # doctest: +SKIP
    >>> invoices.write_parquet("s3://bucket/invoices")  # doctest: +SKIP

Each worker is an actor with an `ffwd.Engine` of its own, which runs the texts of its calls in
batches. Ray is imported when `extract` is called.
"""

from __future__ import annotations

from .columns import reader
from .pipeline import extract

__all__ = ["extract", "reader"]

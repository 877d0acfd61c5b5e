"""Records of many texts on the machines of a Ray cluster, with a model in each worker.

    pip install 'ffwd-llm[ray]'
    python examples/ray_local.py [MODEL.gguf]

Without a cluster, Ray uses this machine. Without a model, the embedded one runs. A second run of the
program continues where the first one ended, because finished rows are known by their `id`.
"""

import os
import sys
import tempfile
from pathlib import Path

import ray
from pydantic import BaseModel
from ray.data.checkpoint import CheckpointConfig

import ffwd.ray


class Invoice(BaseModel):
    vendor: str
    total: float


def write_letters(number, folder):
    """Write a table of texts, some of which are empty."""
    rows = [
        {"id": i, "body": f"Vendor: Number {i} Ltd. Total: {i}.50 EUR. Thank you." if i % 50 else ""}
        for i in range(number)
    ]
    ray.data.from_items(rows, override_num_blocks=4).write_parquet(folder)


def main():
    model = {"model": sys.argv[1]} if len(sys.argv) > 1 else {}
    # On a cluster, this is storage that all machines reach.
    folder = Path(tempfile.gettempdir()) / "ffwd-ray-example"
    # Tasks that read, write and look up finished rows need processors beside those of the workers.
    # These numbers are Ray's own, so a small machine may claim more than it has.
    ray.init(num_cpus=None if "RAY_ADDRESS" in os.environ else max(6, os.cpu_count() or 1))
    if not folder.exists():
        write_letters(400, str(folder / "letters"))
    # A row whose result is written is not read again. This works for datasets that are read.
    context = ray.data.DataContext.get_current()
    context.checkpoint_config = CheckpointConfig(
        id_column="id",
        checkpoint_path=str(folder / "done"),
        delete_checkpoint_on_success=False,
    )
    letters = ray.data.read_parquet(str(folder / "letters"))
    invoices = ffwd.ray.extract(
        letters, Invoice, column="body", engine=model, workers=2, rows=50, max_tokens=60
    )
    invoices.write_parquet(str(folder / "invoices"))
    context.checkpoint_config = None

    read = ffwd.ray.reader(Invoice)
    tokens = failed = 0
    rows = ray.data.read_parquet(str(folder / "invoices")).take_all()
    for row in rows:
        if row["error"] is not None:
            failed += 1
            continue
        tokens += row["stats"]["tokens"]
        if row["id"] in (1, 2):
            print(row["id"], read(row), row["spans"])
    print(f"{len(rows)} rows, {failed} failed, {tokens} tokens, in {folder}")
    assert len({row["id"] for row in rows}) == len(rows) == 400
    assert failed == 8


if __name__ == "__main__":
    main()

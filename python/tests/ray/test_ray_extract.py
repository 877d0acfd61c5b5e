"""`ffwd.ray.extract` on a cluster of two nodes: whole jobs, a worker that dies, failures as rows."""

import collections
import json
import os
import signal
from pathlib import Path

import pytest
from ray_helpers import cluster  # noqa: F401

# isort: split
import pyarrow
import ray

import ffwd
import ffwd.ray
from ffwd.ray import worker
from ffwd.ray.columns import NAMES

TOTAL = {
    "type": "object",
    "properties": {"total": {"type": "number"}},
    "required": ["total"],
    "additionalProperties": False,
}
DOCUMENTS = 2_000
BLANK = range(0, DOCUMENTS, 400)


def letter(number):
    return f"Vendor: Bright Glacier Consulting. Total: {number}.50 EUR."


@pytest.fixture(scope="module")
def engine():
    return ffwd.Engine.embedded()


def spied(folder, dies_after):
    """A worker that writes down its calls; one of them kills its process in the middle of a call."""

    class Spied(worker.Worker):
        served = 0

        def __call__(self, table):
            self.write("begin", table)
            result = super().__call__(table)
            self.write("end", table)
            return result

        def write(self, event, table):
            node = ray.get_runtime_context().get_node_id()
            line = json.dumps([event, os.getpid(), node, table.column("id").to_pylist()])
            with open(Path(folder) / str(os.getpid()), "a") as log:
                log.write(line + "\n")

        def results(self, texts):
            for result in super().results(texts):
                self.served += 1
                if self.served == dies_after and self.is_first():
                    os.kill(os.getpid(), signal.SIGKILL)
                yield result

        def is_first(self):
            try:
                (Path(folder) / "died").touch(exist_ok=False)
            except FileExistsError:
                return False
            return True

    return Spied


def test_each_text_has_one_record_though_a_worker_is_killed(cluster, engine, tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "Worker", spied(str(tmp_path), dies_after=330))
    rows = [{"id": i, "text": " " if i in BLANK else letter(i)} for i in range(DOCUMENTS)]
    # Blocks larger than calls, as files are.
    dataset = ray.data.from_items(rows, override_num_blocks=3)

    found = ffwd.ray.extract(dataset, TOTAL, workers=2, rows=100, max_tokens=20).take_all()

    assert sorted(row["id"] for row in found) == list(range(DOCUMENTS))
    for row in found:
        assert row["text"] == rows[row["id"]]["text"]
        assert (row["record"] is None) == (row["error"] is not None) == (row["id"] in BLANK)
    # The records are those of the text alone.
    for row in found[7::100]:
        if row["id"] not in BLANK:
            alone = engine.extract(row["text"], TOTAL, details=True, max_tokens=20)
            assert row["record"] == alone.text
    # One worker died within a call, and another one did all of it.
    events = [json.loads(line) for path in tmp_path.glob("[0-9]*") for line in path.open()]
    begun, ended = collections.Counter(), collections.Counter()
    for event, process, _, ids in events:
        (begun if event == "begin" else ended)[process, tuple(ids)] += 1
    assert {len(ids) for _, ids in begun} == {100}
    (lost,) = begun - ended
    assert any(ids == lost[1] and process != lost[0] for process, ids in ended)
    assert len({node for _, _, node, _ in events}) == 2


def test_columns_have_spans_failures_and_statistics(cluster):
    texts = [letter(7), "", letter(8), None, letter(9)]
    dataset = ray.data.from_items([{"body": text, "text": "kept"} for text in texts])

    options = {"workers": 1, "prefix": "x_", "remote": {"max_task_retries": 2}}
    found = ffwd.ray.extract(dataset, TOTAL, column="body", confidence=True, **options).take_all()

    assert [row["text"] for row in found] == ["kept"] * 5
    by_body = {row["body"]: row for row in found}
    row = by_body[letter(7)]
    total = str(json.loads(row["x_record"])["total"])
    (span,) = [span for span in row["x_spans"] if span["pointer"] == "/total"]
    assert row["body"][span["start"] : span["end"]].startswith(total)
    assert 0 < row["x_confidence"][0]["probability"] <= 1
    assert row["x_confidence"][0]["pointer"] == "/total"
    assert row["x_finish"] == "stop" and row["x_stats"]["tokens"] > 0 and row["x_error"] is None
    assert by_body[None]["x_error"]["kind"] == "invalid_text"
    assert by_body[""]["x_record"] is None and by_body[""]["x_error"]["message"]

    read = ffwd.ray.reader(TOTAL, prefix="x_")
    assert read(row) == json.loads(row["x_record"])
    with pytest.raises(ffwd.Error) as caught:
        read(by_body[""])
    assert caught.value.kind == by_body[""]["x_error"]["kind"]


def invoice_type():
    """A type that is pickled whole, as those of a script are."""
    pydantic = pytest.importorskip("pydantic")

    class Invoice(pydantic.BaseModel):
        total: float

        @pydantic.field_validator("total")
        @classmethod
        def small(cls, value):
            if value > 100:
                raise ValueError("too large")
            return value

    return Invoice


def test_types_are_read_and_their_validators_fail_rows(cluster):
    Invoice = invoice_type()
    dataset = ray.data.from_items([{"text": letter(7)}, {"text": letter(700)}])
    rows = ffwd.ray.extract(dataset, Invoice, workers=1).take_all()
    small, large = sorted(rows, key=lambda row: row["error"] is not None)
    read = ffwd.ray.reader(Invoice)
    assert isinstance(read(small), Invoice) and read(small).total < 100
    assert large["record"] is None and large["error"]["kind"] == "invalid_record"
    assert json.loads(large["error"]["partial"])["total"] > 100


def table_of(rows, schema=TOTAL, **options):
    """What a worker makes of rows, in this process."""
    made = worker.Worker(
        schema, column="text", prefix="", engine={}, cpus=1, batch=4, options=options
    )
    return made(pyarrow.Table.from_pylist(rows))


def test_a_cut_record_has_its_pointer_and_its_text():
    schema = {"type": "object", "properties": {"vendor": {"type": "string"}}, "required": ["vendor"]}
    (row,) = table_of([{"text": letter(7)}], schema, max_tokens=5).to_pylist()
    assert row["error"]["kind"] == "incomplete" and row["error"]["pointer"] == "/vendor"
    assert row["error"]["partial"].startswith("{") and row["stats"]["tokens"] == 5


def test_types_of_columns_are_the_same_whatever_the_rows_are():
    good, bad = table_of([{"text": letter(7)}]), table_of([{"text": ""}, {"text": None}])
    assert good.schema == bad.schema == table_of([{"text": letter(7)}], confidence=True).schema
    assert good.column_names == ["text", *NAMES]


def test_columns_that_exist_or_are_missing_are_errors():
    with pytest.raises(ValueError, match="has a column 'record'"):
        table_of([{"text": letter(7), "record": 1}])
    with pytest.raises(KeyError, match="no column 'text'"):
        table_of([{"body": letter(7)}])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"schema": {"type": "strnig"}}, ffwd.Error, "strnig"),
        ({"max_token": 5}, TypeError, "max_token"),
        ({"batch": 0}, ValueError, "batch"),
        ({"workers": 0}, ValueError, "workers"),
        ({"workers": (2, 1)}, ValueError, "workers"),
    ],
)
def test_mistakes_are_found_before_the_job(cluster, arguments, error, message):
    dataset = ray.data.from_items([{"text": "a"}])
    with pytest.raises(error, match=message):
        ffwd.ray.extract(dataset, **{"schema": TOTAL, **arguments})

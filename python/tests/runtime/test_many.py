"""Many texts: the records of one at a time, taken only when wanted, failures in their places."""

import gc
import itertools
import json
import sys
import time

import pytest

import ffwd

from .conftest import DATA, INVOICE, INVOICE_SCHEMA, LETTERS, cases, run_program

SCHEMA = {"properties": {"customer": {"type": "string"}}, "required": ["customer"]}


def test_the_records_are_those_of_one_at_a_time(engine):
    texts = [case["text"] for case in cases(step=12)]
    assert len(texts) > 15
    three_threads = ffwd.Engine.embedded(threads=3)
    for options in ({}, {"verbatim": True}, {"temperature": 1.0, "seed": 4}):
        alone = [engine.extract(text, SCHEMA, details=True, **options) for text in texts]
        together = list(engine.extract_many(texts, SCHEMA, batch=5, details=True, **options))
        three = three_threads.extract_many(texts, SCHEMA, batch=5, details=True, **options)
        assert [found.text for found in three] == [found.text for found in alone]
        assert [found.text for found in together] == [found.text for found in alone]
        assert [found.spans for found in together] == [found.spans for found in alone]
        assert [found.record for found in together] == [found.record for found in alone]


def test_confidence_is_that_of_one_at_a_time(engine):
    schema = {"properties": {"paid": {"type": "boolean"}}, "required": ["paid"]}
    alone = [engine.extract(t, schema, details=True, alternatives=True).confidence for t in LETTERS]
    many = engine.extract_many(LETTERS, schema, details=True, alternatives=True)
    assert [found.confidence for found in many] == alone
    assert all(len(found["/paid"].alternatives) == 2 for found in alone)


def test_texts_are_taken_only_when_records_are(engine):
    taken = []

    def endless():
        for number in itertools.count():
            taken.append(number)
            yield f"Customer: Number {number}"

    records = engine.extract_many(endless(), SCHEMA, batch=3)
    assert taken == []
    next(records)
    assert len(taken) == 6
    for _ in range(10):
        next(records)
    assert len(taken) == 16
    records.close()
    with pytest.raises(StopIteration):
        next(records)


def test_memory_does_not_grow_with_the_texts(engine):
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    if not sys.platform.startswith("linux"):
        pytest.skip("the memory of the process is read from /proc")

    def texts(count):
        return (f"Customer: Number {n}. " + "x " * 30 for n in range(count))

    def run(count):
        assert sum(1 for _ in engine.extract_many(texts(count), SCHEMA, batch=8)) == count
        gc.collect()
        return resident()

    run(40)
    before = run(40)
    assert run(240) < before + (24 << 20)


def test_failures_are_in_their_places(engine):
    texts = [INVOICE, "", "word " * 40_000, 5, "Customer: Ann \ud800", LETTERS[0]]
    found = list(engine.extract_many(texts, SCHEMA, batch=2, errors="return"))
    kinds = [getattr(item, "kind", type(item)) for item in found]
    assert kinds == [dict, "invalid_option", "prompt_too_long", TypeError, UnicodeEncodeError, dict]

    records = engine.extract_many(texts, SCHEMA, batch=2)
    assert isinstance(next(records), dict)
    for kind in (ffwd.Error, ffwd.Error, TypeError, UnicodeEncodeError):
        with pytest.raises(kind):
            next(records)
    assert next(records) == found[-1]
    with pytest.raises(StopIteration):
        next(records)


def test_cut_records_are_failures_of_their_own(engine):
    schema = {"properties": {"note": {"type": "string", "minLength": 200}}, "required": ["note"]}
    found = list(engine.extract_many(LETTERS[:3], schema, max_tokens=20, errors="return"))
    assert all(isinstance(item, ffwd.Truncated) and item.path == "/note" for item in found)
    assert all(item.stats.tokens == 20 and item.text.startswith('{"note":"') for item in found)


def test_an_exception_of_the_texts_comes_after_the_records_before_it(engine):
    def broken():
        yield from LETTERS[:3]
        raise OSError("the disk is gone")

    for errors in ("raise", "return"):
        records = engine.extract_many(broken(), SCHEMA, batch=8, errors=errors)
        assert [type(next(records)) for _ in range(3)] == [dict] * 3
        with pytest.raises(OSError, match="the disk is gone"):
            next(records)
        with pytest.raises(StopIteration):
            next(records)


def test_texts_are_taken_on_the_thread_of_the_caller(engine):
    import threading

    threads = set()

    def texts():
        for text in LETTERS:
            threads.add(threading.get_ident())
            yield text

    list(engine.extract_many(texts(), SCHEMA, batch=2))
    assert threads == {threading.get_ident()}


def test_dropping_the_iterator_ends_its_work(engine):
    for _ in range(3):
        records = engine.extract_many(LETTERS * 50, SCHEMA, batch=4)
        next(records)
        del records
    with engine.extract_many(LETTERS * 50, SCHEMA) as records:
        next(records)
    assert list(engine.extract_many(LETTERS, SCHEMA)) == [
        engine.extract(t, SCHEMA) for t in LETTERS
    ]


def test_progress_is_shown_by_tqdm(engine, capsys, monkeypatch):
    pytest.importorskip("tqdm")
    list(engine.extract_many(LETTERS, SCHEMA, progress=True))
    assert f"{len(LETTERS)}/{len(LETTERS)}" in capsys.readouterr().err
    for name in [name for name in sys.modules if name.split(".")[0] == "tqdm"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="pip install tqdm"):
        engine.extract_many(LETTERS, SCHEMA, progress=True)


def test_wrong_options_are_refused_at_once(engine):
    with pytest.raises(ValueError, match="batch is 0"):
        engine.extract_many(LETTERS, SCHEMA, batch=0)
    with pytest.raises(ValueError, match="errors is \"?'?skip"):
        engine.extract_many(LETTERS, SCHEMA, errors="skip")
    with pytest.raises(TypeError, match="texts is one text"):
        engine.extract_many(INVOICE, INVOICE_SCHEMA)
    with pytest.raises(TypeError):
        engine.extract_many(5, SCHEMA)


def test_an_output_is_resumed(engine, tmp_path):
    file = tmp_path / "out.jsonl"
    texts = [(f"letter-{number}", text) for number, text in enumerate(LETTERS)]
    plain = [engine.extract(text, SCHEMA) for text in LETTERS]
    records = engine.extract_many(texts[:4], SCHEMA, batch=2, output=file)
    assert [next(records), next(records)] == plain[:2]
    records.close()
    with pytest.raises(ffwd.Error, match="the output exists"):
        engine.extract_many(texts, SCHEMA, output=file)
    # The runtime ends the run on a thread of its own.
    again = wait_for(lambda: engine.extract_many(texts, SCHEMA, output=file, resume=True))
    assert list(again) == plain
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["id"], line["record"]) for line in lines] == [
        (name, record) for (name, _), record in zip(texts, plain)
    ]
    assert all("source" not in line for line in lines)
    # All of them come from the output now, in another order, and with details.
    found = list(engine.extract_many(reversed(texts), SCHEMA, output=file, resume=True, details=True))
    assert [extraction.record for extraction in found] == plain[::-1]
    assert all(extraction.stats.forwards == 0 for extraction in found)
    ids = [json.loads(line)["id"] for line in file.read_text().splitlines()]
    assert ids == [name for name, _ in reversed(texts)]
    # A run from nothing writes the same lines.
    list(engine.extract_many(reversed(texts), SCHEMA, output=tmp_path / "new.jsonl"))
    assert (tmp_path / "new.jsonl").read_text() == file.read_text()
    for other in ({"max_tokens": 99}, {"instructions": "Be brief."}):
        with pytest.raises(ffwd.Error, match="another schema, model or options"):
            engine.extract_many(texts, SCHEMA, output=file, resume=True, **other)
    kept = engine.extract_many(texts, SCHEMA, output=file, resume="keep", max_tokens=99)
    assert list(kept) == plain
    fresh = engine.extract_many(texts, SCHEMA, output=file, restart=True, max_tokens=99, details=True)
    assert all(extraction.stats.forwards > 0 for extraction in fresh)


def test_the_output_of_the_program_is_that_of_the_package(engine, tmp_path):
    run_program("extract", DATA / "mailroom", "--include", "*.txt", "-s", schema_file(tmp_path), "-o",
                tmp_path / "program.jsonl")
    list(engine.extract_many(LETTERS, SCHEMA, output=tmp_path / "package.jsonl"))
    read = lambda name: [json.loads(x)["record"] for x in (tmp_path / name).read_text().splitlines()]
    assert read("program.jsonl") == read("package.jsonl")


def test_failures_are_lines_of_a_file_and_tables_are_written(engine, tmp_path):
    table = tmp_path / "out.csv"
    texts = ["Customer: Ann", " ", 7, ("b", "Customer: Bo"), ((), "no identifier")]
    items = list(engine.extract_many(texts, SCHEMA, output=table, errors="return"))
    assert [isinstance(item, Exception) for item in items] == [False, True, True, False, True]
    failures = (tmp_path / "out.csv.journal.failures").read_text().splitlines()
    assert len(failures) == 1 and "blank" in json.loads(failures[0])["error"]
    rows = table.read_text().splitlines()
    assert len(rows) == 3 and rows[0].split(",")[:2] == ["_source", "customer"]
    schema = {"properties": {"note": {"type": "string"}}, "required": ["note"]}
    confident = {"details": True, "confidence": True, "output": tmp_path / "c.jsonl"}
    (first,) = engine.extract_many(["Note: lamp"], schema, **confident)
    (second,) = engine.extract_many(["Note: lamp"], schema, resume=True, **confident)
    assert first.confidence.keys() == second.confidence.keys() == {"/note"}
    assert first.confidence["/note"].probability == pytest.approx(second.confidence["/note"].probability)
    for wrong in ({"output": tmp_path / "x.json"}, {"output": tmp_path / "none" / "x.jsonl"}):
        with pytest.raises(ffwd.Error):
            engine.extract_many(texts, SCHEMA, **wrong)
    with pytest.raises(ValueError, match="resume is 3"):
        engine.extract_many(texts, SCHEMA, output=table, resume=3)


def schema_file(folder):
    path = folder / "s.json"
    path.write_text(json.dumps(SCHEMA))
    return path


def wait_for(call):
    """The result of a call that another run may have to end for."""
    for _ in range(500):
        try:
            return call()
        except ffwd.Error as error:
            if error.kind != "busy":
                raise
            time.sleep(0.01)
    raise TimeoutError

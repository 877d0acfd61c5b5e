"""Threads, signals and processes."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import ffwd

from .conftest import INVOICE, INVOICE_SCHEMA, LETTERS

# Each call runs until it is interrupted: a slow prompt, or an endless text.
LETTERS_THEN_DIGITS = "ffwd.Constraint.regex('[a-z ]*[0-9]{3000}')"
ENDLESS = {
    "extract": "engine.extract('Customer: Ann. ' * 20, ENDLESS, max_tokens=100_000)",
    "generate": f"engine.generate('x', {LETTERS_THEN_DIGITS}, max_tokens=100_000)",
    "many": "list(engine.extract_many(['Customer: Ann.'] * 100_000, ENDLESS, max_tokens=300))",
    "stream": "list(engine.extract_streaming('Customer: Ann.', ENDLESS, max_tokens=100_000))",
    "pieces": f"list(engine.stream('x', {LETTERS_THEN_DIGITS}, max_tokens=100_000))",
}
PROGRAM = """
    import ffwd, signal, sys
    # Also where the tests run in the background, whose shell ignores the signal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    engine = ffwd.Engine.embedded(draft=False)
    ENDLESS = {"properties": {"note": {"type": "string", "minLength": 1900}}, "required": ["note"]}
    print("ready", flush=True)
    try:
        while True:
            try:
                CALL
            except ffwd.Error:
                pass
    except KeyboardInterrupt:
        print("interrupted", engine.extract("Customer: Bo.", {"enum": [1]}), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT is sent to the child")
@pytest.mark.parametrize("name", ENDLESS)
def test_ctrl_c_ends_a_call(engine, name):
    code = textwrap.dedent(PROGRAM).replace("CALL", ENDLESS[name])
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.3)
        child.send_signal(signal.SIGINT)
        # The engine works afterwards.
        assert child.communicate(timeout=60)[0] == "interrupted 1\n"
        assert child.returncode == 0
    finally:
        child.kill()


def test_a_record_that_is_waited_for_is_not_lost(engine):
    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    # The first record takes far longer than the time to the alarm.
    schema = {"properties": {"note": {"type": "string", "minLength": 300}}, "required": ["note"]}
    texts = [text * 3 for text in LETTERS]
    wanted = list(engine.extract_many(texts, schema, mode="off"))
    before = signal.signal(signal.SIGALRM, ring)
    try:
        records = engine.extract_many(texts, schema, mode="off", batch=8)
        signal.setitimer(signal.ITIMER_REAL, 0.005)
        with pytest.raises(Alarm):
            next(records)
        assert list(records) == wanted
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_threads_share_an_engine(engine):
    texts = [INVOICE, *LETTERS]
    wanted = [engine.extract(text, INVOICE_SCHEMA) for text in texts]
    extractor = engine.extractor(INVOICE_SCHEMA)
    found = {}

    def work(number):
        order = texts[number:] + texts[:number]
        if number % 2:
            records = [extractor.extract(text) for text in order]
        else:
            records = list(extractor.extract_many(order, batch=3))
        found[number] = records[len(texts) - number :] + records[: len(texts) - number]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: wanted for number in range(4)}


def test_other_threads_run_while_a_model_does(engine):
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        before = counted[0]
        engine.generate("x", ffwd.Constraint.regex("[a-z ]{200}"), mode="off")
        during = counted[0] - before
    finally:
        stop.set()
        thread.join()
    # With the lock held, the other thread would not run at all.
    assert during > 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_says_that_it_has_no_model(engine):
    process = multiprocessing.get_context("fork").Process(target=_in_fork, args=(engine,))
    process.start()
    process.join(60)
    assert process.exitcode == 0


def _in_fork(engine):
    for call in (lambda: engine.extract(INVOICE, INVOICE_SCHEMA), ffwd.Engine.embedded):
        try:
            call()
        except RuntimeError as error:
            assert "forked" in str(error)
        else:
            os._exit(1)
    os._exit(0)

"""A server of vLLM in a process of its own, reached over HTTP."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

from vllm_helpers import *  # noqa: F403, I001  (skips the file: it must come first)
from vllm_helpers import FORMAT, INVOICE, MODEL, TAG
import pytest

WAIT = 240
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "days": {"enum": [1, 3, 7]},
            },
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of the API; `FFWD_TEST_VLLM_SERVER` is one that runs already."""
    running = os.environ.get("FFWD_TEST_VLLM_SERVER")
    if running:
        yield running
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    draft = {"model": "ffwd.vllm.JumpForward", "num_speculative_tokens": 8}
    arguments = [
        *("--model", MODEL, "--served-model-name", "small", "--dtype", "bfloat16"),
        *("--max-model-len", "1024", "--max-num-seqs", "16", "--enforce-eager"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--structured-outputs-config.backend", "ffwd"),
        *("--speculative-config", json.dumps(draft)),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    ]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *arguments]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        for _ in range(WAIT):
            time.sleep(1)
            if process.poll() is not None:
                pytest.fail(log.read_text()[-3000:])
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except OSError:
                continue
        else:
            pytest.fail("the server does not start\n" + log.read_text()[-3000:])
        yield f"http://127.0.0.1:{port}/v1/"
    finally:
        process.terminate()
        process.wait(60)


def post(server, path="chat/completions", **fields):
    """Return status and body of the answer."""
    body = {"model": "small", "temperature": 0, "max_tokens": 80, **fields}
    body.setdefault("messages", [{"role": "user", "content": "Invoice INV-20417, 1840 EUR"}])
    request = urllib.request.Request(
        server + path, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def text(server, **fields):
    status, body = post(server, **fields)
    assert status == 200, body
    return body["choices"][0]["message"]["content"]


def json_format(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}


def test_response_formats(server):
    invoice = json.loads(text(server, response_format=json_format(INVOICE)))
    assert list(invoice) == INVOICE["required"] and invoice["number"].startswith("INV-")
    start = text(server, response_format={"type": "json_object"}, max_tokens=30)
    assert start.startswith("{")
    assert text(server, response_format=FORMAT) in ('<tool>"a"</tool>', '<tool>"b"</tool>')
    text(server, response_format={"type": "structural_tag", **TAG}, max_tokens=10)


def test_structured_outputs(server):
    assert text(server, structured_outputs={"regex": "[0-9]{3}"}).isdecimal()
    assert text(server, structured_outputs={"choice": ["red", "blue"]}) in ("red", "blue")
    grammar = 'root ::= ("a" | "b") "!"'
    assert text(server, structured_outputs={"grammar": grammar}) in ("a!", "b!")
    assert text(server, structured_outputs={"grammar": 'start: "x" "y"'}) == "xy"


def test_tool_calls(server):
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in ("required", named):
        question = [{"role": "user", "content": "The weather in Rome for 3 days?"}]
        status, body = post(server, messages=question, tools=[WEATHER], tool_choice=choice)
        assert status == 200, body
        call = body["choices"][0]["message"]["tool_calls"][0]["function"]
        arguments = json.loads(call["arguments"])
        assert call["name"] == "get_weather" and arguments["days"] in (1, 3, 7)
    status, body = post(server, tools=[WEATHER], tool_choice="auto", max_tokens=20)
    assert status == 200, body


@pytest.mark.parametrize(
    "fields, words",
    [
        (
            {"response_format": json_format({"properties": {"bad": {"type": "strin"}}})},
            ["#/properties/bad/type"],
        ),
        ({"structured_outputs": {"regex": "(a"}}, ["group"]),
        ({"structured_outputs": {"grammar": "root ::= ("}}, ["grammar"]),
        ({"structured_outputs": {"choice": []}}, ["empty"]),
    ],
)
def test_refusals_have_status_400_and_a_location(server, fields, words):
    status, body = post(server, **fields)
    assert status == 400
    message = json.dumps(body)
    assert all(word in message for word in words), message


def test_responses(server):
    form = {"type": "json_schema", "name": "x", "strict": True, "schema": INVOICE}
    fields = {"input": "Invoice", "max_output_tokens": 80, "messages": []}
    status, body = post(server, "responses", text={"format": form}, **fields)
    assert status == 200, body
    json.loads(body["output"][-1]["content"][0]["text"])


def test_hostile_requests_harm_no_other(server):
    """Sound answers come out as they do alone, while every fifth request is faulty."""
    number = {"structured_outputs": {"regex": "[0-9]{6}"}}
    alone = text(server, **number)
    faulty = [
        {"response_format": json_format({"type": "object", "properties": 3})},
        {"structured_outputs": {"regex": "(" * 5000}},
        {"structured_outputs": {"regex": "((((a{1,99}){1,99}){1,99}){1,99}){1,99}"}},
        {"structured_outputs": {"grammar": "start: start"}},
    ]
    jobs = [faulty[i // 5 % len(faulty)] if i % 5 == 4 else number for i in range(60)]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda job: post(server, **job), jobs))
    for job, (status, body) in zip(jobs, answers):
        if job is number:
            assert status == 200 and body["choices"][0]["message"]["content"] == alone
        else:
            assert status == 400, body


def test_the_server_finds_the_backend_by_its_entry_point(server):
    """The server was started without a line of ours: only the installed package registers."""
    assert os.environ.get("VLLM_PLUGINS") is None

"""The package `openai`, unchanged, against `ffwd serve` with the embedded model."""

import asyncio
import json
import os

import openai
import pytest
from pydantic import BaseModel

BASE = os.environ["FFWD_TEST_SERVER"]
MODEL = "extract-5m"
TEXT = "Invoice 4711 of Acme Ltd. Total: 12.50 EUR"


class Bill(BaseModel):
    vendor: str
    total: float


ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def client():
    return openai.OpenAI(base_url=BASE, api_key="none", max_retries=0)


def user(text=TEXT):
    return [{"role": "user", "content": text}]


def schema_format(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "record", "schema": schema, **more}}


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_parse_returns_an_instance(client):
    answer = client.chat.completions.parse(model=MODEL, messages=user(), response_format=Bill)
    choice = answer.choices[0]
    assert choice.message.parsed == Bill(vendor="Acme Ltd", total=12.5)
    assert choice.finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.ffwd["tokens"] == answer.usage.completion_tokens
    assert answer.ffwd["forwards"] < answer.ffwd["tokens"]


def test_a_stream_has_the_same_text(client):
    arguments = dict(model=MODEL, messages=user(), response_format=schema_format(Bill.model_json_schema()))
    whole = client.chat.completions.create(**arguments).choices[0].message.content
    pieces, reasons, usage = [], [], None
    for chunk in client.chat.completions.create(
        stream=True, stream_options={"include_usage": True}, **arguments
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces.append(choice.delta.content or "")
            reasons.append(choice.finish_reason)
    assert "".join(pieces) == whole
    assert [reason for reason in reasons if reason] == ["stop"]
    assert usage.completion_tokens > 0


def test_the_helper_for_streams_parses(client):
    with client.chat.completions.stream(model=MODEL, messages=user(), response_format=Bill) as stream:
        kinds = {event.type for event in stream}
        parsed = stream.get_final_completion().choices[0].message.parsed
    assert parsed == Bill(vendor="Acme Ltd", total=12.5)
    assert "content.delta" in kinds and "content.done" in kinds


def test_async_requests_at_once():
    async def run():
        client = openai.AsyncOpenAI(base_url=BASE, api_key="none", max_retries=0)
        totals = range(10, 26)
        answers = await asyncio.gather(
            *(
                client.chat.completions.parse(
                    model=MODEL, messages=user(f"Acme Ltd. Total: {n}.50 EUR"), response_format=Bill
                )
                for n in totals
            )
        )
        return [answer.choices[0].message.parsed.total for answer in answers], [n + 0.5 for n in totals]

    found, wanted = asyncio.run(run())
    assert found == wanted


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "add"}}])
def test_tools_are_called(client, choice):
    answer = client.chat.completions.create(
        model=MODEL, messages=user("2 and 3"), tools=[ADD], tool_choice=choice, parallel_tool_calls=False
    )
    calls = answer.choices[0].message.tool_calls
    assert [call.function.name for call in calls] == ["add"]
    arguments = json.loads(calls[0].function.arguments)
    assert sorted(arguments) == ["a", "b"] and all(isinstance(n, int) for n in arguments.values())
    assert answer.choices[0].finish_reason == "tool_calls"


def test_arguments_are_streamed(client):
    arguments = dict(
        model=MODEL, messages=user("2 and 3"), tools=[ADD, NOW], tool_choice="required", parallel_tool_calls=False
    )
    whole = client.chat.completions.create(**arguments).choices[0].message.tool_calls[0]
    deltas = [
        call
        for chunk in client.chat.completions.create(stream=True, **arguments)
        for choice in chunk.choices
        for call in choice.delta.tool_calls or []
    ]
    assert deltas[0].id and deltas[0].function.name == whole.function.name
    assert "".join(call.function.arguments for call in deltas) == whole.function.arguments


def test_allowed_and_forbidden_tools(client):
    allowed = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]},
    }
    answer = client.chat.completions.create(
        model=MODEL, messages=user(), tools=[ADD, NOW], tool_choice=allowed, parallel_tool_calls=False
    )
    assert [call.function.name for call in answer.choices[0].message.tool_calls] == ["now"]
    answer = client.chat.completions.create(
        model=MODEL, messages=user(), tools=[ADD, NOW], tool_choice="none", max_tokens=20
    )
    assert not answer.choices[0].message.tool_calls


@pytest.mark.parametrize(
    "grammar, pattern",
    [
        ({"syntax": "regex", "definition": "select [a-z]{1,5}"}, "select "),
        ({"syntax": "lark", "definition": 'start: "drop " ("a" | "b")'}, "drop "),
    ],
)
def test_custom_tools_follow_their_grammar(client, grammar, pattern):
    tool = {"type": "custom", "custom": {"name": "sql", "format": {"type": "grammar", "grammar": grammar}}}
    choice = {"type": "custom", "custom": {"name": "sql"}}
    answer = client.chat.completions.create(model=MODEL, messages=user(), tools=[tool], tool_choice=choice)
    call = answer.choices[0].message.tool_calls[0]
    assert call.type == "custom" and call.custom.input.startswith(pattern)


def test_a_conversation_with_results_of_tools(client):
    call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        *user("2 and 3"),
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "5"}]},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=messages, tools=[ADD], max_tokens=5)
    assert answer.usage.completion_tokens <= 5


def test_several_answers_stops_seeds_and_logprobs(client):
    arguments = dict(model=MODEL, messages=user(), temperature=1.0, seed=7, n=3, max_tokens=12, logprobs=True)
    first = client.chat.completions.create(**arguments)
    again = client.chat.completions.create(**arguments)
    texts = [choice.message.content for choice in first.choices]
    assert len(texts) == 3 and texts == [choice.message.content for choice in again.choices]
    logprobs = first.choices[0].logprobs.content
    assert "".join(token.token for token in logprobs).startswith(texts[0])
    assert all(token.logprob <= 0 for token in logprobs)
    stopped = client.chat.completions.create(
        model=MODEL, messages=user(), stop=["e"], extra_body={"guided_regex": "abcdef"}
    )
    assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("abcd", "stop")
    cut = client.chat.completions.create(model=MODEL, messages=user(), max_completion_tokens=1)
    assert cut.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    "extra, allowed",
    [
        ({"structured_outputs": {"choice": ["red", "blue"]}}, ["red", "blue"]),
        ({"guided_choice": ["red", "blue"]}, ["red", "blue"]),
        ({"structured_outputs": {"regex": "r{3}"}}, ["rrr"]),
        ({"grammar": 'root ::= "x" | "yy"'}, ["x", "yy"]),
        ({"guided_grammar": 'start: "x"'}, ["x"]),
        ({"json_schema": {"enum": ["a", 1]}}, ['"a"', "1"]),
        ({"guided_json": '{"const": [1, 2]}'}, ["[1,2]"]),
        ({"structured_outputs": {"json": {"const": [1]}, "disable_any_whitespace": True}}, ["[1]"]),
    ],
)
def test_constraints_of_other_servers_are_honoured(client, extra, allowed):
    answer = client.chat.completions.create(model=MODEL, messages=user(), extra_body=extra)
    assert answer.choices[0].message.content in allowed


@pytest.mark.parametrize(
    "arguments, param",
    [
        (dict(extra_body={"temprature": 1}), "temprature"),
        (dict(extra_body={"ffwd": {"mode": "fast"}}), "ffwd.mode"),
        (dict(temperature=-1), "temperature"),
        (dict(logprobs=True, top_logprobs=300), "top_logprobs"),
        (dict(extra_body={"min_tokens": 3}), "min_tokens"),
        (dict(extra_body={"grammar": "root ::= x", "guided_regex": "a"}), "grammar"),
        (dict(response_format=schema_format({"type": "strin"})), "response_format.json_schema.schema"),
        (dict(tools=[ADD], tool_choice={"type": "function", "function": {"name": "sub"}}), "tool_choice"),
        (dict(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
         "messages[0].content[0].type"),
    ],
)
def test_a_fault_is_a_400_that_names_the_field(client, arguments, param):
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(**{"model": MODEL, "messages": user(), **arguments})
    assert error.value.param == param
    assert error.value.body["message"]


def test_a_bad_schema_has_a_pointer_and_a_hint(client):
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model=MODEL, messages=user(), response_format=schema_format(schema))
    assert error.value.body["pointer"] == "/properties/a/pattern"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-4o", messages=user())


def test_what_has_no_effect_is_a_warning(client):
    answer = client.chat.completions.create(
        model=MODEL,
        messages=user(),
        user="someone",
        max_tokens=2,
        response_format=schema_format({"type": "string", "maxLenght": 3}),
    )
    warnings = "\n".join(answer.ffwd["warnings"])
    assert "`user`" in warnings and "maxLenght" in warnings


def test_completions(client):
    arguments = dict(model=MODEL, prompt="The date is ", extra_body={"guided_regex": "2[0-9]{3}"}, logprobs=1)
    answer = client.completions.create(**arguments)
    assert len(answer.choices[0].text) == 4
    assert len(answer.choices[0].logprobs.tokens) == answer.usage.completion_tokens
    pieces = [chunk.choices[0].text for chunk in client.completions.create(stream=True, **arguments)]
    assert "".join(pieces) == answer.choices[0].text


def test_responses_parse(client):
    answer = client.responses.parse(model=MODEL, input=TEXT, text_format=Bill)
    assert answer.output_parsed == Bill(vendor="Acme Ltd", total=12.5)
    assert (answer.status, answer.output_text) == ("completed", answer.output[0].content[0].text)
    answer = client.responses.create(model=MODEL, input=TEXT, max_output_tokens=2)
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")


def test_responses_stream_typed_events(client):
    with client.responses.stream(model=MODEL, input=TEXT, text_format=Bill) as stream:
        events = list(stream)
        final = stream.get_final_response()
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed"
    assert [event.sequence_number for event in events if hasattr(event, "sequence_number")] == list(
        range(len(events))
    )
    assert final.output_parsed == Bill(vendor="Acme Ltd", total=12.5)


def test_responses_call_tools(client):
    tool = {"type": "function", **ADD["function"]}
    arguments = dict(model=MODEL, input="2 and 3", tools=[tool], tool_choice="required", parallel_tool_calls=False)
    answer = client.responses.create(**arguments)
    call = answer.output[0]
    assert (call.type, call.name, sorted(json.loads(call.arguments))) == ("function_call", "add", ["a", "b"])
    deltas = [
        event.delta
        for event in client.responses.create(stream=True, **arguments)
        if event.type == "response.function_call_arguments.delta"
    ]
    assert "".join(deltas) == call.arguments
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "5"}
    again = client.responses.create(
        model=MODEL,
        instructions="Be brief.",
        input=[{"role": "user", "content": "2 and 3"}, call.model_dump(exclude_none=True), result],
        tools=[tool],
        max_output_tokens=3,
    )
    assert again.usage.output_tokens <= 3


def test_responses_without_state(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.responses.create(model=MODEL, input="x", previous_response_id="resp_1")
    assert error.value.param == "previous_response_id"
    answer = client.responses.create(model=MODEL, input="x", tools=[{"type": "web_search"}], max_output_tokens=3)
    assert any("web_search" in warning for warning in answer.model_extra["ffwd"]["warnings"])

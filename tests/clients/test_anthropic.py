"""The package `anthropic`, unchanged, against `ffwd serve` with the embedded model."""

import os

import anthropic
import pytest

BASE = os.environ["FFWD_TEST_SERVER"].removesuffix("/v1")
MODEL = "extract-5m"
TEXT = "Invoice 4711 of Acme Ltd. Total: 12.50 EUR"
BILL = {
    "type": "object",
    "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}},
    "required": ["vendor", "total"],
    "additionalProperties": False,
}
PAY = {"name": "pay", "description": "Pay a bill", "input_schema": BILL}


@pytest.fixture(scope="module")
def client():
    return anthropic.Anthropic(base_url=BASE, api_key="none", max_retries=0)


def talk(*more):
    return [{"role": "user", "content": TEXT}, *more]


def test_a_text_and_its_counts(client):
    answer = client.messages.create(model=MODEL, max_tokens=20, system="Be brief.", messages=talk())
    assert answer.role == "assistant" and answer.content[0].type == "text"
    assert answer.stop_reason in ("end_turn", "max_tokens") and answer.usage.output_tokens <= 20
    counted = client.messages.count_tokens(model=MODEL, system="Be brief.", messages=talk())
    assert counted.input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens


def test_a_tool_is_called_and_its_result_is_read(client):
    arguments = dict(model=MODEL, max_tokens=200, tools=[PAY])
    first = client.messages.create(messages=talk(), tool_choice={"type": "tool", "name": "pay"}, **arguments)
    call = first.content[-1]
    assert first.stop_reason == "tool_use" and call.name == "pay" and sorted(call.input) == ["total", "vendor"]
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "paid"}
    more = [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = client.messages.create(messages=talk(*more), tool_choice={"type": "none"}, **arguments)
    assert all(block.type == "text" for block in second.content)


def test_a_stream_ends_with_the_same_message(client):
    arguments = dict(model=MODEL, max_tokens=200, tools=[PAY], tool_choice={"type": "any"}, messages=talk())
    whole = client.messages.create(**arguments)
    with client.messages.stream(**arguments) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_message()
    assert [block.input for block in final.content] == [block.input for block in whole.content]
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)
    assert {"message_start", "content_block_start", "content_block_stop", "message_stop"} <= kinds


def test_a_fault_names_the_field(client):
    with pytest.raises(anthropic.BadRequestError) as error:
        client.messages.create(model=MODEL, max_tokens=9, messages=talk(), extra_body={"temprature": 1})
    assert "temprature" in str(error.value)

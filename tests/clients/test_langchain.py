"""LangChain's `with_structured_output` and tools against `ffwd serve` with the embedded model."""

import os

import pytest

langchain_openai = pytest.importorskip("langchain_openai")

from pydantic import BaseModel, Field  # noqa: E402


class Bill(BaseModel):
    """A bill."""

    vendor: str = Field(description="who sent it")
    total: float


def model(**more):
    return langchain_openai.ChatOpenAI(
        base_url=os.environ["FFWD_TEST_SERVER"], api_key="none", model="extract-5m", max_retries=0, **more
    )


TEXT = "Invoice 4711 of Acme Ltd. Total: 12.50 EUR"


@pytest.mark.parametrize("responses", [False, True])
def test_a_schema_gives_an_instance(responses):
    chain = model(use_responses_api=responses).with_structured_output(Bill, method="json_schema")
    assert chain.invoke(TEXT) == Bill(vendor="Acme Ltd", total=12.5)


def test_calls_give_an_instance():
    assert isinstance(model().with_structured_output(Bill, method="function_calling").invoke(TEXT), Bill)


def test_json_mode_gives_an_object():
    # JSON mode has no schema: the question names the members.
    chain = model(max_tokens=400).with_structured_output(None, method="json_mode")
    found = chain.invoke(f"Extract vendor and total as JSON.\n\n{TEXT}")
    assert found == {"vendor": "Acme Ltd", "total": 12.5}


def test_a_stream_has_the_whole_text():
    chunks = list(model(stream_usage=True).stream("Hello", max_tokens=5))
    assert chunks and any(chunk.usage_metadata for chunk in chunks)

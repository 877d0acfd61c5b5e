"""Agents with tools and a final type in one request, in three frameworks, unchanged, against `ffwd serve`.

FFWD_TEST_MODEL names a model of the server that calls tools; the embedded one knows extraction only, so with it
the tests ask that whatever an agent gets is valid.
"""

import os

import pytest
from pydantic import BaseModel

BASE = os.environ["FFWD_TEST_SERVER"]
MODEL = os.environ.get("FFWD_TEST_MODEL", "extract-5m")
TEXT = "Invoice 4711 of Acme Ltd. Total: 12.50 EUR. What is the name of the vendor, and what is the total?"


class Bill(BaseModel):
    vendor: str
    total: float


@pytest.fixture
def seen():
    return []


def test_agents_sdk(seen):
    agents = pytest.importorskip("agents")
    openai = pytest.importorskip("openai")
    agents.set_tracing_disabled(True)

    @agents.function_tool
    def rate(currency: str) -> float:
        """Return the exchange rate of a currency."""
        seen.append(currency)
        return 1.0

    client = openai.AsyncOpenAI(base_url=BASE, api_key="none", max_retries=0)
    for kind in (agents.OpenAIChatCompletionsModel, agents.OpenAIResponsesModel):
        model = kind(model=MODEL, openai_client=client)
        settings = agents.ModelSettings(max_tokens=200, temperature=0)
        agent = agents.Agent(name="a", model=model, tools=[rate], output_type=Bill, model_settings=settings)
        try:
            final = agents.Runner.run_sync(agent, TEXT, max_turns=4).final_output
        except agents.MaxTurnsExceeded:
            assert len(seen) >= 4
        else:
            assert isinstance(final, Bill)


def test_pydantic_ai(seen):
    ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=BASE, api_key="none"))
    settings = {"max_tokens": 200, "temperature": 0}
    agent = ai.Agent(model, output_type=ai.NativeOutput(Bill, strict=True), model_settings=settings)

    @agent.tool_plain
    def rate(currency: str) -> float:
        """Return the exchange rate of a currency."""
        seen.append(currency)
        return 1.0

    try:
        final = agent.run_sync(TEXT, usage_limits=ai.UsageLimits(request_limit=4)).output
    except ai.UsageLimitExceeded:
        assert len(seen) >= 4
    else:
        assert isinstance(final, Bill)


def test_langgraph(seen):
    chat = pytest.importorskip("langchain_openai")
    graphs = pytest.importorskip("langgraph.graph")
    from langgraph import errors
    from langgraph.prebuilt import ToolNode, tools_condition

    def rate(currency: str) -> float:
        """Return the exchange rate of a currency."""
        seen.append(currency)
        return 1.0

    model = chat.ChatOpenAI(base_url=BASE, api_key="none", model=MODEL, temperature=0, max_tokens=200)
    bound = model.bind_tools([rate], response_format=Bill, strict=True)
    graph = graphs.StateGraph(graphs.MessagesState)
    graph.add_node("model", lambda state: {"messages": [bound.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([rate]))
    graph.add_edge(graphs.START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    state = {"messages": [("user", TEXT)]}
    try:
        last = graph.compile().invoke(state, {"recursion_limit": 8})["messages"][-1]
    except errors.GraphRecursionError:
        assert len(seen) >= 3
    else:
        assert isinstance(last.additional_kwargs["parsed"], Bill)

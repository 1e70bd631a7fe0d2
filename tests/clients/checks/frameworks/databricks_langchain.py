"""Databricks' own package for LangChain, over its SDK's client for OpenAI's paths."""

import os
from typing import Any

os.environ["MLFLOW_TRACKING_URI"] = "sqlite://"  # no traces are stored

from databricks.sdk import WorkspaceClient
from databricks.sdk.config import Config
from databricks_langchain import ChatDatabricks, DatabricksEmbeddings
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
QUESTION = HumanMessage("What is the capital of France?")


class City(BaseModel):
    """What a city is here."""

    name: str
    capital: bool


@tool  # type: ignore[misc, untyped-decorator, unused-ignore]  # untyped where the package is not installed
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"sunny in {city}, 20 degrees"


def workspace(url: str) -> WorkspaceClient:
    """A workspace client, configured as the package's documentation shows."""
    os.environ |= {
        "DATABRICKS_HOST": url,
        "DATABRICKS_TOKEN": "unused",
    }  # read by mlflow
    return WorkspaceClient(config=Config(host=url, token="unused", retry_timeout_seconds=3))  # noqa: S106  no secret


def model(url: str, **options: Any) -> Any:
    """A chat model, optionally over the Responses API."""
    return ChatDatabricks(model=MODEL, workspace_client=workspace(url), temperature=0, max_tokens=200, **options)


def check_answers_are_valid_history(url: str, _: str) -> None:
    """Streams add up to the unstreamed answer, and both are valid as history, over chats and responses."""
    for options in ({}, {"use_responses_api": True}):
        whole = model(url, **options).invoke([QUESTION])
        assert "Paris" in whole.text, whole
        pieces = list(model(url, **options).stream([QUESTION]))
        streamed = pieces[0]
        for piece in pieces[1:]:
            streamed += piece
        assert streamed.text == whole.text
        for kept in (whole, streamed):
            assert model(url, **options).invoke([QUESTION, kept, QUESTION]).text


def check_tools_are_called(url: str, _: str) -> None:
    """A call and its result can be sent back, streamed and unstreamed, over chats and responses."""
    question = HumanMessage("What is the weather in Oslo?")
    for options in ({}, {"use_responses_api": True}):
        bound = model(url, **options).bind_tools([get_weather])
        answer = bound.invoke([question])
        pieces = list(bound.stream([question]))
        streamed = pieces[0]
        for piece in pieces[1:]:
            streamed += piece
        for kept in (answer, streamed):
            (call,) = kept.tool_calls
            assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
            result = ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])
            assert "sunny" in bound.invoke([question, kept, result]).text


def check_structured_output(url: str, _: str) -> None:
    """A pydantic model is returned, by JSON Schema and by a call."""
    for method in ("json_schema", "function_calling"):
        answer = model(url, extra_params={"frequency_penalty": 0.5}).with_structured_output(City, method=method)
        assert isinstance(answer.invoke("Describe Paris."), City), method


def check_embeddings(url: str, _: str) -> None:
    """Documents and queries are embedded."""
    workspace(url)
    embeddings = DatabricksEmbeddings(endpoint=EMBEDDER)
    assert [len(each) for each in embeddings.embed_documents(["a cat", "a motorway"])] == [384, 384]
    assert len(embeddings.embed_query("a cat")) == 384

"""LangChain's packages for OpenAI and for Azure, as agents use them."""

from typing import Any

from langchain_azure_ai.chat_models import AzureAIChatCompletionsModel
from langchain_core.tools import tool
from langchain_openai import AzureChatOpenAI, ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel, SecretStr

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
KEY = SecretStr("unused")
QUESTION = "What is the capital of France?"


class City(BaseModel):
    """What a city is here."""

    name: str
    capital: bool


@tool  # type: ignore[misc, untyped-decorator, unused-ignore]  # untyped where the package is not installed
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    return f"sunny in {city}"


def model(url: str, **options: Any) -> Any:
    """A chat model as its documentation has it."""
    limits = {"temperature": 0, "max_completion_tokens": 200, "max_retries": 0}
    return ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key=KEY, **limits, **options)


def check_stream(url: str, _: str) -> None:
    """The streamed pieces add up to the unstreamed answer, including usage."""
    whole = model(url).invoke(QUESTION)
    pieces = list(model(url, stream_usage=True).stream(QUESTION))
    assert "".join(piece.content for piece in pieces) == whole.content
    assert sum(p.usage_metadata["output_tokens"] for p in pieces if p.usage_metadata) > 0


def check_bind_tools(url: str, _: str) -> None:
    """A required bound tool is called with its arguments."""
    answer = model(url).bind_tools([get_weather], tool_choice="any").invoke("What is the weather in Oslo?")
    assert answer.tool_calls[0]["name"] == "get_weather"
    assert set(answer.tool_calls[0]["args"]) == {"city"}


def check_structured_output(url: str, _: str) -> None:
    """A pydantic model is returned, by JSON Schema and by a call."""
    for method in ("json_schema", "function_calling"):
        answer = model(url, frequency_penalty=0.5).with_structured_output(City, method=method).invoke("Describe Paris.")
        assert isinstance(answer, City)


def check_responses(url: str, _: str) -> None:
    """Chats, streams and tools work over the Responses API."""
    answer = model(url, use_responses_api=True).invoke(QUESTION)
    assert answer.text


def check_azure(url: str, _: str) -> None:
    """The class for Azure's deployments, which sends `"model": null`, gives the same answers."""
    azure = AzureChatOpenAI(
        azure_deployment=MODEL, azure_endpoint=url, api_version="2024-10-21", api_key=KEY, temperature=0, max_retries=0
    )
    assert azure.invoke(QUESTION).content == model(url).invoke(QUESTION).content
    assert "".join(piece.text for piece in azure.stream(QUESTION)) == model(url).invoke(QUESTION).content


def check_azure_ai(url: str, _: str) -> None:
    """The class for Azure's model inference API works, and its answers are valid history."""
    coldest = 1e-4  # the class omits 0
    azure = AzureAIChatCompletionsModel(
        endpoint=url, credential="unused", model=MODEL, temperature=coldest, max_tokens=60
    )
    answer = azure.invoke(QUESTION)
    assert answer.content == model(url).invoke(QUESTION).content
    assert "".join(piece.text for piece in azure.stream(QUESTION)) == answer.content
    assert azure.invoke([("user", QUESTION), answer, ("user", QUESTION)]).content


def check_embeddings(url: str, _: str) -> None:
    """Documents and queries are embedded; they are sent as text, because OpenAI's tokens differ from this model's."""
    embeddings = OpenAIEmbeddings(model=EMBEDDER, base_url=f"{url}/v1", api_key=KEY, check_embedding_ctx_length=False)
    assert [len(vector) for vector in embeddings.embed_documents(["a cat", "a motorway"])] == [384, 384]
    assert len(embeddings.embed_query("a cat")) == 384

"""Microsoft's client of the Azure AI model inference API."""

from typing import Any

from azure.ai.inference import ChatCompletionsClient, EmbeddingsClient
from azure.ai.inference.models import (
    ChatCompletionsToolDefinition,
    FunctionDefinition,
    JsonSchemaFormat,
    SystemMessage,
    UserMessage,
)
from azure.core.credentials import AzureKeyCredential
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
MESSAGES = [UserMessage("What is the capital of France?")]


def chats(url: str, **options: Any) -> ChatCompletionsClient:
    """A client, configured as its documentation shows."""
    return ChatCompletionsClient(url, AzureKeyCredential("unused"), retry_total=0, **options)


def check_complete(url: str, _: str) -> None:
    """An unstreamed answer has its usage; /models works too."""
    for base in (url, f"{url}/models"):
        answer = chats(base).complete(messages=[SystemMessage("Be brief."), *MESSAGES], model=MODEL, temperature=0)
        assert answer.choices[0].message.content
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def check_model_is_optional(url: str, _: str) -> None:
    """With one model for the task, its name may be omitted, and another name is ignored."""
    assert chats(url).complete(messages=MESSAGES, max_tokens=2).model == MODEL
    assert chats(url).complete(messages=MESSAGES, max_tokens=2, model="gpt-9").model == MODEL


def check_stream(url: str, _: str) -> None:
    """The streamed pieces add up to the unstreamed answer, and the client accepts every line of the stream."""
    whole = chats(url).complete(messages=MESSAGES, model=MODEL, temperature=0)
    chunks: Any = chats(url).complete(messages=MESSAGES, model=MODEL, temperature=0, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content


def check_tools(url: str, _: str) -> None:
    """A required call names the function."""
    function = FunctionDefinition(
        name="get_weather",
        description="Tells the weather of a city.",
        parameters={
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 30}},
            "required": ["city"],
            "additionalProperties": False,
        },
    )
    answer = chats(url).complete(
        messages=[UserMessage("What is the weather in Oslo?")],
        model=MODEL,
        tools=[ChatCompletionsToolDefinition(function=function)],
        tool_choice="required",
        temperature=0,
    )
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.tool_calls[0].function.name == "get_weather"


def check_json_schema(url: str, _: str) -> None:
    """The answer matches the schema."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = JsonSchemaFormat(name="number", schema={**schema, "additionalProperties": False}, strict=True)
    answer = chats(url).complete(
        messages=MESSAGES, model=MODEL, response_format=form, temperature=0, max_tokens=60, frequency_penalty=1
    )
    assert answer.choices[0].message.content.lstrip().startswith("{")


def check_model_info(url: str, _: str) -> None:
    """The model's name, type and provider are returned."""
    info = chats(url).get_model_info()
    assert info.model_name == MODEL
    assert info.model_type
    assert info.model_provider_name


def check_model_extras(url: str, _: str) -> None:
    """`model_extras` reach the model: with top_k 1, two answers at a high temperature are equal."""
    answers = [
        chats(url).complete(messages=MESSAGES, model=MODEL, temperature=2, model_extras={"top_k": 1}) for _ in range(2)
    ]
    assert len({answer.choices[0].message.content for answer in answers}) == 1


def check_embeddings(url: str, _: str) -> None:
    """Each input has a vector, truncated to `dimensions`."""
    embeddings = EmbeddingsClient(url, AzureKeyCredential("unused"), retry_total=0)
    answer = embeddings.embed(input=["a cat", "a motorway"], model=EMBEDDER)
    assert [each.index for each in answer.data] == [0, 1]
    assert len(answer.data[0].embedding) == 384
    assert len(embeddings.embed(input=["a cat"], model=EMBEDDER, dimensions=64).data[0].embedding) == 64


def check_errors(url: str, _: str) -> None:
    """An invalid value and an unknown model raise the client's typed errors, and the next request succeeds."""
    try:
        chats(url).complete(messages=MESSAGES, model=MODEL, temperature=3)
    except HttpResponseError as error:
        assert error.status_code in {400, 422}, error.status_code
        assert "temperature" in str(error), error
        assert error.response.headers["x-ms-error-code"] == error.error.code == "invalid_value"
        assert error.error.target == "temperature"
        assert "temperature" in error.error.message
    else:
        raise AssertionError
    try:
        chats(url).complete(messages=MESSAGES, headers={"azureml-model-deployment": "nobody"})
    except ResourceNotFoundError as error:
        assert error.error.code == "unknown_deployment"
        assert "nobody" in error.error.message, error
    else:
        raise AssertionError
    assert chats(url).complete(messages=MESSAGES, model=MODEL, max_tokens=1).choices

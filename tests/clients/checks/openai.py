"""The official OpenAI client for Python."""

import json
import struct
from base64 import b64decode
from contextlib import suppress
from typing import Any

import httpx
import openai
from pydantic import BaseModel

MODEL = "sluice-demo"
EMBEDDER = "all-minilm-l6-v2"
MESSAGES: Any = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tells the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 30}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


class City(BaseModel):
    """What a city is here."""

    name: str
    capital: bool


def client(url: str, **options: Any) -> openai.OpenAI:
    """A client, configured as its documentation shows."""
    return openai.OpenAI(base_url=f"{url}/v1", api_key="unused", **{"max_retries": 0, **options})


def check_stream_equals_the_unstreamed_chat(url: str, _: str) -> None:
    """The streamed pieces add up to the unstreamed answer, and the last chunk has the usage."""
    chats = client(url).chat.completions
    whole = chats.create(model=MODEL, messages=MESSAGES, temperature=0)
    options: Any = {"include_usage": True}
    chunks = list(chats.create(model=MODEL, messages=MESSAGES, temperature=0, stream=True, stream_options=options))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens > 0
    assert chunks[-1].usage.prompt_tokens == whole.usage.prompt_tokens > 0


def check_stream_helper(url: str, _: str) -> None:
    """`chat.completions.stream` accumulates the answer."""
    with client(url).chat.completions.stream(model=MODEL, messages=MESSAGES, temperature=0) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert "content.delta" in kinds
    assert kinds[-1] == "content.done"
    assert final.choices[0].message.content


def check_parse_returns_a_pydantic_model(url: str, _: str) -> None:
    """`chat.completions.parse` sends the schema of a pydantic model and returns an instance of it."""
    answer = client(url).chat.completions.parse(
        model=MODEL, messages=MESSAGES, response_format=City, temperature=0, max_tokens=300, frequency_penalty=0.5
    )
    assert isinstance(answer.choices[0].message.parsed, City)


def check_tools(url: str, _: str) -> None:
    """A required call has arguments that match its schema, streamed and unstreamed, and its result can be sent back."""
    chats = client(url).chat.completions
    options: Any = {"model": MODEL, "tools": [WEATHER], "tool_choice": "required", "temperature": 0, "max_tokens": 200}
    question: Any = [{"role": "user", "content": "What is the weather in Oslo?"}]
    message = chats.create(messages=question, **options).choices[0].message
    assert message.tool_calls
    call: Any = message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert set(json.loads(call.function.arguments)) == {"city"}
    with chats.stream(messages=question, **options) as stream:
        final: Any = stream.get_final_completion()
    streamed = final.choices[0].message.tool_calls[0]
    assert streamed.function.arguments == call.function.arguments
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "sunny, 20 degrees"}
    again: Any = [*question, message, result]
    assert chats.create(model=MODEL, messages=again, tools=[WEATHER], max_tokens=40).choices[0].finish_reason


def check_custom_tools(url: str, _: str) -> None:
    """A custom tool is called with text that matches its expression, streamed and unstreamed; the call goes back."""
    chats = client(url).chat.completions
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-c]{3}"}}
    tools: Any = [{"type": "custom", "custom": {"name": "spell", "format": grammar}}]
    choice: Any = {"type": "custom", "custom": {"name": "spell"}}
    options: Any = {"model": MODEL, "tools": tools, "temperature": 0, "max_tokens": 200, "parallel_tool_calls": False}
    message = chats.create(messages=MESSAGES, tool_choice=choice, **options).choices[0].message
    assert message.tool_calls
    call: Any = message.tool_calls[0]
    assert call.custom.name == "spell"
    assert len(call.custom.input) == 3
    assert set(call.custom.input) <= set("abc")
    chunks = chats.create(messages=MESSAGES, tool_choice=choice, stream=True, **options)
    pieces = [piece for chunk in chunks if chunk.choices for piece in chunk.choices[0].delta.tool_calls or ()]
    assert "".join(piece.to_dict()["custom"]["input"] for piece in pieces) == call.custom.input
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "Well done."}
    assert chats.create(messages=[*MESSAGES, message, result], **options).choices[0].finish_reason


def check_messages_of_the_client_are_valid_history(url: str, _: str) -> None:
    """A parsed message, one assembled from a stream, and another server's message are valid history."""
    chats = client(url).chat.completions
    options: Any = {"model": MODEL, "temperature": 0, "max_tokens": 200, "frequency_penalty": 0.5}
    parsed: Any = chats.parse(messages=MESSAGES, response_format=City, **options).choices[0].message
    assert isinstance(parsed.parsed, City)
    assert chats.create(messages=[*MESSAGES, parsed, MESSAGES[0]], **options).choices[0].message.content
    strict: Any = {**WEATHER, "function": {**WEATHER["function"], "strict": True}}
    calling: Any = chats.parse(messages=MESSAGES, tools=[strict], tool_choice="required", **options).choices[0].message
    assert calling.tool_calls[0].function.parsed_arguments
    chunks = chats.create(messages=MESSAGES, tools=[strict], tool_choice="required", stream=True, **options)
    calls: dict[int, Any] = {}
    for piece in (piece for chunk in chunks if chunk.choices for piece in chunk.choices[0].delta.tool_calls or ()):
        if piece.index in calls:
            calls[piece.index].function.arguments += piece.function.arguments
        else:
            calls[piece.index] = piece
    streamed = {"role": "assistant", "content": None, "tool_calls": [call.model_dump() for call in calls.values()]}
    other = {**calling.model_dump(), "reasoning": "Which city?", "annotations": [], "audio": None, "id": "msg_1"}
    for kept in (calling, streamed, other):
        called: Any = kept if isinstance(kept, dict) else kept.model_dump()
        result = {"role": "tool", "tool_call_id": called["tool_calls"][0]["id"], "content": "sunny"}
        again: Any = [*MESSAGES, kept, result]
        assert chats.create(messages=again, tools=[strict], **options).choices[0].finish_reason


def check_completions(url: str, _: str) -> None:
    """Batches of prompts as texts and as tokens, echo, logprobs and streams work."""
    completions = client(url).completions
    whole = completions.create(model=MODEL, prompt=["One, two,", "Red, green,"], n=2, max_tokens=5, echo=True)
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    assert whole.choices[0].text.startswith("One, two,")
    assert whole.choices[3].text.startswith("Red, green,")
    scored = completions.create(model=MODEL, prompt="One, two,", max_tokens=3, temperature=0, logprobs=2, echo=True)
    logprobs: Any = scored.choices[0].logprobs
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset)
    assert logprobs.token_logprobs[0] is None
    assert "".join(logprobs.tokens).startswith("One, two,")
    chunks = list(completions.create(model=MODEL, prompt=[5, 6, 7], max_tokens=4, temperature=0, stream=True))
    text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
    assert text == completions.create(model=MODEL, prompt=[5, 6, 7], max_tokens=4, temperature=0).choices[0].text


def check_embeddings(url: str, _: str) -> None:
    """Vectors have unit length; base64, the client's default, and floats are equal; `dimensions` truncates them."""
    embeddings = client(url).embeddings
    usual = embeddings.create(model=EMBEDDER, input=["a cat", "a kitten", "a motorway"])
    vectors = [each.embedding for each in usual.data]
    floats = embeddings.create(model=EMBEDDER, input="a cat", encoding_format="float").data[0].embedding
    assert max(abs(a - b) for a, b in zip(vectors[0], floats, strict=True)) < 1e-6
    assert abs(sum(x * x for x in vectors[0]) - 1) < 1e-4

    def likeness(a: list[float], b: list[float]) -> float:
        return sum(x * y for x, y in zip(a, b, strict=True))

    assert likeness(vectors[0], vectors[1]) > likeness(vectors[0], vectors[2])
    assert len(embeddings.create(model=EMBEDDER, input="a cat", dimensions=100).data[0].embedding) == 100
    body = {"model": EMBEDDER, "input": "a cat", "encoding_format": "base64"}
    raw = b64decode(httpx.post(f"{url}/v1/embeddings", json=body, timeout=240).json()["data"][0]["embedding"])
    assert list(struct.unpack(f"<{len(raw) // 4}f", raw))[:3] == floats[:3] or len(raw) == 4 * len(floats)
    assert usual.usage.prompt_tokens == usual.usage.total_tokens > 0


def check_responses(url: str, _: str) -> None:
    """The text of the streamed events equals the unstreamed response's."""
    responses = client(url).responses
    whole = responses.create(model=MODEL, input="What is the capital of France?", temperature=0)
    assert whole.status == "completed"
    assert whole.output_text
    with responses.stream(model=MODEL, input="What is the capital of France?", temperature=0) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == whole.output_text
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    assert events[-1].type == "response.completed"


def check_responses_parse_and_tools(url: str, _: str) -> None:
    """A pydantic model as text format, and a function in the flat form whose result is sent back, work."""
    responses = client(url).responses
    parsed = responses.parse(
        model=MODEL, input="Describe Paris.", text_format=City, temperature=0, max_output_tokens=300
    )
    assert isinstance(parsed.output_parsed, City)
    more: Any = [{"role": "user", "content": "Describe Paris."}, *parsed.output, {"role": "user", "content": "More."}]
    assert responses.create(model=MODEL, input=more, max_output_tokens=40).id
    tool: Any = {"type": "function", "strict": True, **WEATHER["function"]}
    question: Any = {"role": "user", "content": "What is the weather in Oslo?"}
    first = responses.create(model=MODEL, input=[question], tools=[tool], tool_choice="required", temperature=0)
    call: Any = next(item for item in first.output if item.type == "function_call")
    assert set(json.loads(call.arguments)) == {"city"}
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    again: Any = [question, *first.output, output]
    assert responses.create(model=MODEL, input=again, tools=[tool], max_output_tokens=40).id


def check_models(url: str, _: str) -> None:
    """Models are listed and retrieved by name."""
    models = client(url).models
    assert {MODEL, EMBEDDER} <= {model.id for model in models.list()}
    assert models.retrieve(MODEL).id == MODEL


def check_azure_client(url: str, _: str) -> None:
    """The client for Azure's deployments names the model in its paths; errors are typed there too."""
    azure = openai.AzureOpenAI(azure_endpoint=url, api_version="2024-10-21", api_key="unused", max_retries=0)
    stream = azure.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
    whole = client(url).chat.completions.create(model=MODEL, messages=MESSAGES, temperature=0)
    assert text == whole.choices[0].message.content
    assert azure.completions.create(model=MODEL, prompt="One, two,", max_tokens=3).model == MODEL
    vectors = azure.embeddings.create(model=EMBEDDER, input=["a", "b"])
    assert [len(each.embedding) for each in vectors.data] == [384, 384]
    deployed = openai.AzureOpenAI(
        azure_endpoint=url, azure_deployment=MODEL, api_version="2024-10-21", api_key="unused", max_retries=0
    )
    assert deployed.chat.completions.create(model="any", messages=MESSAGES, max_tokens=1).model == MODEL
    for each in (azure, deployed, openai.OpenAI(base_url=f"{url}/openai/v1", api_key="unused", max_retries=0)):
        assert each.models.list().data[0].id == MODEL
        assert each.models.retrieve(MODEL).id == MODEL
        assert each.responses.create(model=MODEL, input="Hello!", max_output_tokens=4).model == MODEL
    try:
        azure.chat.completions.create(model="nobody", messages=MESSAGES)
    except openai.NotFoundError as caught:
        assert "nobody" in caught.message
    else:
        raise AssertionError


def check_errors(url: str, _: str) -> None:
    """An invalid value raises the client's typed error with field and limit, and the next request succeeds."""
    chats = client(url).chat.completions
    for change, error, param, words in (
        ({"temperature": 3}, openai.BadRequestError, "temperature", "2"),
        ({"messages": []}, openai.BadRequestError, "messages", "at least 1"),
        ({"max_tokens": 0}, openai.BadRequestError, "max_tokens", "1"),
        ({"model": "nobody"}, openai.NotFoundError, "model", "nobody"),
        ({"extra_body": {"colour": 1}}, openai.BadRequestError, "colour", "colour"),
        ({"messages": [{"role": "user", "content": "word " * 4000}]}, openai.BadRequestError, "messages", "2047"),
    ):
        options: Any = {"model": MODEL, "messages": MESSAGES, **change}
        try:
            chats.create(**options)
        except error as caught:
            body: Any = caught.body
            assert body["param"] == param, body
            assert words in body["message"], body
        else:
            raise AssertionError(change)
        chats.create(model=MODEL, messages=MESSAGES, max_tokens=1)


def check_retries(_: str, unavailable_url: str) -> None:
    """While the service is unavailable, the client makes the configured number of retries, then raises."""
    requests: list[httpx.Request] = []
    hooks = {"request": [requests.append]}
    with httpx.Client(event_hooks=hooks) as transport, suppress(openai.InternalServerError):
        client(unavailable_url, http_client=transport, max_retries=1).chat.completions.create(
            model=MODEL, messages=MESSAGES
        )
        raise AssertionError
    assert len(requests) == 2

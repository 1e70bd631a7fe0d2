"""Cohere's own package: `chat`, `chat_stream`, `embed` and `rerank`, its errors and its asynchronous client."""

import asyncio
import base64
import json
import struct
from typing import Any

import cohere
from cohere.core.api_error import ApiError

ENCODER = "all-minilm-l6-v2"
DOCUMENTS = ["interest rates rose again", "a cat sleeps on the mat", "a motorway at night"]
MODEL = "sluice-demo"
QUESTION: Any = [{"role": "user", "content": "Hello! Who are you?"}]
GREEDY: Any = {"model": MODEL, "temperature": 0, "max_tokens": 30}
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Returns the weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]},
    },
}
ASKED: Any = {"model": ENCODER, "query": "a kitten", "documents": DOCUMENTS}


def check_second_api(url: str, _: str) -> None:
    """`rerank` returns the best documents or all of them, in the package's types."""
    client = cohere.ClientV2(base_url=url, api_key="unused")
    answer = client.rerank(**ASKED, top_n=2, max_tokens_per_doc=64)
    assert answer.results[0].index == 1
    assert len(answer.results) == 2
    assert answer.results[0].relevance_score > answer.results[1].relevance_score
    assert answer.id
    assert answer.meta.api_version.version == "2"
    assert answer.meta.tokens.input_tokens > 10


def check_first_api(url: str, _: str) -> None:
    """Documents are texts or objects, and are returned if requested."""
    client = cohere.Client(base_url=url, api_key="unused")
    documents = [DOCUMENTS[0], {"text": DOCUMENTS[1]}]
    answer = client.rerank(model=ENCODER, query="a kitten", documents=documents, return_documents=True)
    assert [(result.index, result.document.text) for result in answer.results] == [(1, DOCUMENTS[1]), (0, DOCUMENTS[0])]
    assert answer.meta.api_version.version == "1"


def check_stream_equals_the_unstreamed_chat(url: str, _: str) -> None:
    """The streamed pieces add up to the unstreamed answer; finish reason and usage are equal."""
    client = cohere.ClientV2(base_url=url, api_key="unused")
    whole = client.chat(messages=QUESTION, **GREEDY)
    assert whole.message.role == "assistant"
    assert whole.message.content[0].text
    assert whole.finish_reason in {"COMPLETE", "MAX_TOKENS"}
    assert whole.usage.tokens.input_tokens > 5
    events = list(client.chat_stream(messages=QUESTION, **GREEDY))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message-start", "content-start"]
    assert kinds[-2:] == ["content-end", "message-end"]
    text = "".join(event.delta.message.content.text for event in events if event.type == "content-delta")
    assert text == whole.message.content[0].text
    assert events[-1].delta.finish_reason == whole.finish_reason
    assert events[-1].delta.usage.tokens.output_tokens == whole.usage.tokens.output_tokens
    cut = client.chat(messages=QUESTION, **{**GREEDY, "max_tokens": 2})
    assert cut.finish_reason == "MAX_TOKENS"
    ended = client.chat(messages=QUESTION, stop_sequences=[text[4:7]], **GREEDY)
    assert (ended.finish_reason, ended.message.content[0].text) == ("STOP_SEQUENCE", text.partition(text[4:7])[0])


def check_answer_is_valid_history(url: str, _: str) -> None:
    """An answer can be sent back unchanged, after a system message."""
    client = cohere.ClientV2(base_url=url, api_key="unused")
    messages: Any = [{"role": "system", "content": "Be brief."}, *QUESTION]
    answer = client.chat(messages=messages, **GREEDY)
    messages = [*messages, answer.message, {"role": "user", "content": [{"type": "text", "text": "And now?"}]}]
    assert client.chat(messages=messages, **GREEDY).message.content


def check_chat_calls_tools(url: str, _: str) -> None:
    """A required call matches the tool's schema, streamed and unstreamed, and its result is used in the answer."""
    client = cohere.ClientV2(base_url=url, api_key="unused")
    options: Any = {**GREEDY, "tools": [TOOL], "max_tokens": 100}
    messages: Any = [{"role": "user", "content": "What is the weather in Oslo?"}]
    answer = client.chat(messages=messages, tool_choice="REQUIRED", **options)
    assert answer.finish_reason == "TOOL_CALL"
    call = answer.message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments)["city"] in {"Oslo", "Rome"}
    events = list(client.chat_stream(messages=messages, tool_choice="REQUIRED", **options))
    start = next(event for event in events if event.type == "tool-call-start")
    assert start.delta.message.tool_calls.function.name == "get_weather"
    pieces = [
        event.delta.message.tool_calls.function.arguments
        for event in events
        if event.type == "tool-call-delta" and event.index == start.index
    ]
    assert "".join(pieces) == call.function.arguments
    assert any(event.type == "tool-call-end" for event in events)
    assert events[-1].delta.finish_reason == "TOOL_CALL"
    document = {"type": "document", "document": {"data": {"weather": "sunny"}, "id": "1"}}
    results = [{"role": "tool", "tool_call_id": each.id, "content": [document]} for each in answer.message.tool_calls]
    assert client.chat(messages=[*messages, answer.message, *results], tool_choice="NONE", **options).message.content


def check_chat_formats_and_logprobs(url: str, _: str) -> None:
    """JSON matches its schema; log probabilities belong to the tokens of the text; documents become prompt tokens."""
    client = cohere.ClientV2(base_url=url, api_key="unused")
    schema = {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]}
    expected: Any = {"type": "json_object", "json_schema": schema}
    answer = client.chat(messages=QUESTION, response_format=expected, **GREEDY)
    assert json.loads(answer.message.content[0].text) == {"city": "Oslo"}
    answer = client.chat(messages=QUESTION, logprobs=True, **GREEDY)
    assert "".join(each.text for each in answer.logprobs) == answer.message.content[0].text
    assert all(len(each.token_ids) == len(each.logprobs) for each in answer.logprobs)
    stream = client.chat_stream(messages=QUESTION, logprobs=True, **GREEDY)
    streamed = [event.logprobs for event in stream if event.type == "content-delta"]
    assert sum(len(each.token_ids) for each in streamed) == len(answer.logprobs)
    more = client.chat(messages=QUESTION, documents=["Cats sleep.", {"data": {"title": "Dogs"}}], **GREEDY)
    assert more.usage.tokens.input_tokens > answer.usage.tokens.input_tokens + 5


def check_embeddings(url: str, _: str) -> None:
    """Vectors in every type have the same direction."""
    client = cohere.ClientV2(base_url=url, api_key="unused")
    kinds: Any = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    answer = client.embed(model=ENCODER, texts=DOCUMENTS, input_type="search_document", embedding_types=kinds)
    found = answer.embeddings
    size = len(found.float_[0])
    assert answer.texts == DOCUMENTS
    assert answer.meta.tokens.input_tokens > 10
    for index, vector in enumerate(found.float_):
        assert [round(x, 6) for x in struct.unpack(f"<{size}f", base64.b64decode(found.base64[index]))] == [
            round(x, 6) for x in vector
        ]
        largest = max(map(abs, vector))
        assert all(abs(x / largest - y / 127) < 0.005 for x, y in zip(vector, found.int8[index], strict=True))
        assert [x - 128 for x in found.uint8[index]] == found.int8[index]
        bits = "".join(f"{byte:08b}" for byte in found.ubinary[index])
        assert bits == "".join("1" if x > 0 else "0" for x in vector)
        assert [x - 128 for x in found.ubinary[index]] == found.binary[index]
    plain = client.embed(
        model=ENCODER, inputs=[{"content": [{"type": "text", "text": "a cat"}]}], input_type="clustering"
    )
    assert len(plain.embeddings.float_) == 1
    assert plain.embeddings.int8 is None


def check_asynchronous_client(url: str, _: str) -> None:
    """The asynchronous client sends several concurrent requests."""

    async def ask() -> list[int]:
        client = cohere.AsyncClientV2(base_url=url, api_key="unused")
        answers = await asyncio.gather(*(client.rerank(**ASKED, top_n=1) for _ in range(4)))
        return [answer.results[0].index for answer in answers]

    assert asyncio.run(ask()) == [1] * 4


def check_errors(url: str, unavailable_url: str) -> None:
    """Each error status raises its exception, with the text of the body."""
    client = cohere.ClientV2(base_url=url, api_key="unused")
    unavailable = cohere.ClientV2(base_url=unavailable_url, api_key="unused")
    no_retry: Any = {"max_retries": 0}
    for asking, fields, status, words in (
        (client, {"query": ""}, 400, "query: "),
        (client, {"documents": []}, 400, "documents: "),
        (client, {"model": "nobody"}, 404, "nobody"),
        (unavailable, {}, 503, ""),
    ):
        try:
            asking.rerank(**{**ASKED, **fields}, request_options=no_retry)
        except ApiError as error:
            assert error.status_code == status, error
            assert words in error.body["message"], error
        else:
            raise AssertionError(f"no error for {fields}")
    chats: Any = (
        ({"temperature": 3}, "temperature: "),
        ({"messages": [{"role": "human", "content": "hi"}]}, "did you mean user?"),
        ({"citation_options": {"mode": "ACCURATE"}}, "citation_options.mode: "),
    )
    for given, words in chats:
        for ask in (client.chat, lambda **all_of: list(client.chat_stream(**all_of))):
            try:
                ask(**{"messages": QUESTION, **GREEDY, **given}, request_options=no_retry)
            except ApiError as error:
                assert error.status_code == 400, error
                assert words in error.body["message"], error
            else:
                raise AssertionError(f"no error for {given}")

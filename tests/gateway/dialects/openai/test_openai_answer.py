"""Answers of the OpenAI style, to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.timestamp_pb2 import Timestamp
from sluice.v1 import chat_pb2, model_pb2

from gateway.dialects.openai.chat import OpenAIEncoder, OpenAITranslator
from gateway.dialects.openai.model import to_model_list
from gateway.dialects.openai_family.parameters.stream_options import StreamedUsage
from gateway.dialects.seam.failure import Failure, Reason, Violation

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def events() -> list[chat_pb2.StreamChatResponse]:
    """Return the golden stream of the service."""
    blocks = (GOLDEN / "events.textproto").read_text().split("\n---\n")
    return [text_format.Parse(block, chat_pb2.StreamChatResponse()) for block in blocks]


def encode(*, include_usage: bool = False) -> bytes:
    """Return the golden stream as the caller receives it."""
    usage = StreamedUsage.LAST if include_usage else StreamedUsage.NONE
    encoder = OpenAIEncoder(usage=usage, has_logprobs=True)
    return b"".join(encoder.chunk(event) for event in events())


def chunks(stream: bytes) -> list[dict[str, Any]]:
    """Return the JSON of each event except the last, which must be [DONE]."""
    *bodies, done, nothing = stream.decode().split("\n\n")
    assert (done, nothing) == ("data: [DONE]", "")
    return [json.loads(body.removeprefix("data: ")) for body in bodies]


@pytest.mark.parametrize("include_usage", [False, True])
def test_stream_is_golden(*, include_usage: bool) -> None:
    """Every kind of event, with and without usage, is encoded to exactly the recorded bytes."""
    name = "openai_stream_usage.txt" if include_usage else "openai_stream.txt"
    assert encode(include_usage=include_usage) == (GOLDEN / name).read_bytes()


def test_unstreamed_answer_is_golden() -> None:
    """A whole answer is encoded to exactly the recorded bytes."""
    response = text_format.Parse((GOLDEN / "answer.textproto").read_text(), chat_pb2.ChatResponse())
    assert OpenAIEncoder(has_logprobs=True).whole(response) == (GOLDEN / "openai_answer.json").read_bytes()


def test_stream_order_for_each_choice() -> None:
    """A choice starts with its role and ends with its finish reason in a separate chunk."""
    for index in range(4):
        choices = [c for chunk in chunks(encode()) for c in chunk["choices"] if c["index"] == index]
        assert choices[0]["delta"]["role"] == "assistant"
        assert ["role" in choice["delta"] for choice in choices[1:]] == [False] * (len(choices) - 1)
        assert choices[-1]["delta"] == {}
        assert [choice["finish_reason"] is None for choice in choices] == [True] * (len(choices) - 1) + [False]


def test_usage_is_in_the_last_chunk_only_with_include_usage() -> None:
    """With include_usage the last chunk has only usage, and the others have null; without it none has usage."""
    assert all("usage" not in chunk for chunk in chunks(encode()))
    *others, last = chunks(encode(include_usage=True))
    assert all(chunk["usage"] is None for chunk in others)
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 21


@pytest.mark.parametrize("text", ["", "a", '"\\\n\t\u2028', "ä€😀", "\x00\x7f", "</script>"])
def test_any_text_is_one_sse_line_and_decoded_unchanged(text: str) -> None:
    """Any text is encoded in one line of SSE and decoded unchanged."""
    encoder = OpenAIEncoder()
    encoder.chunk(events()[0])
    encoder.chunk(chat_pb2.StreamChatResponse(content_delta=chat_pb2.ContentDelta(text="first")))
    chunk = encoder.chunk(chat_pb2.StreamChatResponse(content_delta=chat_pb2.ContentDelta(text=text)))
    assert chunk.count(b"\n") == 2
    assert chunk.endswith(b"\n\n")
    assert json.loads(chunk.removeprefix(b"data: "))["choices"][0]["delta"] == {"content": text}


def test_error_event() -> None:
    """The event of a failed stream has the format of an error and is the last one."""
    failure = Failure(Reason.INTERNAL, "internal error")
    event = OpenAIEncoder().error(failure)
    assert event == (b'data: {"error":{"message":"internal error","type":"server_error","param":null,"code":null}}\n\n')


def test_error_names_all_fields() -> None:
    """The message names every invalid field, `param` the first one."""
    failure = Failure(Reason.INVALID_FIELD, "", violations=[Violation("a", "is x"), Violation("b", "is y")])
    rejection = OpenAITranslator().error_response(failure)
    error = json.loads(rejection.body)["error"]
    assert (rejection.status, error["message"], error["param"]) == (400, "a: is x; b: is y", "a")


def test_model_list() -> None:
    """Models are listed with OpenAI's four fields."""
    models = [model_pb2.Model(name="m", created=Timestamp(seconds=5), architecture="X")]
    assert to_model_list(models) == (
        b'{"object":"list","data":[{"id":"m","object":"model","created":5,"owned_by":"sluice"}]}'
    )

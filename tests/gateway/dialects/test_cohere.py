"""Cohere's dialect: what its requests ask for, and how its answers, streams and errors look."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import text_format
from sluice.v1 import chat_pb2, content_pb2, embedding_pb2

from gateway.dialects.cohere.chat import CohereTranslator
from gateway.dialects.cohere.embedding import CohereEmbedTranslator
from gateway.dialects.cohere.encoder import CohereEncoder
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest
from tests.gateway import golden_answers

USER: Any = {"role": "user", "content": "hi"}


def chat(*messages: Any, **fields: Any) -> ParsedRequest[chat_pb2.ChatRequest]:
    """Return the parsed chat with these messages."""
    body = {"model": "m", "messages": list(messages or (USER,)), **fields}
    return CohereTranslator().parse(HttpRequest(json.dumps(body).encode()))


def embed(**fields: Any) -> ParsedRequest[embedding_pb2.EmbedRequest]:
    """Return the parsed embedding request."""
    return CohereEmbedTranslator().parse(HttpRequest(json.dumps({"model": "m", **fields}).encode()))


def stream_of(events: Any) -> list[dict[str, Any]]:
    """Return the events that a stream of the service becomes; each has its type as name, too."""
    encoder = CohereEncoder()
    found = []
    for block in b"".join(encoder.chunk(event) for event in events).decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def test_conversation_of_other_clients() -> None:
    """A later system message is a user's turn, and the SDK's calls may have null as arguments."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": None}}
    messages = chat(
        USER, {"role": "assistant", "tool_calls": [call]}, {"role": "system", "content": "B"}
    ).request.messages
    assert messages[1].tool_calls[0].function.arguments == "{}"
    assert messages[2] == content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text="B")])


def test_conversation() -> None:
    """Plans are text before the calls, thinking is reasoning, and documents of results are lines of text."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    thinking = {"type": "thinking", "thinking": "hm"}
    result = {"type": "document", "document": {"id": "7", "data": {"title": "Cats", "n": 1}}}
    request = chat(
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "tool_plan": "I look.", "content": [thinking], "tool_calls": [call], "citations": [{}]},
        {"role": "tool", "tool_call_id": "c1", "content": [result]},
    ).request
    assert [each.role for each in request.messages] == [
        content_pb2.ROLE_SYSTEM, content_pb2.ROLE_USER, content_pb2.ROLE_ASSISTANT, content_pb2.ROLE_TOOL,
    ]  # fmt: skip
    assert (request.messages[2].reasoning, request.messages[2].content[0].text) == ("hm", "I look.")
    assert request.messages[2].tool_calls[0].function.arguments == '{"x": 1}'
    assert request.messages[3].content[0].text == "id: 7\ntitle: Cats\nn: 1"


@pytest.mark.parametrize(("given", "text"), [({}, '{"w": "sunny"}'), ({"id": "7"}, 'id: 7\n{"w": "sunny"}')])
def test_a_document_may_be_one_text(given: dict[str, str], text: str) -> None:
    """Cohere's own examples send the result of a tool as the text of its JSON."""
    result = {"type": "document", "document": {"data": '{"w": "sunny"}', **given}}
    messages = [USER, {"role": "tool", "tool_call_id": "c1", "content": [result]}]
    assert chat(*messages).request.messages[1].content[0].text == text


def test_documents_precede_the_last_question() -> None:
    """Documents are put before the text of the last user's message, which they need."""
    request = chat(USER, {"role": "assistant", "content": "a"}, USER, documents=["x", {"data": {"y": "z"}}]).request
    assert [each.content[0].text for each in request.messages] == ["hi", "a", "x\n\ny: z\n\nhi"]
    with pytest.raises(Failure) as caught:
        chat({"role": "system", "content": "a"}, documents=["x"])
    assert caught.value.field == "documents"


@pytest.mark.parametrize(
    ("fields", "field", "reason"),
    [
        ({"citation_options": {"mode": "FAST"}}, "citation_options.mode", Reason.UNSUPPORTED_FIELD),
        ({"safety_mode": "STRICT"}, "safety_mode", Reason.UNSUPPORTED_FIELD),
        ({"output_interval_ms": 5}, "output_interval_ms", Reason.INVALID_FIELD),
        ({"max_tokens": -1}, "max_tokens", Reason.INVALID_FIELD),
        ({"n": 2}, "n", Reason.UNKNOWN_FIELD),
        ({"tool_choice": "AUTO"}, "tool_choice", Reason.INVALID_FIELD),
        ({"messages": [{"role": "user", "content": [{"type": "thinking", "thinking": "a"}]}]}, "messages.0.content",
         Reason.INVALID_FIELD),
    ],
)  # fmt: skip
def test_rejected_fields_of_chats(fields: dict[str, Any], field: str, reason: Reason) -> None:
    """Unsupported and invalid fields are rejected by name."""
    with pytest.raises(Failure) as caught:
        chat(**fields)
    assert (caught.value.field, caught.value.reason) == (field, reason)


def test_serving_options_of_chats() -> None:
    """Priority and objectives are the contract's; a body without them sets none."""
    serving = chat(priority=3, slo_first_token_seconds=0.5, slo_token_seconds=1).request.serving
    assert (serving.priority, serving.slo_first_token_seconds, serving.slo_token_seconds) == (3, 0.5, 1)
    assert not chat().request.HasField("serving")


@pytest.mark.parametrize(
    ("fields", "field"),
    [({}, "texts"), ({"texts": ["a"], "inputs": []}, "inputs"), ({"texts": ["a"], "truncate": "START"}, "truncate")],
)
def test_rejected_fields_of_embeddings(fields: dict[str, Any], field: str) -> None:
    """Missing and contradictory texts, and cuts of the beginning, are rejected by name."""
    with pytest.raises(Failure) as caught:
        embed(**fields)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("sampling.top_k", "k"),
        ("sampling.top_p", "p"),
        ("sampling.temperature", "temperature"),
        ("stopping.stop[1]", "stop_sequences.1"),
        ("stopping.max_tokens", "max_tokens"),
        ("serving.priority", "priority"),
        ("messages[0].content[0].text", "messages.0.content"),
        ("output_constraint.json_schema.schema", "response_format.json_schema"),
        ("reasoning_budget", "thinking.token_budget"),
        ("model", "model"),
    ],
)
def test_fields_have_the_callers_names(field: str, name: str) -> None:
    """Errors of the service name the caller's fields."""
    assert chat().caller_name(field) == name


def test_errors_about_inputs_name_field_and_index() -> None:
    """Errors about a text name its field and index."""
    assert embed(texts=["a"]).caller_name("inputs[0].text") == "texts.0"
    assert embed(inputs=[{"content": [{"type": "text", "text": "a"}]}]).caller_name("inputs[0].text") == "inputs.0"
    assert embed(texts=["a"]).caller_name("dimensions") == "output_dimension"


def test_stream_of_reasoning_and_text() -> None:
    """Each item of the content starts, grows and ends, one after the other."""
    events = stream_of(golden_answers.CHATS["reasoning"]["StreamChat"])
    kinds = [(event["type"], event.get("index")) for event in events]
    assert kinds[0] == ("message-start", None)
    assert kinds[-1] == ("message-end", None)
    starts = [event for event in events if event["type"] == "content-start"]
    assert [each["delta"]["message"]["content"]["type"] for each in starts] == ["thinking", "text"]
    assert [index for kind, index in kinds if kind == "content-end"] == [0, 1]
    assert events[-1]["delta"]["usage"]["tokens"] == {"input_tokens": 12, "output_tokens": 9}


def test_stream_of_calls() -> None:
    """The pieces of a call's arguments are those of the whole answer."""
    events = stream_of(golden_answers.CHATS["tools"]["StreamChat"])
    whole: Any = golden_answers.CHATS["tools"]["Chat"][0]
    answer = json.loads(CohereEncoder().whole(whole))
    for index, call in enumerate(answer["message"]["tool_calls"]):
        mine = [event for event in events if event.get("index") == index and event["type"].startswith("tool-call")]
        assert mine[0]["delta"]["message"]["tool_calls"]["function"]["name"] == call["function"]["name"]
        pieces = [each["delta"]["message"]["tool_calls"]["function"]["arguments"] for each in mine[1:-1]]
        assert "".join(pieces) == call["function"]["arguments"]
        assert mine[-1]["type"] == "tool-call-end"
    assert (answer["finish_reason"], events[-1]["delta"]["finish_reason"]) == ("TOOL_CALL", "TOOL_CALL")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("finish_reason: FINISH_REASON_STOP", "COMPLETE"),
        ('finish_reason: FINISH_REASON_STOP stop_sequence: "END"', "STOP_SEQUENCE"),
        ("finish_reason: FINISH_REASON_LENGTH", "MAX_TOKENS"),
        ("finish_reason: FINISH_REASON_CONTENT_FILTER", "ERROR"),
    ],
)
def test_finish_reasons(end: str, reason: str) -> None:
    """Each reason of the contract has Cohere's name."""
    response = chat_pb2.ChatResponse(choices=[text_format.Parse(end, chat_pb2.ChatChoice())])
    assert json.loads(CohereEncoder().whole(response))["finish_reason"] == reason


def test_errors() -> None:
    """An error has the request's id and the message; a failed stream ends with it."""
    failure = Failure.of_field("k", "must be at most 500")
    failure.request_id = "r"
    response = CohereTranslator().error_response(failure)
    assert (response.status, json.loads(response.body)) == (400, {"id": "r", "message": "k: must be at most 500"})
    name, data = CohereEncoder().error(failure).decode().strip().split("\n")
    assert name == "event: message-end"
    assert json.loads(data.removeprefix("data: "))["delta"] == {
        "finish_reason": "ERROR", "error": "k: must be at most 500",
    }  # fmt: skip

"""Ollama's dialect: what its requests ask for."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from sluice.v1 import chat_pb2, completion_pb2, content_pb2, model_pb2, serving_pb2

from gateway.dialects.ollama.chat import OllamaChatTranslator
from gateway.dialects.ollama.embedding import OllamaEmbeddingTranslator, OllamaEmbedTranslator
from gateway.dialects.ollama.encoder import LoadEncoder
from gateway.dialects.ollama.generate import OllamaGenerateTranslator
from gateway.dialects.ollama.line import chat_fields
from gateway.dialects.seam.encoder import StreamFormat
from gateway.dialects.seam.failure import Reason
from gateway.dialects.seam.http_request import HttpRequest
from tests.gateway.dialects.ollama.ollama_requests import USER, chat, generate, http, violation


def test_results_belong_to_calls_without_ids() -> None:
    """A result belongs to the call with its id, else to the first open call of its tool, else to the first one."""
    calls: list[dict[str, Any]] = [{"function": {"name": name, "arguments": {"x": 1}}} for name in ("f", "g")]
    calls.append({"function": {"name": "h", "arguments": '{"x": 1}'}})  # as its clients of other APIs have it
    calls.append({"id": "own", "function": {"name": "f"}})
    results = [
        {"role": "tool", "tool_name": "g", "content": "a"},
        {"role": "tool", "tool_call_id": "own", "content": "b"},
        {"role": "tool", "content": "c"},
        {"role": "tool", "tool_name": "other", "content": "d"},
        {"role": "tool", "content": "e"},
    ]
    messages = chat(USER, {"role": "assistant", "thinking": "hm", "tool_calls": calls}, *results).request.messages
    assert [(call.id, call.function.arguments) for call in messages[1].tool_calls] == [
        ("call_1", '{"x": 1}'), ("call_2", '{"x": 1}'), ("call_3", '{"x": 1}'), ("own", "{}"),
    ]  # fmt: skip
    assert messages[1].reasoning == "hm"
    assert [each.tool_call_id for each in messages[2:]] == ["call_2", "own", "call_1", "call_3", "call_4"]


def test_results_with_the_id_of_another_api_belong_to_calls_without_ids() -> None:
    """Clients of several APIs drop the ids of calls, but not those of results; a call with an id is none of these."""
    calls = [{"id": "own", "function": {"name": "f"}}, *({"function": {"name": name}} for name in ("f", "g", "h"))]
    results = [
        {"role": "tool", "tool_call_id": "call_a", "tool_name": "g", "content": "a"},
        {"role": "tool", "tool_call_id": "call_b", "content": "b"},
        {"role": "tool", "tool_call_id": "call_c", "tool_name": "other", "content": "c"},
        {"role": "tool", "tool_call_id": "call_d", "content": "d"},
    ]
    messages = chat(USER, {"role": "assistant", "tool_calls": calls}, *results).request.messages
    assert [each.tool_call_id for each in messages[2:]] == ["call_2", "call_1", "call_3", "call_d"]


def test_later_system_messages_are_turns_of_the_user() -> None:
    """Only the first message has the role system."""
    system = {"role": "system", "content": "Be brief."}
    assert [each.role for each in chat(system, system, USER, system).request.messages] == [
        content_pb2.ROLE_SYSTEM, content_pb2.ROLE_USER, content_pb2.ROLE_USER, content_pb2.ROLE_USER,
    ]  # fmt: skip


def test_images_are_files_in_base64() -> None:
    """Images follow the text of their message."""
    text = base64.b64encode(b"\x89PNG").decode()
    message = chat({**USER, "images": [text]}).request.messages[0]
    assert [part.WhichOneof("part") for part in message.content] == ["text", "image"]
    assert message.content[1].image.data == b"\x89PNG"
    assert violation(lambda: chat({**USER, "images": ["?"]})) == (Reason.INVALID_FIELD, "messages.0.images.0")
    assert violation(lambda: chat({**USER, "thinking": "hm"})) == (Reason.INVALID_FIELD, "messages.0.thinking")


def test_options_become_parameters() -> None:
    """Options without a limit, a seed or a number of candidates are equivalent to none."""
    request = chat(
        options={"num_predict": -1, "seed": -1, "top_k": -1, "repeat_penalty": 1, "repeat_last_n": 64}
    ).request
    assert not request.stopping.HasField("max_tokens")
    assert not request.sampling.HasField("seed")
    assert (request.sampling.top_k, request.sampling.repetition_penalty) == (0, 1)
    assert violation(lambda: chat(options={"num_predict": -3})) == (Reason.INVALID_FIELD, "options.num_predict")
    assert violation(lambda: chat(options={"wings": 2})) == (Reason.UNKNOWN_FIELD, "options.wings")
    assert violation(lambda: chat(top_logprobs=2)) == (Reason.INVALID_FIELD, "top_logprobs")


def test_options_of_open_webui_become_parameters() -> None:
    """A bias and an effort are among the options; the effort precedes the model's default, but not `think`."""
    options: dict[str, Any] = {"logit_bias": {"5": -100}, "reasoning_effort": "minimal"}
    request = chat(options=options).request
    assert dict(request.sampling.logit_bias) == {5: -100}
    assert request.reasoning_effort == chat_pb2.REASONING_EFFORT_LOW
    assert chat(options=options, think=False).request.reasoning_effort == chat_pb2.REASONING_EFFORT_NONE
    assert violation(lambda: chat(options={"logit_bias": {"-1": 1}})) == (Reason.INVALID_FIELD, "options.logit_bias.-1")


def test_a_limit_next_to_the_options_holds_if_they_have_none() -> None:
    """A limit in the options precedes it, also if that means no limit."""
    assert chat(num_predict=5).request.stopping.max_tokens == 5
    assert chat(num_predict=5, options={"num_predict": 7}).request.stopping.max_tokens == 7
    for fields in ({"num_predict": 5, "options": {"num_predict": -1}}, {"num_predict": -2}):
        assert not chat(**fields).request.stopping.HasField("max_tokens")
    assert violation(lambda: chat(num_predict=-3)) == (Reason.INVALID_FIELD, "num_predict")
    assert violation(lambda: chat(num_predict=2**40)) == (Reason.INVALID_FIELD, "num_predict")
    assert chat(num_predict=5).caller_name("stopping.max_tokens") == "num_predict"
    assert chat(options={"num_predict": 5}).caller_name("stopping.max_tokens") == "options.num_predict"


def test_conversations_are_truncated_unless_the_request_says_otherwise() -> None:
    """A conversation that is too long loses its oldest messages by default, as in Ollama."""
    assert chat().request.serving.error_behavior == serving_pb2.ERROR_BEHAVIOR_TRUNCATE
    assert chat(truncate=False).request.serving.error_behavior == serving_pb2.ERROR_BEHAVIOR_UNSPECIFIED


@pytest.mark.parametrize(
    ("value", "kind"), [("", None), (None, None), ("json", "json_object"), ({"type": "object"}, "json_schema")]
)
def test_formats(value: Any, kind: str | None) -> None:
    """A format is empty, `json`, or a schema."""
    assert chat(format=value).request.output_constraint.WhichOneof("constraint") == kind


@pytest.mark.parametrize("value", ["yaml", 5, []])
def test_other_formats_are_rejected(value: Any) -> None:
    """The error names the field."""
    assert violation(lambda: chat(format=value)) == (Reason.INVALID_TYPE, "format")


def test_streams_are_lines_and_the_default() -> None:
    """A request is streamed unless it says otherwise; a request that loads a model is not."""
    assert (chat().stream, chat().stream_format, chat(stream=False).stream) == (True, StreamFormat.LINES, False)
    assert not generate().stream
    resumed = HttpRequest(http(messages=[USER]).body, {"last-event-id": "a"})
    assert violation(lambda: OllamaChatTranslator().parse(resumed)) == (Reason.INVALID_FIELD, "last-event-id")


def test_generation_is_a_chat_or_a_raw_completion() -> None:
    """Only a raw prompt is not put into the chat template; fields of the template are rejected with it."""
    request = generate(prompt="hi", system="Be brief.", think=False).request
    assert isinstance(request, chat_pb2.ChatRequest)
    assert [each.role for each in request.messages] == [content_pb2.ROLE_SYSTEM, content_pb2.ROLE_USER]
    assert request.reasoning_effort == chat_pb2.REASONING_EFFORT_NONE
    raw = generate(prompt="hi", raw=True).request
    assert isinstance(raw, completion_pb2.CompleteRequest)
    assert raw.prompts[0].text == "hi"
    for field in ("system", "think"):
        assert violation(lambda field=field: generate(prompt="hi", raw=True, **{field: "low"}))[1] == field
    for field, value in (("suffix", "}"), ("template", "a"), ("context", [1])):
        assert violation(lambda field=field, value=value: generate(**{field: value})) == (
            Reason.UNSUPPORTED_FIELD, field,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "path", "name"),
    [
        ({}, "messages[0].content[0].text", "prompt"),
        ({"system": "a"}, "messages[0].content[0].text", "system"),
        ({"system": "a"}, "messages[1].content[0].text", "prompt"),
        ({"images": ["AA=="]}, "messages[0].content[1].image.data", "images.0"),
        ({"system": "a", "images": ["AA=="]}, "messages[1].content[1].image", "images.0"),
        ({}, "messages", "prompt"),
        ({"raw": True}, "prompts[0].text", "prompt"),
        ({}, "stopping.max_tokens", "options.num_predict"),
        ({}, "sampling.repetition_penalty", "options.repeat_penalty"),
        ({}, "output_constraint.json_schema.schema", "format"),
        ({}, "serving.priority", "priority"),
    ],
)
def test_names_of_fields_in_errors(fields: dict[str, Any], path: str, name: str) -> None:
    """Errors of the service name the fields of the body."""
    assert generate(prompt="hi", **fields).caller_name(path) == name


def test_models_names_lack_the_default_tag() -> None:
    """The tag `latest` is removed, and the answer has the name of the request."""
    parsed = OllamaChatTranslator().parse(http(model="m:latest"))
    assert parsed.request == model_pb2.KeepModelRequest(model="m")
    answer = json.loads(parsed.encoder.whole(model_pb2.KeepModelResponse()))
    assert (answer["model"], answer["done_reason"]) == ("m:latest", "load")
    assert OllamaChatTranslator().parse(http(model="m:b", messages=[USER])).request.model == "m:b"
    asleep = model_pb2.KeepModelResponse(model=model_pb2.Model(name="m", is_asleep=True))
    encoder = LoadEncoder("m", chat_fields, model_pb2.KeepModelRequest())
    assert violation(lambda: encoder.whole(asleep)) == (Reason.MODEL_ASLEEP, None)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (300, 300), (0, 0), (-1, -1), (1.5, 1.5), (1e12, -1), ("5m", 300), ("1h30m", 5400), ("0", 0), ("300ms", 0.3),
        ("-1m", -1), ("+2.5s", 2.5), ("9000h", -1),
    ],
)  # fmt: skip
def test_keep_alive_is_a_number_or_a_duration(given: float | str, seconds: float) -> None:
    """It is the same for each kind of request, with and without something to answer."""
    requests: list[Any] = [
        chat(keep_alive=given).request,
        generate(prompt="a", raw=True, keep_alive=given).request,
        OllamaEmbedTranslator().parse(http(input="a", keep_alive=given)).request,
        OllamaEmbeddingTranslator().parse(http(prompt="a", keep_alive=given)).request,
    ]
    for request in requests:
        assert request.serving.keep_alive_seconds == pytest.approx(seconds)
    for empty in (OllamaChatTranslator(), OllamaGenerateTranslator(), OllamaEmbedTranslator()):
        load = empty.parse(http(keep_alive=given)).request
        assert isinstance(load, model_pb2.KeepModelRequest)
        assert load.keep_alive_seconds == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1d", "1h30", "--1s", "1e3s", "NaN", "\u0663m"])
def test_a_text_that_is_no_duration_is_rejected(text: str) -> None:
    assert violation(lambda: chat(keep_alive=text))[1] == "keep_alive"
    assert violation(lambda: generate(keep_alive=text))[1] == "keep_alive"

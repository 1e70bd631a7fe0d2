"""Ollama's dialect: what its requests ask for, and how its answers, streams, models and errors look."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from sluice.v1 import chat_pb2, completion_pb2, content_pb2, embedding_pb2, model_pb2, serving_pb2

from gateway.dialects.ollama.chat import OllamaChatTranslator
from gateway.dialects.ollama.embedding import OllamaEmbeddingTranslator, OllamaEmbedTranslator
from gateway.dialects.ollama.encoder import LoadEncoder, OllamaChatEncoder
from gateway.dialects.ollama.generate import OllamaGenerateTranslator
from gateway.dialects.ollama.line import chat_fields
from gateway.dialects.ollama.model import parse_show, to_ps, to_show, to_tags
from gateway.dialects.seam.encoder import StreamFormat
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest
from tests.gateway import golden_answers

USER: Any = {"role": "user", "content": "hi"}


def http(**fields: Any) -> HttpRequest:
    """Return a request whose body has these fields."""
    return HttpRequest(json.dumps({"model": "m", **fields}).encode())


def chat(*messages: Any, **fields: Any) -> ParsedRequest[Any]:
    """Return the parsed chat with these messages."""
    return OllamaChatTranslator().parse(http(messages=list(messages or (USER,)), **fields))


def generate(**fields: Any) -> ParsedRequest[Any]:
    """Return the parsed generation."""
    return OllamaGenerateTranslator().parse(http(**fields))


def violation(call: Any) -> tuple[Reason, str | None]:
    """Return the reason and the field with which a call fails."""
    with pytest.raises(Failure) as caught:
        call()
    return caught.value.reason, caught.value.field


def test_results_belong_to_calls_without_ids() -> None:
    """A result belongs to the call with its id, else to the first open call of its tool, else to the first one."""
    calls: list[dict[str, Any]] = [{"function": {"name": name, "arguments": {"x": 1}}} for name in ("f", "g", "h")]
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


@pytest.mark.parametrize("text", ["", "5", "m", "5 m", "1d", "1h30", "--1s", "1e3s", "NaN"])
def test_a_text_that_is_no_duration_is_rejected(text: str) -> None:
    assert violation(lambda: chat(keep_alive=text))[1] == "keep_alive"
    assert violation(lambda: generate(keep_alive=text))[1] == "keep_alive"


def test_an_unload_is_reported_only_if_there_will_be_one() -> None:
    """A service that keeps its models in memory, or pins this one, answers `load`."""
    parsed = OllamaGenerateTranslator().parse(http(keep_alive=0))
    expires = model_pb2.Model(state=model_pb2.MODEL_STATE_LOADED, expire_time=Timestamp(seconds=1_790_000_000))
    models = {
        "load": model_pb2.Model(state=model_pb2.MODEL_STATE_LOADED),
        "unload": model_pb2.Model(state=model_pb2.MODEL_STATE_UNLOADED),
    }
    for reason, model in [*models.items(), ("unload", expires)]:
        answer = json.loads(parsed.encoder.whole(model_pb2.KeepModelResponse(model=model)))
        assert (answer["done"], answer["done_reason"], answer["response"]) == (True, reason, "")
    assert [each["expires_at"] for each in json.loads(to_ps([models["load"], expires]))["models"]] == [
        "2318-01-01T00:00:00Z", "2026-09-21T14:13:20.000000Z",
    ]  # fmt: skip


def test_stream_adds_up_to_the_whole_answer() -> None:
    """Text, thinking, calls and logprobs of the lines are those of the whole answer; the last lines are equal."""
    for feature in ("reasoning", "tools", "logprobs"):
        events, (whole,) = golden_answers.timed(golden_answers.CHATS[feature]).values()
        encoder = OllamaChatEncoder("")
        lines = [json.loads(line) for event in events for line in encoder.chunk(event).splitlines()]  # type: ignore[arg-type]
        answer = json.loads(OllamaChatEncoder("").whole(whole))  # type: ignore[arg-type]
        messages = [line["message"] for line in lines]
        assert "".join(each["content"] for each in messages) == answer["message"]["content"]
        assert "".join(each.get("thinking", "") for each in messages) == answer["message"].get("thinking", "")
        assert [call for each in messages for call in each.get("tool_calls", ())] == answer["message"].get(
            "tool_calls", []
        )
        assert [token for line in lines for token in line.get("logprobs", ())] == answer.get("logprobs", [])
        rest = {name: value for name, value in answer.items() if name not in {"message", "logprobs"}}
        assert {name: value for name, value in lines[-1].items() if name != "message"} == rest
        assert answer["total_duration"] == sum(
            answer[name] for name in ("load_duration", "prompt_eval_duration", "eval_duration")
        )


def test_truncated_arguments_are_wrapped() -> None:
    """Arguments that are not a JSON object, as a call has them that was cut off, are the only value of one."""
    encoder = OllamaChatEncoder("m")
    call = chat_pb2.ToolCallDelta(id="1", name="f", arguments='{"x": ')
    encoder.chunk(chat_pb2.StreamChatResponse(tool_call_delta=call))
    finished = chat_pb2.ChoiceFinished(finish_reason=chat_pb2.FINISH_REASON_LENGTH)
    line = json.loads(encoder.chunk(chat_pb2.StreamChatResponse(choice_finished=finished)))
    assert line["message"]["tool_calls"][0]["function"]["arguments"] == {"INVALID_JSON": '{"x": '}


def test_ping_is_a_line_with_an_empty_piece() -> None:
    """A client that reads lines needs no rule for pings."""
    assert json.loads(OllamaChatEncoder("m").ping) == {
        "model": "m", "message": {"role": "assistant", "content": ""}, "done": False,
    }  # fmt: skip


def test_vectors() -> None:
    """Vectors have the time since the request was parsed; without texts there are none."""
    ticks = iter((100, 350))
    parsed = OllamaEmbedTranslator(lambda: next(ticks)).parse(http(input=["a", "b"], dimensions=2, priority=3))
    assert [each.text for each in parsed.request.inputs] == ["a", "b"]  # type: ignore[union-attr]
    assert parsed.caller_name("inputs[1].text") == "input.1"
    answer = json.loads(parsed.encoder.whole(golden_answers.VECTORS["Embed"][0]))
    assert (answer["total_duration"], answer["prompt_eval_count"], len(answer["embeddings"])) == (250, 7, 2)
    nothing: list[Any] = ["", []]
    for empty in nothing:
        parsed = OllamaEmbedTranslator().parse(http(input=empty))
        assert json.loads(parsed.encoder.whole(model_pb2.KeepModelResponse())) == {"model": "m", "embeddings": []}
    older = OllamaEmbeddingTranslator().parse(http(prompt="a"))
    assert isinstance(older.request, embedding_pb2.EmbedRequest)
    assert json.loads(older.encoder.whole(golden_answers.VECTORS["Embed"][0])) == {"embedding": [0.5, -0.25]}
    assert OllamaEmbedTranslator().parse(http(input="a")).caller_name("inputs[0].text") == "input"


def test_models() -> None:
    """Sizes and details follow from the model; those that sleep are not in memory."""
    model = model_pb2.Model(
        name="org/qwen", architecture="Qwen3ForCausalLM", num_parameters=7_616_000_000, dtype="int8",
        max_model_len=4096, tasks=[model_pb2.TASK_CHAT], supports_tools=True, supports_reasoning=True,
        input_modalities=[model_pb2.MODALITY_TEXT, model_pb2.MODALITY_IMAGE],
    )  # fmt: skip
    encoder = model_pb2.Model(
        name="e:small", architecture="BertModel", embedding_dimensions=384, tasks=[model_pb2.TASK_EMBEDDING],
        num_parameters=500, dtype="float32", is_asleep=True,
    )  # fmt: skip
    listed = json.loads(to_tags([model, encoder]))["models"]
    assert [each["name"] for each in listed] == ["org/qwen:latest", "e:small"]
    assert [each["size"] for each in listed] == [7_616_000_000, 2000]
    assert listed[0]["details"] | {"format": ""} == {
        "parent_model": "", "format": "", "family": "qwen3", "families": ["qwen3"], "parameter_size": "7.6B",
        "quantization_level": "Q8_0",
    }  # fmt: skip
    assert listed[1]["details"]["parameter_size"] == "500"
    unloaded = model_pb2.Model(name="u", state=model_pb2.MODEL_STATE_UNLOADED)
    assert [each["name"] for each in json.loads(to_ps([model, encoder, unloaded]))["models"]] == ["org/qwen:latest"]
    shown = json.loads(to_show(model_pb2.GetModelResponse(model=model)))
    assert shown["model_info"]["qwen3.context_length"] == 4096
    assert shown["capabilities"] == ["completion", "tools", "thinking", "vision"]
    shown = json.loads(to_show(model_pb2.GetModelResponse(model=encoder)))
    assert (shown["capabilities"], shown["model_info"]["bert.embedding_length"]) == (["embedding"], 384)
    assert parse_show(HttpRequest(b'{"name": "m:latest"}')).request.model == "m"
    assert violation(lambda: parse_show(HttpRequest(b"{}"))) == (Reason.MISSING_FIELD, "model")


def test_errors_have_ollamas_statuses() -> None:
    """A full queue is 503; a failed stream ends with a line."""
    full = Failure(Reason.QUEUE_FULL, "the queue is full")
    response = OllamaChatTranslator().error_response(full)
    assert (response.status, json.loads(response.body)) == (503, {"error": "the queue is full"})
    assert OllamaChatTranslator().error_response(Failure(Reason.RATE_LIMITED, "")).status == 429
    assert OllamaChatEncoder("m").error(full) == b'{"error":"the queue is full"}\n'

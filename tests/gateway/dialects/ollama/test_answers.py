"""Ollama's dialect: how its answers, streams, models and errors look."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from sluice.v1 import chat_pb2, embedding_pb2, model_pb2

from gateway.dialects.ollama.chat import OllamaChatTranslator
from gateway.dialects.ollama.embedding import OllamaEmbeddingTranslator, OllamaEmbedTranslator
from gateway.dialects.ollama.encoder import OllamaChatEncoder
from gateway.dialects.ollama.generate import OllamaGenerateTranslator
from gateway.dialects.ollama.model import parse_show, to_ps, to_show, to_tags
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from tests.gateway import golden_answers
from tests.gateway.dialects.ollama.ollama_requests import http, violation


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


def test_the_wait_for_a_load_is_part_of_the_durations() -> None:
    """`load_duration` is the time until the model was in memory and a slot was free."""
    _, (whole,) = golden_answers.timed(golden_answers.CHATS["reasoning"]).values()
    before = json.loads(OllamaChatEncoder("").whole(whole))  # type: ignore[arg-type]
    whole.timings.load_wait.FromSeconds(3)  # type: ignore[union-attr]
    after = json.loads(OllamaChatEncoder("").whole(whole))  # type: ignore[arg-type]
    changed = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert changed == {"total_duration": 3_000_000_000, "load_duration": 3_000_000_000}


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

"""Databricks' requests become the contract's messages, depending on their path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sluice.v1 import chat_pb2, completion_pb2, embedding_pb2, prompt_pb2, serving_pb2

from gateway.dialects.databricks.error import DatabricksErrors, DatabricksStream
from gateway.dialects.openai_family.chat.encoder import ChatEncoder
from gateway.dialects.seam.failure import Failure, Reason, Violation
from tests.gateway.dialects.databricks_requests import CHAT, INPUT, PROMPT, at_base, invoke, tool

STOP = chat_pb2.FINISH_REASON_STOP


def test_unstreamed_chat_has_the_documented_object_name() -> None:
    """A whole chat answer is a `chat.completions` as documented, and OpenAI's object on the base path."""
    for call, name in ((invoke(CHAT), "chat.completions"), (at_base({**CHAT, "model": "m"}), "chat.completion")):
        assert isinstance(call.encoder, ChatEncoder)
        assert json.loads(call.encoder.whole(chat_pb2.ChatResponse()))["object"] == name


def test_chat_limits() -> None:
    """32 functions with 15 parameters each are accepted; one more of either is rejected with its path."""
    assert invoke({**CHAT, "tools": [tool(15)] * 32})
    with pytest.raises(Failure, match="32") as caught:
        invoke({**CHAT, "tools": [tool()] * 33})
    assert caught.value.field == "tools"
    with pytest.raises(Failure, match="15") as caught:
        invoke({**CHAT, "tools": [tool(), tool(16)]})
    assert caught.value.field == "tools.1.function.parameters.properties"


@pytest.mark.parametrize("parameters", [None, {}, [], "x", {"properties": None}, {"properties": []}])
def test_parameters_without_properties(parameters: Any) -> None:
    """A schema without properties is within the limit; the service checks whether it is valid."""
    function = {"name": "f", "parameters": parameters}
    assert invoke({**CHAT, "tools": [{"type": "function", "function": function}]})


def test_cache_control() -> None:
    """Cache marks have no effect wherever they are."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "1"},
    ]
    plain = invoke({"messages": messages, "tools": [tool(1)]}).request
    mark = {"cache_control": {"type": "ephemeral"}}
    messages[0]["content"][0] |= mark
    messages[1]["tool_calls"][0] = call | mark
    assert invoke({"messages": messages, "tools": [tool(1) | mark]}).request == plain


@pytest.mark.parametrize("body", [CHAT, PROMPT, INPUT])
def test_fields_of_the_sdk(body: dict[str, Any]) -> None:
    """Fields that its SDK sends are accepted without effect; parameters in a separate map are rejected."""
    recorded = {"client_request_id": "a", "usage_context": {"b": "c"}, "user": "d", "extra_params": {}}
    assert invoke(body | recorded).request == invoke(body).request
    with pytest.raises(Failure) as caught:
        invoke({**body, "extra_params": {"top_k": "5"}})
    assert (caught.value.field, caught.value.reason) == ("extra_params", Reason.UNSUPPORTED_FIELD)


def test_completion() -> None:
    """A completion has its own fields with their documented defaults."""
    plain = completion_pb2.CompleteRequest(model="m", prompts=[prompt_pb2.Prompt(text="hi")], use_raw_prompt=False)
    assert invoke(PROMPT).request == plain
    assert invoke({**PROMPT, "error_behavior": "error"}).request == completion_pb2.CompleteRequest(
        model="m",
        prompts=[prompt_pb2.Prompt(text="hi")],
        use_raw_prompt=False,
        serving=serving_pb2.ServingOptions(error_behavior=serving_pb2.ERROR_BEHAVIOR_ERROR),
    )
    body = {
        "prompt": ["a", "b"], "max_tokens": 5, "temperature": 0, "top_p": 0.5, "top_k": 3, "error_behavior": "truncate",
        "n": 2, "stop": "x", "suffix": "!", "echo": True, "use_raw_prompt": True,
    }  # fmt: skip
    request = invoke(body).request
    assert isinstance(request, completion_pb2.CompleteRequest)
    assert [each.text for each in request.prompts] == ["a", "b"]
    assert (request.n, request.suffix, request.echo, request.use_raw_prompt) == (2, "!", True, True)
    assert (request.stopping.max_tokens, list(request.stopping.stop)) == (5, ["x"])
    assert (request.sampling.temperature, request.sampling.top_p, request.sampling.top_k) == (0, 0.5, 3)
    assert request.serving.error_behavior == serving_pb2.ERROR_BEHAVIOR_TRUNCATE


@pytest.mark.parametrize(("call", "indexes"), [(invoke, [0, 0, 1, 1]), (at_base, [0, 1, 2, 3])])
def test_completion_index(call: Any, indexes: list[int]) -> None:
    """A choice's index is its prompt's in invocations, and the choice's own on the base path."""
    choices = [completion_pb2.CompletionChoice(index=i, prompt_index=i // 2, finish_reason=STOP) for i in range(4)]
    encoder = call({"prompt": ["a", "b"], "n": 2, "model": "m"}).encoder
    whole = json.loads(encoder.whole(completion_pb2.CompleteResponse(choices=choices)))
    assert [choice["index"] for choice in whole["choices"]] == indexes


def test_embedding() -> None:
    """The instruction is sent to the service; base64 is for OpenAI's clients."""
    request = embedding_pb2.EmbedRequest(
        model="m", inputs=[prompt_pb2.Prompt(text="a"), prompt_pb2.Prompt(text="b")], instruction="Find: "
    )
    call = invoke({"input": ["a", "b"], "instruction": "Find: "})
    assert (call.request, call.stream) == (request, False)
    response = embedding_pb2.EmbedResponse(embeddings=[embedding_pb2.Embedding(index=0, values=[1, 0.5])])
    assert json.loads(call.encoder.whole(response))["data"][0]["embedding"] == [1.0, 0.5]
    coded = at_base({**INPUT, "model": "m", "encoding_format": "base64"})
    assert isinstance(json.loads(coded.encoder.whole(response))["data"][0]["embedding"], str)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure.of_field("top_k", "must be at least 1"), "INVALID_PARAMETER_VALUE"),
        (Failure(Reason.MALFORMED_JSON, "no"), "BAD_REQUEST"),
        (Failure(Reason.UNAUTHENTICATED, "no"), "UNAUTHENTICATED"),
        (Failure(Reason.PERMISSION_DENIED, "no"), "PERMISSION_DENIED"),
        (Failure(Reason.MODEL_NOT_FOUND, "no"), "RESOURCE_DOES_NOT_EXIST"),
        (Failure(Reason.ROUTE_NOT_FOUND, "no"), "ENDPOINT_NOT_FOUND"),
        (Failure(Reason.METHOD_NOT_ALLOWED, "no"), "METHOD_NOT_ALLOWED"),
        (Failure(Reason.BODY_TOO_LARGE, "no"), "BAD_REQUEST"),
        (Failure(Reason.QUEUE_FULL, "no"), "REQUEST_LIMIT_EXCEEDED"),
        (Failure(Reason.INTERNAL, "no"), "INTERNAL_ERROR"),
        (Failure(Reason.UNIMPLEMENTED, "no"), "NOT_IMPLEMENTED"),
        (Failure(Reason.DRAINING, "no"), "TEMPORARILY_UNAVAILABLE"),
        (Failure(Reason.DEADLINE_EXCEEDED, "no"), "DEADLINE_EXCEEDED"),
    ],
)
def test_error_codes(failure: Failure, code: str) -> None:
    """Each failure has the code that its SDK maps to an exception; a stream's last event has it twice."""
    rejection = DatabricksErrors().error_response(failure)
    assert rejection.status == failure.status
    body = json.loads(rejection.body)
    assert body == {"error_code": code, "message": failure.message}
    event = json.loads(DatabricksStream().error(failure).removeprefix(b"data: "))
    assert event == body | {"error": {"code": code, "message": failure.message}}


def test_caller_names() -> None:
    """The contract's field names are mapped to the caller's for each task."""
    assert invoke(CHAT).caller_name("messages[0].content[0].text") == "messages.0.content"
    assert invoke({**PROMPT, "stop": "a"}).caller_name("stopping.stop[0]") == "stop"
    assert invoke(PROMPT).caller_name("serving.error_behavior") == "error_behavior"
    assert invoke(PROMPT).caller_name("prompts[0].text") == "prompt"
    assert invoke({"input": ["a", "b"]}).caller_name("inputs[1].text") == "input.1"
    violation = Violation("sampling.top_k", "x")
    failure = Failure(Reason.INVALID_FIELD, "", violations=[violation]).renamed(invoke(CHAT).caller_name)
    assert failure.field == "top_k"


@pytest.mark.parametrize("body", [CHAT, {"input": "hi", "max_output_tokens": 5}])
def test_effort_is_medium_by_default(body: dict[str, Any]) -> None:
    """The default is separate from the request's effort, since the model's settings take precedence over it."""
    unset: list[dict[str, Any]] = [{}, {"reasoning_effort": None} if body is CHAT else {"reasoning": {}}]
    for given in unset:
        request: Any = invoke(body | given).request
        assert request.default_reasoning_effort == chat_pb2.REASONING_EFFORT_MEDIUM
        assert request.reasoning_effort == chat_pb2.REASONING_EFFORT_UNSPECIFIED


def test_chat_answer_has_the_effective_effort() -> None:
    """Whole and streamed answers have the effective effort; without reasoning they have none."""
    effort = chat_pb2.REASONING_EFFORT_MEDIUM
    encoder = invoke(CHAT).encoder
    assert json.loads(encoder.whole(chat_pb2.ChatResponse(reasoning_effort=effort)))["reasoning_effort"] == "medium"
    assert "reasoning_effort" not in json.loads(encoder.whole(chat_pb2.ChatResponse()))
    encoder.chunk(chat_pb2.StreamChatResponse(started={"reasoning_effort": effort}))
    chunk = encoder.chunk(chat_pb2.StreamChatResponse(content_delta={"text": "a"}))
    assert b'"reasoning_effort":"medium"' in chunk

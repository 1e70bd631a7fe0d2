"""Databricks' requests become the contract's messages, depending on their path."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sluice.v1 import chat_pb2, completion_pb2, embedding_pb2, prompt_pb2, response_pb2, serving_pb2

from gateway.dialects.databricks.chat import DatabricksChatTranslator
from gateway.dialects.databricks.completion import DatabricksCompletionTranslator
from gateway.dialects.databricks.embedding import DatabricksEmbeddingTranslator
from gateway.dialects.databricks.error import DatabricksErrors, DatabricksStream
from gateway.dialects.databricks.invocation import InvocationTranslator
from gateway.dialects.openai_family.chat.encoder import ChatEncoder
from gateway.dialects.seam.failure import Failure, Reason, Violation
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest, ServiceRequest

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
PROMPT = {"prompt": "hi"}
INPUT = {"input": "hi"}
STOP = chat_pb2.FINISH_REASON_STOP


def invoke(body: dict[str, Any], accept: str | None = None) -> ParsedRequest[ServiceRequest]:
    """Return the call for a body sent to the endpoint `m`."""
    headers = {} if accept is None else {"accept": accept}
    return InvocationTranslator().parse(HttpRequest(json.dumps(body).encode(), headers, {"name": "m"}))


def at_base(body: dict[str, Any], accept: str = "*/*") -> ParsedRequest[ServiceRequest]:
    """Return the call for a body sent to the base path of its task."""
    translator = (
        DatabricksChatTranslator if "messages" in body
        else DatabricksCompletionTranslator if "prompt" in body
        else DatabricksEmbeddingTranslator
    )  # fmt: skip
    return translator().parse(HttpRequest(json.dumps(body).encode(), {"accept": accept}))


def tool(num_properties: int = 0) -> dict[str, Any]:
    """Return a function with this number of parameters."""
    properties = {f"p{i}": {"type": "string"} for i in range(num_properties)}
    return {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": properties}}}


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (CHAT, chat_pb2.ChatRequest),
        (PROMPT, completion_pb2.CompleteRequest),
        (INPUT, embedding_pb2.EmbedRequest),
        ({"input": ["a", "b"], "instruction": "q"}, embedding_pb2.EmbedRequest),
        ({"input": "hi", "max_output_tokens": 5}, response_pb2.CreateResponseRequest),
        ({"input": "hi", "stream": False}, response_pb2.CreateResponseRequest),
        ({"input": [{"role": "user", "content": "hi"}]}, response_pb2.CreateResponseRequest),
    ],
)
def test_body_decides_the_task(body: dict[str, Any], kind: type) -> None:
    """The fields of the body select the task; the path selects the endpoint."""
    request = invoke(body).request
    assert type(request) is kind
    assert request.model == "m"


@pytest.mark.parametrize("body", [{}, {"messages": None}, {"inputs": ["a"]}, {"dataframe_split": {"columns": []}}])
def test_no_task(body: dict[str, Any]) -> None:
    """The error for a body without a task lists the fields that select one."""
    with pytest.raises(Failure) as caught:
        invoke(body)
    assert caught.value.status == 400
    assert all(field in caught.value.message for field in ("messages", "prompt", "input"))


@pytest.mark.parametrize("field", ["messages", "prompt", "input"])
def test_unpaired_surrogate_is_malformed_json(field: str) -> None:
    """An unpaired surrogate is malformed JSON, also before the task is known."""
    with pytest.raises(Failure, match="surrogate") as caught:
        InvocationTranslator().parse(HttpRequest(b'{"%b": "\\ud800"}' % field.encode(), {}, {"name": "m"}))
    assert caught.value.reason is Reason.MALFORMED_JSON


def test_two_tasks() -> None:
    """A body with the fields of two tasks is rejected."""
    with pytest.raises(Failure, match="messages and prompt"):
        invoke(CHAT | PROMPT)


@pytest.mark.parametrize("body", [CHAT, PROMPT])
@pytest.mark.parametrize(
    ("stream", "accept", "invoked", "based"),
    [
        (None, None, True, False),
        (None, "*/*", True, False),
        (None, "", True, False),
        (None, "text/event-stream", True, False),
        (None, "application/json, text/event-stream;q=0.9", True, False),
        (None, "application/json", False, False),
        (None, "Application/JSON; charset=utf-8, */*", False, False),
        (True, "application/json", True, True),
        (False, "text/event-stream", False, False),
    ],
)
def test_stream_default(
    body: dict[str, Any], accept: str | None, *, stream: bool | None, invoked: bool, based: bool
) -> None:
    """The body's `stream` decides first; for invocations, then the `Accept` header; the default is true."""
    body = body | {"stream": stream}
    assert invoke(body, accept).stream == invoked
    assert at_base({**body, "model": "m"}, accept or "*/*").stream == based


SDK = "unknown/0.0.0 databricks-sdk-py/0.156.0 python/3.11.7 os/linux auth/pat"


@pytest.mark.parametrize("body", [CHAT, PROMPT])
@pytest.mark.parametrize(
    ("headers", "stream"),
    [
        ({"user-agent": SDK, "accept": "application/json"}, False),  # the SDK's own query
        ({"user-agent": SDK, "x-mlflow-client-version": "3.17.2",
          "x-databricks-endpoints-api-client": "Databricks Deployment Client"}, False),  # mlflow's predict
        ({"user-agent": "mlflow-python-client/2.9.0"}, False),  # an older one
        ({"user-agent": "databricks-sdk-java/0.30.0"}, False),
        ({"user-agent": SDK, "accept": "text/event-stream"}, True),
        ({"user-agent": "curl/8.5.0"}, True),
        ({"user-agent": "python-requests/2.32.3"}, True),
    ],
)  # fmt: skip
def test_clients_that_read_only_json_get_no_stream(
    body: dict[str, Any], headers: dict[str, str], *, stream: bool
) -> None:
    """Clients that accept anything, but read a stream only on request, are recognised by their headers."""
    headers = {"accept": "*/*", **headers}
    sent = HttpRequest(json.dumps(body).encode(), headers, {"name": "m"})
    assert InvocationTranslator().parse(sent).stream == stream
    asked = HttpRequest(json.dumps(body | {"stream": True}).encode(), headers, {"name": "m"})
    assert InvocationTranslator().parse(asked).stream


def test_whole_object() -> None:
    """A whole chat answer is a `chat.completions` as documented, and OpenAI's object on the base path."""
    for call, name in ((invoke(CHAT), "chat.completions"), (at_base({**CHAT, "model": "m"}), "chat.completion")):
        assert isinstance(call.encoder, ChatEncoder)
        assert json.loads(call.encoder.whole(chat_pb2.ChatResponse()))["object"] == name


def test_model() -> None:
    """The base path may omit `model`; if the path names the endpoint, another name in the body is an error."""
    assert at_base({**CHAT, "model": "b"}).request.model == "b"
    assert at_base(CHAT).request.model == ""
    assert invoke({**CHAT, "model": "m"}).request.model == "m"
    with pytest.raises(Failure) as caught:
        invoke({**CHAT, "model": "b"})
    assert caught.value.field == "model"


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


@pytest.mark.parametrize(("stream", "streams"), [(None, False), (True, True)])
def test_invoked_response_streams_only_on_request(*, stream: bool | None, streams: bool) -> None:
    """An invoked response streams only on request, as the API documents it."""
    assert invoke({"input": "hi", "max_output_tokens": 5, "stream": stream}, "*/*").stream == streams


def test_invoked_response_uses_the_endpoint_in_the_path() -> None:
    """Another endpoint name in the body is an error; the limits are those of all Databricks paths."""
    body = {"input": "hi", "max_output_tokens": 5}
    assert invoke({**body, "model": "m"}).request.model == "m"
    with pytest.raises(Failure) as caught:
        invoke({**body, "model": "b"})
    assert caught.value.field == "model"
    with pytest.raises(Failure, match="32"):
        invoke({**body, "tools": [tool()] * 33})


def test_plain_input_for_a_chat_model_suggests_the_responses_path() -> None:
    """The error suggests the path for responses, if there is one, since a plain input may be meant for it."""
    failure = Failure.of_field("model", "it makes no vectors", Reason.UNSUPPORTED_TASK)
    translator = InvocationTranslator()
    translator.parse(HttpRequest(b'{"input": "hi"}', {}, {"name": "m"}))
    assert json.loads(translator.error_response(failure).body)["message"].endswith("use /serving-endpoints/responses")
    other = InvocationTranslator()
    other.parse(HttpRequest(json.dumps(CHAT).encode(), {}, {"name": "m"}))
    assert "responses" not in json.loads(other.error_response(failure).body)["message"]


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

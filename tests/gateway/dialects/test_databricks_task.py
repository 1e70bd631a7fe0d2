"""The task of a request in Databricks' dialect, and whether its answer is streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sluice.v1 import chat_pb2, completion_pb2, embedding_pb2, response_pb2

from gateway.dialects.databricks.invocation import InvocationTranslator
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from tests.gateway.dialects.databricks_requests import CHAT, INPUT, PROMPT, at_base, invoke, tool


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
def test_body_decides_the_task(body: dict[str, Any], kind: type[Any]) -> None:
    """The fields of the body select the task; the path selects the endpoint."""
    request = invoke(body).request
    assert isinstance(request, kind)
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
    request = HttpRequest(json.dumps(body).encode(), headers, {"name": "m"})
    assert InvocationTranslator().parse(request).stream == stream
    streamed = HttpRequest(json.dumps(body | {"stream": True}).encode(), headers, {"name": "m"})
    assert InvocationTranslator().parse(streamed).stream


def test_model() -> None:
    """The base path may omit `model`; if the path names the endpoint, another name in the body is an error."""
    assert at_base({**CHAT, "model": "b"}).request.model == "b"
    assert at_base(CHAT).request.model == ""
    assert invoke({**CHAT, "model": "m"}).request.model == "m"
    with pytest.raises(Failure) as caught:
        invoke({**CHAT, "model": "b"})
    assert caught.value.field == "model"


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

"""No request causes a 5xx, INTERNAL or UNKNOWN: random bodies and messages, and earlier findings.

`make fuzz` tries many more. Requests that once caused a failure are stored in `corpus/` and tried every time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sluice.v1 import (
    chat_pb2,
    completion_pb2,
    embedding_pb2,
    endpoint_pb2,
    model_pb2,
    rank_pb2,
    response_pb2,
    text_generation_pb2,
    token_pb2,
    watermark_pb2,
)

from gateway.routes.dialects.surfaces import SURFACES
from gateway.routes.handling.handler import Generation, Inquiry
from tests.e2e.random_messages import messages
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

NUM_EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "12"))
CORPUS = Path(__file__).parent / "corpus"
FAULTS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.DATA_LOSS}
RPCS: dict[str, type[Message]] = {
    "ChatService/Chat": chat_pb2.ChatRequest,
    "ChatService/StreamChat": chat_pb2.ChatRequest,
    "CompletionService/Complete": completion_pb2.CompleteRequest,
    "ResponseService/CreateResponse": response_pb2.CreateResponseRequest,
    "TextGenerationService/GenerateText": text_generation_pb2.GenerateTextRequest,
    "EmbeddingService/Embed": embedding_pb2.EmbedRequest,
    "RankService/Rank": rank_pb2.RankRequest,
    "RankService/Score": rank_pb2.ScoreRequest,
    "TokenService/TokenizeText": token_pb2.TokenizeTextRequest,
    "TokenService/DetokenizeText": token_pb2.DetokenizeTextRequest,
    "TokenService/CountTokens": token_pb2.CountTokensRequest,
    "WatermarkService/DetectWatermark": watermark_pb2.DetectWatermarkRequest,
    "ModelService/GetModel": model_pb2.GetModelRequest,
    "EndpointService/GetEndpoint": endpoint_pb2.GetEndpointRequest,
}
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "hi", "auto", "sluice-demo", "\ud83d\ude00", "\0", "{", "json_schema"])
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
quietly = settings(
    max_examples=NUM_EXAMPLES,
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
BODIES = [
    (operation, body)
    for surface in SURFACES
    for operation in surface.operations
    if isinstance(operation.handler, Generation | Inquiry)
    for body in operation.bodies
]


def code_of(stack: Stack, rpc: str, message: Message) -> tuple[grpc.StatusCode, str]:
    """Return the status and details of a call through Envoy."""
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
        call: Any = channel.unary_stream(f"/sluice.v1.{rpc}", request_serializer=lambda each: each.SerializeToString())
        answer = call(message, timeout=GUARD_S)
        try:
            for _ in answer:
                pass
        except grpc.RpcError:
            pass
        return answer.code(), answer.details()


def shortened(message: Any) -> Message:
    """Return the message with a small token limit."""
    if "stopping" in message.DESCRIPTOR.fields_by_name:
        message.stopping.max_tokens = min(message.stopping.max_tokens or 3, 3)
    if "max_output_tokens" in message.DESCRIPTOR.fields_by_name:
        message.max_output_tokens = 16
    result: Message = message
    return result


@pytest.mark.parametrize("rpc", RPCS)
def test_random_messages_cause_no_server_error(stack: Stack, rpc: str) -> None:
    @quietly
    @given(messages(RPCS[rpc]))
    def try_one(message: Message) -> None:
        code, details = code_of(stack, rpc, shortened(message))
        assert code not in FAULTS, (details, json_format.MessageToJson(message))

    try_one()


@pytest.mark.parametrize("rpc", ["ChatService/Chat", "EmbeddingService/Embed"])
def test_random_bytes_cause_no_server_error(stack: Stack, rpc: str) -> None:
    """Invalid bytes are rejected with INVALID_ARGUMENT, and the next call is served."""

    @quietly
    @given(st.binary(max_size=60))
    def try_one(data: bytes) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{stack.ports['envoy']}") as channel:
            method: Any = channel.unary_unary(f"/sluice.v1.{rpc}")
            call = method.future(data, timeout=GUARD_S)
            assert call.exception() is not None
            assert call.code() is grpc.StatusCode.INVALID_ARGUMENT, call.details()

    try_one()
    request = chat_pb2.ChatRequest(model="sluice-demo", messages=[{"role": "ROLE_USER", "content": [{"text": "hi"}]}])
    assert code_of(stack, "ChatService/Chat", shortened(request))[0] is grpc.StatusCode.OK


def changed(draw: Callable[[Any], Any], value: Any) -> Any:
    """Return a JSON value with one part replaced, removed or added."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        what = draw(st.integers(0, 5))
        if what == 0:
            return {name: inner for name, inner in value.items() if name != key}
        if what == 1:
            return value | {draw(st.text(max_size=5)): draw(JSON_VALUES)}
        return value | {key: changed(draw, value[key])}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        index = draw(st.integers(0, len(value) - 1))
        return [*value[:index], changed(draw, value[index]), *value[index + 1 :]]
    return draw(JSON_VALUES)


def post(stack: Stack, path: str, data: bytes) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return httpx.post(stack.url + path, content=data, headers=headers, timeout=GUARD_S)


@pytest.mark.parametrize("case", BODIES, ids=[f"{operation.id}-{body.kind.__name__}" for operation, body in BODIES])
def test_changed_bodies_cause_no_server_error(stack: Stack, case: tuple[Any, Any]) -> None:
    """An operation's example with one change never causes a 5xx."""
    operation, body = case
    path = operation.path
    for each in operation.parameters:
        path = path.replace(f"{{{each.name}}}", each.example_with(body))
    query = {each.name: each.example_with(body) for each in operation.parameters if each.location == "query"}

    @quietly
    @given(st.data())
    def try_one(data: st.DataObject) -> None:
        given_body = changed(data.draw, dict(body.example))
        answer = post(stack, str(httpx.URL(path, params=query)), json.dumps(given_body).encode())
        assert answer.status_code < 500, (answer.text, given_body)

    try_one()


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.json")), ids=lambda file: file.stem)
def test_corpus_of_earlier_failures_is_rejected(stack: Stack, file: Path) -> None:
    """Each file contains a path and a body, or an RPC and a message in protobuf's JSON."""
    kept = json.loads(file.read_text(encoding="utf-8"))
    if "rpc" in kept:
        message = json_format.ParseDict(kept["message"], RPCS[kept["rpc"]]())
        assert code_of(stack, kept["rpc"], message)[0] is grpc.StatusCode.INVALID_ARGUMENT
    else:
        assert 400 <= post(stack, kept["path"], kept["body"].encode()).status_code < 500

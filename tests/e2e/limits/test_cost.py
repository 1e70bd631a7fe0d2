"""The cost of a request, reported through every process of the product."""

import json
import re

import grpc
import httpx
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2

from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

MODEL = "sluice-demo"
ASKING = {"x-sluice-cost": "true"}
BODY = {"model": MODEL, "max_tokens": 8, "messages": [{"role": "user", "content": "Hello, what do you cost?"}]}
FORM = re.compile(r"compute_s=(\d+\.\d{6}), block_s=(\d+\.\d{6}), cached_tokens=(\d+)")


def test_rest_header_and_stream_comment_have_the_cost(stack: Stack) -> None:
    """A header of an unstreamed answer and the last line of a stream have the cost, and so has the access log."""
    with httpx.Client(base_url=stack.url, timeout=GUARD_S) as http:
        whole = http.post("/v1/chat/completions", json=BODY, headers=ASKING | {"x-request-id": "with-its-cost"})
        streamed = http.post("/v1/chat/completions", json=BODY | {"stream": True}, headers=ASKING)
    found = FORM.fullmatch(whole.headers["x-sluice-cost"])
    assert found is not None
    assert float(found[1]) > 0
    name, _, cost = streamed.text.strip().splitlines()[-1].removeprefix(": ").partition(": ")
    assert name == "x-sluice-cost"
    assert FORM.fullmatch(cost)
    stack.wait_for("sluice.access", "with-its-cost")
    (line,) = [each for each in stack.output.splitlines() if "sluice.access" in each and "with-its-cost" in each]
    access = json.loads(line[line.index("{") :])
    assert (access["endpoint"], access["entity"]) == (MODEL, MODEL)
    assert access["completion_tokens"] == whole.json()["usage"]["completion_tokens"]
    assert access["compute_s"] == float(found[1])


def test_grpc_trailer_has_the_cost(stack: Stack) -> None:
    """A trailer has the cost, through Envoy."""
    message = content_pb2.Message(role=content_pb2.ROLE_USER, content=[content_pb2.ContentPart(text="Hello")])
    with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
        chats = chat_pb2_grpc.ChatServiceStub(channel)
        request = chat_pb2.ChatRequest(model=MODEL, messages=[message])
        _, call = chats.Chat.with_call(request, metadata=tuple(ASKING.items()), timeout=GUARD_S)
    trailers = dict(call.trailing_metadata())
    assert FORM.fullmatch(str(trailers["x-sluice-cost"]))

"""One trace through all processes, and none where nobody asked."""

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.collector import Collector, Received
from tests.e2e.stack import Stack

CHAIN = [  # (service, span, kind), each the parent of the next
    ("sluice-envoy", None, Span.SPAN_KIND_SERVER),
    ("sluice-gateway", "POST /v1/chat/completions", Span.SPAN_KIND_SERVER),
    ("sluice-gateway", "sluice.v1.ChatService/StreamChat", Span.SPAN_KIND_CLIENT),
    ("sluice-service", "sluice.v1.ChatService/StreamChat", Span.SPAN_KIND_SERVER),
    ("sluice-service", "chat sluice-demo", Span.SPAN_KIND_INTERNAL),
]
LEAVES = {"queue", "prefill", "decode"}


@pytest.fixture(scope="module")
def spans(stack: Stack, collector: Collector) -> list[Received]:
    """The spans of one streamed chat, sent with a traceparent of our own."""
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    body = {
        "model": "sluice-demo",
        "stream": True,
        "messages": [{"role": "user", "content": "Hello! my secret word is tulip"}],
    }
    headers = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    answer = httpx.post(f"{stack.door}/v1/chat/completions", json=body, headers=headers, timeout=60)
    assert answer.status_code == 200
    return collector.trace(trace_id, num_spans=len(CHAIN) + len(LEAVES), timeout_s=30)


def test_trace_has_the_exact_parent_chain(spans: list[Received]) -> None:
    """Envoy, gateway, service and engine stand in one line under the caller's span, nothing between, nothing beside."""
    parent = "b7ad6b7169203331"
    for service, name, kind in CHAIN:
        children = [s for s in spans if s.parent_id == parent]
        assert [(s.service, s.kind) for s in children] == [(service, kind)]
        assert name in (None, children[0].name)
        parent = children[0].span_id
    assert {s.name for s in spans if s.parent_id == parent} == LEAVES
    assert len(spans) == len(CHAIN) + len(LEAVES)


def test_trace_names_the_generation(spans: list[Received]) -> None:
    """The chat span has the GenAI attributes, and no span holds the caller's words."""
    (chat,) = (s for s in spans if s.name == "chat sluice-demo")
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.request.model"] == "sluice-demo"
    assert int(str(chat.attributes["gen_ai.usage.input_tokens"])) > 0
    assert int(str(chat.attributes["gen_ai.usage.output_tokens"])) > 0
    assert not [s for s in spans if "tulip" in str(s.attributes)]


def test_log_lines_carry_the_trace(stack: Stack, spans: list[Received]) -> None:
    """Each process's log line of the request has the trace's id, and none has the prompt."""
    for process in ("envoy", "gateway", "service"):
        stack.wait_for(process, spans[0].trace_id)
    assert "tulip" not in stack.output

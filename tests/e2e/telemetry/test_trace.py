"""One trace through all processes for every kind of request."""

from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.collector import Collector, Received
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S

MODEL, EMBEDDER = "sluice-demo", "all-minilm-l6-v2"
WORD = "tulip"
PROMPT = f"Hello! my secret word is {WORD}"
MESSAGES = {"messages": [{"role": "user", "content": PROMPT}]}
CALLER = "b7ad6b7169203331"  # the client's span, the parent of each request
GENERATED = frozenset({"queue", "prefill", "decode"})
ENCODED = frozenset({"queue", "encode"})


@dataclass(frozen=True)
class Traced:
    """A request and its expected trace: the route, the RPC, the GenAI operation, and its stages."""

    path: str
    body: dict[str, Any]
    route: str
    rpc: str
    operation: str
    model: str = MODEL
    stages: frozenset[str] = GENERATED

    def chain(self) -> list[tuple[str, str | None, int]]:
        """Return (service, span, kind), each the parent of the next."""
        rpc = f"sluice.v1.{self.rpc}"
        return [
            ("sluice-envoy", None, Span.SPAN_KIND_SERVER),
            ("sluice-gateway", f"POST {self.route}", Span.SPAN_KIND_SERVER),
            ("sluice-gateway", rpc, Span.SPAN_KIND_CLIENT),
            ("sluice-service", rpc, Span.SPAN_KIND_SERVER),
            ("sluice-service", f"{self.operation} {self.model}", Span.SPAN_KIND_INTERNAL),
        ]


def traced(path: str, body: dict[str, Any], rpc: str, operation: str, **more: Any) -> Traced:
    return Traced(path, body, more.pop("route", path), rpc, operation, **more)


LOOKUP = "sluice.v1.EndpointService/ListEndpoints"  # sometimes precedes a request in Azure's dialect
STREAM = {"stream": True, "max_tokens": 8}
NAMED = STREAM | {"model": MODEL}
REQUESTS = [
    traced("/v1/chat/completions", NAMED | MESSAGES, "ChatService/StreamChat", "chat"),
    traced("/v1/chat/completions", NAMED | MESSAGES | {"stream": False}, "ChatService/Chat", "chat"),
    traced("/v1/completions", NAMED | {"prompt": PROMPT}, "CompletionService/StreamComplete", "text_completion"),
    traced(
        "/v1/responses",
        {"model": MODEL, "stream": True, "max_output_tokens": 8, "input": PROMPT},
        "ResponseService/StreamResponse",
        "chat",
    ),
    traced(
        "/v1/embeddings",
        {"model": EMBEDDER, "input": PROMPT},
        "EmbeddingService/Embed",
        "embeddings",
        model=EMBEDDER,
        stages=ENCODED,
    ),
    traced(
        f"/v2/models/{MODEL}/generate_stream",
        {"text_input": PROMPT, "parameters": {"max_new_tokens": 8}},
        "TextGenerationService/StreamGenerateText",
        "text_completion",
        route="/v2/models/{model:path}/generate_stream",
    ),
    traced(
        f"/serving-endpoints/{MODEL}/invocations",
        STREAM | MESSAGES,
        "ChatService/StreamChat",
        "chat",
        route="/serving-endpoints/{name:path}/invocations",
    ),
    traced(
        "/chat/completions?api-version=2024-05-01-preview",
        NAMED | MESSAGES,
        "ChatService/StreamChat",
        "chat",
        route="/chat/completions",
    ),
]
NAMES = [f"{each.path} {each.rpc}" for each in REQUESTS]


def trace_id(number: int) -> str:
    return f"{number + 1:032x}"


@pytest.fixture(scope="module")
def sent(stack: Stack) -> None:
    """Send all requests, each with its own traceparent. Exporters send spans every few seconds."""
    for number, expected in enumerate(REQUESTS):
        headers = {"traceparent": f"00-{trace_id(number)}-{CALLER}-01"}
        answer = httpx.post(f"{stack.url}{expected.path}", json=expected.body, headers=headers, timeout=GUARD_S)
        assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module", params=range(len(REQUESTS)), ids=NAMES)
def trace(request: pytest.FixtureRequest, sent: None, collector: Collector) -> tuple[Traced, list[Received]]:
    """A request and its spans."""
    expected = REQUESTS[request.param]
    num_spans = len(expected.chain()) + len(expected.stages)
    return expected, collector.trace(trace_id(request.param), num_spans, ignored=LOOKUP)


def test_trace_has_the_exact_parent_chain(trace: tuple[Traced, list[Received]]) -> None:
    """The spans of Envoy, gateway, service and engine are a chain below the client's span, without others."""
    expected, spans = trace
    parent = CALLER
    for service, name, kind in expected.chain():
        children = [s for s in spans if s.parent_id == parent]
        assert [(s.service, s.kind) for s in children] == [(service, kind)]
        assert name in (None, children[0].name)
        parent = children[0].span_id
    assert {s.name for s in spans if s.parent_id == parent} == expected.stages
    assert len(spans) == len(expected.chain()) + len(expected.stages)


def test_trace_names_the_operation(trace: tuple[Traced, list[Received]]) -> None:
    """The operation's span has the GenAI attributes, and no span contains the prompt."""
    expected, spans = trace
    (operation,) = (s for s in spans if s.name == f"{expected.operation} {expected.model}")
    assert operation.attributes["gen_ai.operation.name"] == expected.operation
    assert operation.attributes["gen_ai.request.model"] == expected.model
    assert int(str(operation.attributes["gen_ai.usage.input_tokens"])) > 0
    if expected.stages == GENERATED:
        assert int(str(operation.attributes["gen_ai.usage.output_tokens"])) > 0
    assert not [s for s in spans if WORD in str(s.attributes)]


def test_log_lines_carry_the_trace(stack: Stack, trace: tuple[Traced, list[Received]]) -> None:
    """Each process's log line of the request has the trace id, and none has the prompt."""
    _, spans = trace
    for process in ("envoy", "gateway", "service"):
        stack.wait_for(process, spans[0].trace_id)
    assert WORD not in stack.output

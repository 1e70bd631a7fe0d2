"""One trace through the gateway, its metrics, and its log lines."""

from __future__ import annotations

import json
import logging

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from process.logs.logs import JsonFormatter
from tests.gateway.conftest import Gateway, chat_body, until


def context_of(span: ReadableSpan) -> tuple[str, str]:
    """Return the span's trace id and span id in W3C's format."""
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


@pytest.mark.parametrize(("stream", "method"), [(False, "Chat"), (True, "StreamChat")])
async def test_spans_are_one_chain(gateway: Gateway, *, stream: bool, method: str) -> None:
    """Caller, HTTP server span, gRPC client span and the service's metadata are a chain of parents and children."""
    headers = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "x=1"}
    await gateway.http.post("/v1/chat/completions", json=chat_body(stream=stream), headers=headers)
    await until(lambda: len(gateway.spans.get_finished_spans()) == 2)
    call, request = gateway.spans.get_finished_spans()
    assert request.kind == SpanKind.SERVER
    assert request.name == "POST /v1/chat/completions"
    assert request.parent is not None
    assert (f"{request.parent.trace_id:032x}", f"{request.parent.span_id:016x}") == ("a" * 32, "b" * 16)
    assert call.kind == SpanKind.CLIENT
    assert call.name == f"sluice.v1.ChatService/{method}"
    assert call.parent == request.context
    trace_id, span_id = context_of(call)
    assert gateway.service.metadata[0]["traceparent"] == f"00-{trace_id}-{span_id}-01"
    assert gateway.service.metadata[0]["tracestate"] == "x=1"
    assert request.attributes is not None
    assert request.attributes["http.route"] == "/v1/chat/completions"
    assert request.attributes["http.response.status_code"] == 200
    assert call.attributes is not None
    assert call.attributes["rpc.system.name"] == "grpc"
    assert call.attributes["rpc.method"] == f"sluice.v1.ChatService/{method}"
    assert call.attributes["rpc.response.status_code"] == "OK"
    assert StatusCode.ERROR not in {call.status.status_code, request.status.status_code}


async def test_metrics_page(gateway: Gateway) -> None:
    """/metrics counts requests by route and status, and calls by method."""
    await gateway.chat()
    await gateway.chat(n=0.5)
    # For an invalid body, the gateway also asks the service to authenticate the client.
    await until(lambda: len(gateway.spans.get_finished_spans()) == 4)
    page = (await gateway.http.get("/metrics")).text
    lines = [line for line in page.splitlines() if line.startswith("http_server_request_duration_seconds_count")]
    assert len(lines) == 2
    assert any('http_response_status_code="200"' in line and line.endswith(" 1.0") for line in lines)
    assert any('http_response_status_code="400"' in line and line.endswith(" 1.0") for line in lines)
    assert all('http_route="/v1/chat/completions"' in line for line in lines)
    assert 'rpc_client_call_duration_seconds_count{rpc_method="sluice.v1.ChatService/Chat"' in page
    active = [line for line in page.splitlines() if line.startswith("http_server_active_requests{")]
    assert [line.rpartition(" ")[2] for line in active] == ["0.0"]
    assert "process_cpu_seconds_total" in page


async def test_log_line(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """Each request has one JSON log line with its trace and request id, but without any of its text."""
    caplog.set_level(logging.INFO)
    messages = [{"role": "user", "content": "tulip"}]
    await gateway.http.post("/v1/chat/completions", json=chat_body(messages=messages), headers={"x-request-id": "r-1"})
    await until(lambda: len(gateway.spans.get_finished_spans()) == 2)
    (record,) = (record for record in caplog.records if record.name == "gateway.operators.observer")
    line = json.loads(JsonFormatter().format(record))
    assert line["request_id"] == "r-1"
    assert (line["method"], line["path"], line["status"]) == ("POST", "/v1/chat/completions", 200)
    assert line["duration_s"] > 0
    assert "tulip" not in caplog.text

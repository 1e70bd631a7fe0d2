"""The export to a collector, and its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import generate_latest

from process.distribution import installed_version
from process.telemetry.telemetry import ProcessTelemetry
from tests.waiting import GUARD_S


@dataclass
class Collector:
    """An OTLP collector that answers an export only when both kinds have arrived."""

    port: int = 0
    resources: list[dict[str, str]] = field(default_factory=list)
    remaining_s: list[float] = field(default_factory=list)
    is_awaited: list[bool] = field(default_factory=list)
    both: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=GUARD_S))

    def receive(self, batches: Any, context: grpc.ServicerContext) -> None:
        """Store the resources, and wait for the other kind."""
        remaining_s = context.time_remaining()
        assert remaining_s is not None
        self.remaining_s.append(remaining_s)
        for batch in batches:
            self.resources.append({each.key: each.value.string_value for each in batch.resource.attributes})
        self.both.wait()
        self.is_awaited.append(context.is_active())


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A listening collector."""
    found = Collector()

    class Traces(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802  the contract's name
            found.receive(request.resource_spans, context)
            return trace_service_pb2.ExportTraceServiceResponse()

    class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
        def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802  the contract's name
            found.receive(request.resource_metrics, context)
            return metrics_service_pb2.ExportMetricsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)  # type: ignore[no-untyped-call]
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)  # type: ignore[no-untyped-call]
    found.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found
    server.stop(None).wait()


def measured(endpoint: str | None) -> ProcessTelemetry:
    """Return telemetry with a span and a measurement to export."""
    telemetry = ProcessTelemetry("sluice-test", "sluice.test", endpoint, export_timeout_s=GUARD_S)
    telemetry.tracer.start_span("work").end()
    telemetry.meter.create_counter("work").add(3)
    return telemetry


@pytest.mark.parametrize("endpoint", ["127.0.0.1:{}", "http://127.0.0.1:{}"])
def test_shutdown_exports_traces_and_metrics_concurrently(collector: Collector, endpoint: str) -> None:
    """Both exports run at the same time, each with the timeout as its deadline."""
    measured(endpoint.format(collector.port)).shutdown()
    assert collector.is_awaited == [True, True]
    # gRPC rounds deadlines up.
    assert all(0 < remaining_s < GUARD_S + 1 for remaining_s in collector.remaining_s)


def test_resource_names_the_process_and_its_version(collector: Collector) -> None:
    """Traces and metrics have the same resource, with the package's version."""
    measured(f"127.0.0.1:{collector.port}").shutdown()
    expected = {"service.name": "sluice-test", "service.version": installed_version()}
    assert len(collector.resources) == 2
    for resource in collector.resources:
        assert {name: resource.get(name) for name in expected} == expected


def test_resource_of_an_uninstalled_package_has_no_version(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout runs without being installed."""
    monkeypatch.setattr("process.distribution.NAME", "no-such-package")
    measured(f"127.0.0.1:{collector.port}").shutdown()
    assert all("service.version" not in resource for resource in collector.resources)


def test_registry_shows_metrics_without_a_collector() -> None:
    """Prometheus' format includes process metrics, and each telemetry has its own registry."""
    telemetry, other = measured(None), measured(None)
    page = generate_latest(telemetry.registry).decode()
    assert "\nwork_total 3.0\n" in page
    assert "process_cpu_seconds_total" in page
    assert f'service_version="{installed_version()}"' in page
    assert telemetry.registry is not other.registry
    telemetry.shutdown()
    other.shutdown()


def test_unrecorded_spans_have_ids() -> None:
    """A span starts a sampled trace or continues its parent's, whether the parent is local or the client's."""
    telemetry = ProcessTelemetry("sluice-test", "sluice", None)
    tracer = telemetry.tracer
    with tracer.start_as_current_span("outer") as outer:
        inside = trace.get_current_span().get_span_context()
        inner = tracer.start_span("inner", attributes={"n": 1}, start_time=1).get_span_context()
    first = outer.get_span_context()
    assert inside == first
    assert first.is_valid
    assert first.trace_flags.sampled
    assert not outer.is_recording()
    assert not trace.get_current_span().get_span_context().is_valid, "the span is active after its end"
    assert (inner.trace_id, inner.span_id == first.span_id) == (first.trace_id, False)
    headers = {"traceparent": f"00-{7:032x}-{8:016x}-00"}
    called = tracer.start_span("called", TraceContextTextMapPropagator().extract(headers)).get_span_context()
    assert (called.trace_id, called.trace_flags.sampled) == (7, False)
    telemetry.shutdown()


def test_spans_are_recorded_for_a_processor() -> None:
    exporter = InMemorySpanExporter()
    telemetry = ProcessTelemetry("sluice-test", "sluice", None, [SimpleSpanProcessor(exporter)])
    with telemetry.tracer.start_as_current_span("outer"):
        pass
    assert [span.name for span in exporter.get_finished_spans()] == ["outer"]
    telemetry.shutdown()

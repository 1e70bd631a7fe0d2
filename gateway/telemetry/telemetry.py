"""Traces and metrics: the gateway's instruments, which the code that measures requests and calls uses."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import generate_latest

from process.telemetry.telemetry import ProcessTelemetry

SCOPE = "sluice.gateway"
SERVICE_NAME = "sluice-gateway"

# Bucket boundaries in seconds: those of the conventions, extended to the duration of long streams.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320, 640)


class Telemetry(ProcessTelemetry):
    """The gateway's tracer, instruments and registry, until `shutdown`. Thread-safe."""

    def __init__(self, otlp_endpoint: str | None, span_processors: Sequence[SpanProcessor] = ()) -> None:
        """`otlp_endpoint` is host:port or a URL; a connection without a scheme is in plain text."""
        super().__init__(SERVICE_NAME, SCOPE, otlp_endpoint, span_processors)
        self._propagator = TraceContextTextMapPropagator()
        self.request_duration = self.meter.create_histogram(
            "http.server.request.duration", "s", "Duration of a request.", explicit_bucket_boundaries_advisory=_BUCKETS
        )
        self.active_requests = self.meter.create_up_down_counter(
            "http.server.active_requests", "{request}", "Requests in progress."
        )
        self.call_duration = self.meter.create_histogram(
            "rpc.client.call.duration", "s", "Duration of a call.", explicit_bucket_boundaries_advisory=_BUCKETS
        )

    def extract(self, headers: dict[str, str]) -> Context:
        """Return the client's trace context, from `traceparent` and `tracestate`."""
        return self._propagator.extract(headers)

    def inject(self) -> dict[str, str]:
        """Return the active span as `traceparent` and `tracestate`."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

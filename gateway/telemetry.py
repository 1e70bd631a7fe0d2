"""Traces and metrics: the providers, and every name that the gateway reports under.

Owns the providers, which are made at start and never set as globals, and one Prometheus registry. Without an OTLP
endpoint nothing leaves the process but the page at /metrics; spans are made all the same, so that log lines and the
service have their trace ids. Knows nothing of HTTP and gRPC: who measures takes an instrument from here.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest

SCOPE = "sluice.gateway"
SERVICE_NAME = "sluice-gateway"

# Attributes, by today's semantic conventions.
HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
URL_PATH = "url.path"
URL_SCHEME = "url.scheme"
USER_AGENT = "user_agent.original"
RPC_SYSTEM_NAME = "rpc.system.name"
RPC_METHOD = "rpc.method"
RPC_STATUS_CODE = "rpc.response.status_code"
SERVER_ADDRESS = "server.address"
ERROR_TYPE = "error.type"
REQUEST_ID = "sluice.request_id"

# Bucket boundaries in seconds: the conventions', and on to the length of long streams.
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 320, 640)


class Telemetry:
    """The gateway's tracer and instruments, until `shutdown`. Any thread may use them."""

    def __init__(self, otlp_endpoint: str | None, span_processors: Sequence[SpanProcessor] = ()) -> None:
        """`otlp_endpoint` is host:port or a URL; without a scheme the connection is in plain text."""
        resource = Resource.create({"service.name": SERVICE_NAME})
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        processors = list(span_processors)
        readers: list[MetricReader] = [PrometheusMetricReader(scope_info_enabled=False, registry=self._registry)]
        if otlp_endpoint is not None:
            url = otlp_endpoint if "://" in otlp_endpoint else f"http://{otlp_endpoint}"
            processors.append(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=url)))
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for processor in processors:
            self._tracers.add_span_processor(processor)
        self._meters = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
        self._propagator = TraceContextTextMapPropagator()
        self.tracer: Tracer = self._tracers.get_tracer(SCOPE)
        meter = self._meters.get_meter(SCOPE)
        self.request_duration = meter.create_histogram(
            "http.server.request.duration", "s", "Time of a request.", explicit_bucket_boundaries_advisory=_BUCKETS
        )
        self.active_requests = meter.create_up_down_counter(
            "http.server.active_requests", "{request}", "Requests that are being answered."
        )
        self.call_duration = meter.create_histogram(
            "rpc.client.call.duration", "s", "Time of a call.", explicit_bucket_boundaries_advisory=_BUCKETS
        )

    def extract(self, headers: dict[str, str]) -> Context:
        """The caller's trace, by `traceparent` and `tracestate`."""
        return self._propagator.extract(headers)

    def inject(self) -> dict[str, str]:
        """The active span as `traceparent` and `tracestate`."""
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier)
        return carrier

    def page(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def shutdown(self) -> None:
        """Send what is not yet sent, and end. It may block for seconds: call it once, last."""
        self._tracers.shutdown()
        self._meters.shutdown()

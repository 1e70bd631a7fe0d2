"""An OTLP collector in this process that keeps the received spans and metrics."""

import threading
from concurrent import futures
from dataclasses import dataclass

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2, metrics_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from tests.waiting import GUARD_S


@dataclass(frozen=True)
class Received:
    """A received span; ids are hex strings, and `parent_id` is empty for a root."""

    service: str
    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    attributes: dict[str, object]


def value(of: AnyValue) -> object:
    """Return the Python value of an attribute."""
    kind = of.WhichOneof("value")
    return None if kind is None else getattr(of, kind)


class _Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
    """Keeps the newest export of each metric by name."""

    def __init__(self) -> None:
        self.received: dict[str, Metric] = {}

    def Export(  # noqa: N802 the RPC's name
        self, request: metrics_service_pb2.ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> object:
        for resource_metrics in request.resource_metrics:
            for scope in resource_metrics.scope_metrics:
                self.received.update({metric.name: metric for metric in scope.metrics})
        return metrics_service_pb2.ExportMetricsServiceResponse()


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """A collector on a free loopback port. Any thread may read the spans, and the newest metrics by name."""

    def __init__(self) -> None:
        self._spans: list[Received] = []
        metrics = _Metrics()
        self.metrics = metrics.received
        self._changed = threading.Condition()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self._server)  # type: ignore[no-untyped-call] # generated without types
        metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(metrics, self._server)  # type: ignore[no-untyped-call] # generated without types
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def Export(self, request: trace_service_pb2.ExportTraceServiceRequest, context: grpc.ServicerContext) -> object:  # noqa: N802 the RPC's name
        with self._changed:
            for resource_spans in request.resource_spans:
                resource = {a.key: a.value.string_value for a in resource_spans.resource.attributes}
                for scope in resource_spans.scope_spans:
                    for span in scope.spans:
                        attributes = {a.key: value(a.value) for a in span.attributes}
                        self._spans.append(
                            Received(
                                service=resource.get("service.name", ""),
                                name=span.name,
                                kind=span.kind,
                                trace_id=span.trace_id.hex(),
                                span_id=span.span_id.hex(),
                                parent_id=span.parent_span_id.hex(),
                                attributes=attributes,
                            )
                        )
            self._changed.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def trace(self, trace_id: str, num_spans: int, ignored: str = "") -> list[Received]:
        """Return the spans of one trace except those named `ignored`, as soon as there are `num_spans` of them."""

        def found() -> list[Received]:
            return [span for span in self._spans if span.trace_id == trace_id and span.name != ignored]

        with self._changed:
            self._changed.wait_for(lambda: len(found()) >= num_spans, GUARD_S)
            return found()

    def stop(self) -> None:
        """Stop the server."""
        self._server.stop(None).wait()

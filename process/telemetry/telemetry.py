"""Traces and metrics: the providers, the Prometheus registry, and the export to a collector.

The providers are created at the start and never set as globals. Without an OTLP endpoint spans and exemplars are not
recorded, because the Prometheus registry, the only output then, shows neither. Spans still have ids, for log lines.
"""

from __future__ import annotations

import asyncio
import os
import platform
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from typing import Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.metrics_core import Metric

from process import distribution
from process.telemetry.unrecorded_tracer import UnrecordedTracer
from process.telemetry.usage import ProcessUsage

EXPORT_TIMEOUT_S: Final = 5  # the longest wait of a stop for a collector that doesn't respond


class ProcessTelemetry:
    """A process's tracer, meter and registry, until `shutdown`. Thread-safe."""

    def __init__(
        self,
        service_name: str,
        scope: str,
        otlp_endpoint: str | None,
        span_processors: Sequence[SpanProcessor] = (),
        *,
        export_timeout_s: float = EXPORT_TIMEOUT_S,
    ) -> None:
        """`otlp_endpoint` is host:port or a URL; a connection without a scheme is in plain text."""
        resource = Resource.create({"service.name": service_name, **_version()})
        self.registry = _Registry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        processors = list(span_processors)
        readers: list[MetricReader] = [PrometheusMetricReader(scope_info_enabled=False, registry=self.registry)]
        if otlp_endpoint is not None:
            # Imported late: they take a tenth of a process's start, and most processes have no collector.
            from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

            url = otlp_endpoint if "://" in otlp_endpoint else f"http://{otlp_endpoint}"
            processors.append(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=export_timeout_s)))
            exporter = OTLPMetricExporter(endpoint=url, timeout=export_timeout_s)
            readers.append(PeriodicExportingMetricReader(exporter))
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for processor in processors:
            self._tracers.add_span_processor(processor)
        self._meters = MeterProvider(
            metric_readers=readers,
            resource=resource,
            shutdown_on_exit=False,
            exemplar_filter=AlwaysOffExemplarFilter() if otlp_endpoint is None else None,  # None: the default
        )
        self.tracer: Tracer = self._tracers.get_tracer(scope) if processors else UnrecordedTracer()
        self.meter: Meter = self._meters.get_meter(scope)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.meter.create_observable_gauge(
            "process.thread.count", [_threads], "{thread}", "Threads of the process, native ones included."
        )
        build = {"service.name": service_name, "process.runtime.version": platform.python_version(), **_version()}
        self.meter.create_observable_gauge(
            "sluice.build.info",
            [lambda _options: [Observation(1, build)]],
            description="1, with versions as labels.",
        )
        self.meter.create_observable_gauge(
            "sluice.event_loop.tasks", [self._tasks], "{task}", "Tasks of the event loop that have not ended."
        )

    def watch_loop(self) -> None:
        """Report the running loop's tasks from now on."""
        self._loop = asyncio.get_running_loop()

    def _tasks(self, _options: CallbackOptions) -> list[Observation]:
        return [] if self._loop is None else [Observation(len(asyncio.all_tasks(self._loop)))]

    def shutdown(self) -> None:
        """Export the rest and shut down. Blocks up to the export timeout: call it off the event loop, once, last."""
        with ThreadPoolExecutor(2) as pool:  # concurrently: an unreachable collector costs one timeout
            for done in (pool.submit(self._tracers.shutdown), pool.submit(self._meters.shutdown)):
                done.result()


class _Registry(CollectorRegistry):
    """A registry that one thread reads at a time: OpenTelemetry's reader returns nothing to a concurrent one."""

    def __init__(self) -> None:
        super().__init__()
        self._reading = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        with self._reading:
            families = list(super().collect())
        return iter(families)


def _threads(_options: CallbackOptions) -> list[Observation]:
    usage = ProcessUsage.of_process(os.getpid())
    return [] if usage is None else [Observation(usage.num_threads)]


def _version() -> dict[str, str]:
    try:
        return {"service.version": distribution.installed_version()}
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return {}

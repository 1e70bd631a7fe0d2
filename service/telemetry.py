"""Traces and metrics: the instruments that the service reports with, and the page that shows them.

Knows nothing of calls and generations: who measures them takes an instrument from here, in any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from wsgiref.simple_server import WSGIServer

from opentelemetry.metrics import Histogram, Meter
from opentelemetry.sdk.trace import SpanProcessor
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.samples import Sample

from process.telemetry import ProcessTelemetry

SCOPE = "sluice.service"
SERVICE_NAME = "sluice-service"

# Bucket boundaries, as the conventions recommend them.
_CALL_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
_REQUEST_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_FIRST_TOKEN_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
_OUTPUT_TOKEN_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_TOKEN_BUCKETS = tuple(4**power for power in range(14))
_SEQUENCE_BUCKETS = tuple(2**power for power in range(11))
_STEP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Instruments:
    """The histograms; times in seconds."""

    call_duration: Histogram
    request_duration: Histogram
    time_to_first_token: Histogram
    time_per_output_token: Histogram
    queue_time: Histogram
    token_usage: Histogram
    step_duration: Histogram
    step_sequences: Histogram


class Telemetry(ProcessTelemetry):
    """The service's tracer, instruments and registry, until `shutdown`."""

    def __init__(self, otlp_endpoint: str | None, span_processors: Sequence[SpanProcessor] = ()) -> None:
        """`otlp_endpoint` is host:port or a URL; without a scheme the connection is in plain text."""
        super().__init__(SERVICE_NAME, SCOPE, otlp_endpoint, span_processors)
        self.instruments = _instruments(self.meter)

    def samples(self) -> list[Sample]:
        """All metrics now, each with its labels."""
        return [sample for family in self.registry.collect() for sample in family.samples]


class MetricsPage:
    """The registry as a page in Prometheus' format, served by a thread of its own. Any path shows it."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        """Raises OSError if the port can't be listened on."""
        self._server: WSGIServer
        self._thread: threading.Thread
        self._server, self._thread = start_http_server(port, host, registry)

    @property
    def port(self) -> int:
        return self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _instruments(meter: Meter) -> Instruments:
    def histogram(name: str, unit: str, buckets: Sequence[float], description: str) -> Histogram:
        return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

    return Instruments(
        call_duration=histogram("rpc.server.call.duration", "s", _CALL_BUCKETS, "Time of a call."),
        request_duration=histogram(
            "gen_ai.server.request.duration", "s", _REQUEST_BUCKETS, "Time of a generation, its wait included."
        ),
        time_to_first_token=histogram(
            "gen_ai.server.time_to_first_token", "s", _FIRST_TOKEN_BUCKETS, "Time from arrival to the first token."
        ),
        time_per_output_token=histogram(
            "gen_ai.server.time_per_output_token", "s", _OUTPUT_TOKEN_BUCKETS, "Time of each token after the first."
        ),
        queue_time=histogram(
            "sluice.server.queue_time", "s", _FIRST_TOKEN_BUCKETS, "Time from arrival to the first step."
        ),
        token_usage=histogram("gen_ai.client.token.usage", "{token}", _TOKEN_BUCKETS, "Tokens of a generation."),
        step_duration=histogram("sluice.engine.step.duration", "s", _STEP_BUCKETS, "Time of one engine step."),
        step_sequences=histogram(
            "sluice.engine.step.sequences", "{sequence}", _SEQUENCE_BUCKETS, "Sequences, or texts, of one engine step."
        ),
    )

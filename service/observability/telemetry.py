"""Traces and metrics: the service's instruments, and the metrics page.

Instruments are thread-safe. The code that measures calls and generations takes its instruments from here.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from wsgiref.simple_server import WSGIServer

from opentelemetry.metrics import Counter, Histogram, Meter
from opentelemetry.sdk.trace import SpanProcessor
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.samples import Sample

from process.telemetry.telemetry import ProcessTelemetry
from service.observability.inference_usage import InferenceUsage

SCOPE = "sluice.service"
SERVICE_NAME = "sluice-service"

# Our attributes. `endpoint` and `entity` name the route of a request; a model's own endpoint has the model's name.
ENDPOINT = "sluice.endpoint"
ENTITY = "sluice.entity"
KEY = "sluice.key"
FINISH_REASON = "gen_ai.response.finish_reason"
SLO_CLASS = "sluice.slo.class"
SLO_MET = "sluice.slo.met"

OTHERS = "other"
ANONYMOUS = "anonymous"
MAX_KEYS = 200  # maximum number of label values with separate series
MAX_ENDPOINTS = 100
MAX_ENTITIES = 400  # of all endpoints, including replaced ones

# Bucket boundaries: those that the conventions recommend, extended to the gateway's longest deadline.
_TO_THE_DEADLINE = (20, 40, 80, 160, 320, 640)
_CALL_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, *_TO_THE_DEADLINE)
_REQUEST_BUCKETS = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 655.36,
)  # fmt: skip
_FIRST_TOKEN_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, *_TO_THE_DEADLINE,
)  # fmt: skip
_OUTPUT_TOKEN_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
_GAP_BUCKETS = (0.001, 0.0025, 0.005, *_OUTPUT_TOKEN_BUCKETS, 5, 10, 20)
_TOKEN_BUCKETS = tuple(4**power for power in range(14))
_SEQUENCE_BUCKETS = tuple(2**power for power in range(11))
_STEP_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


@dataclass(frozen=True, slots=True)
class Instruments:
    """The histograms, times in seconds, and the counters of requests."""

    call_duration: Histogram
    request_duration: Histogram
    time_to_first_token: Histogram
    time_per_output_token: Histogram
    inter_token_time: Histogram
    queue_time: Histogram
    prefill_time: Histogram
    decode_time: Histogram
    token_usage: Histogram
    step_duration: Histogram
    step_sequences: Histogram
    requests: Counter
    choices: Counter
    slo_choices: Counter
    compute_time: Counter
    block_time: Counter


class BoundedLabels:
    """Limits the values of a label that clients choose: the first ones have their own series, the others share one."""

    def __init__(self, max_values: int) -> None:
        self._max_values = max_values
        self._values: set[str] = set()

    def label(self, value: str) -> str:
        """Return the label of a value: the value, or `other`."""
        if value not in self._values:
            if len(self._values) >= self._max_values:
                return OTHERS
            self._values.add(value)
        return value


class Telemetry(ProcessTelemetry):
    """The service's tracer, instruments and registry, until `shutdown`. Thread-safe."""

    def __init__(
        self, otlp_endpoint: str | None, span_processors: Sequence[SpanProcessor] = (), *, newest_names: bool = False
    ) -> None:
        """`otlp_endpoint` is host:port or a URL; a connection without a scheme is in plain text.

        With `newest_names`, token usage is also recorded under the newest names of the GenAI conventions.
        """
        super().__init__(SERVICE_NAME, SCOPE, otlp_endpoint, span_processors)
        self.instruments = _instruments(self.meter)
        self.inference_usage = InferenceUsage(self.meter) if newest_names else None
        self.endpoints = BoundedLabels(MAX_ENDPOINTS)
        self.entities = BoundedLabels(MAX_ENTITIES)
        self.keys = BoundedLabels(MAX_KEYS)

    def samples(self) -> list[Sample]:
        """Return the current samples of all metrics, with their labels."""
        return [sample for family in self.registry.collect() for sample in family.samples]


class MetricsPage:
    """Serves the registry in Prometheus' format on every path, in a separate thread."""

    def __init__(self, registry: CollectorRegistry, host: str, port: int) -> None:
        """Start serving. Raise OSError if it can't listen on the port."""
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
    """Create all instruments."""

    def histogram(name: str, unit: str, buckets: Sequence[float], description: str) -> Histogram:
        return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

    return Instruments(
        call_duration=histogram("rpc.server.call.duration", "s", _CALL_BUCKETS, "Duration of a call."),
        request_duration=histogram(
            "gen_ai.server.request.duration", "s", _REQUEST_BUCKETS, "Duration of a generation, including its wait."
        ),
        time_to_first_token=histogram(
            "gen_ai.server.time_to_first_token", "s", _FIRST_TOKEN_BUCKETS, "Time from arrival to the first token."
        ),
        time_per_output_token=histogram(
            "gen_ai.server.time_per_output_token", "s", _OUTPUT_TOKEN_BUCKETS, "Time of each token after the first."
        ),
        inter_token_time=histogram(
            "sluice.server.inter_token_time",
            "s",
            _GAP_BUCKETS,
            "Time between tokens sent together and those before them.",
        ),
        queue_time=histogram(
            "sluice.server.queue_time", "s", _FIRST_TOKEN_BUCKETS, "Time from arrival to the first step."
        ),
        prefill_time=histogram(
            "sluice.server.prefill_time", "s", _FIRST_TOKEN_BUCKETS, "Time from the first step to the first token."
        ),
        decode_time=histogram(
            "sluice.server.decode_time", "s", _REQUEST_BUCKETS, "Time from the first token to the last."
        ),
        token_usage=histogram("gen_ai.client.token.usage", "{token}", _TOKEN_BUCKETS, "Tokens of a generation."),
        step_duration=histogram("sluice.engine.step.duration", "s", _STEP_BUCKETS, "Duration of one engine step."),
        step_sequences=histogram(
            "sluice.engine.step.sequences",
            "{sequence}",
            _SEQUENCE_BUCKETS,
            "Sequences, or embedded texts, in an engine step.",
        ),
        requests=meter.create_counter("sluice.server.requests", "{request}", "Requests for a served model."),
        compute_time=meter.create_counter("sluice.server.compute_time", "s", "Requests' shares of the step time."),
        block_time=meter.create_counter(
            "sluice.server.block_time", "s", "Cache blocks held by requests, multiplied by seconds."
        ),
        choices=meter.create_counter("sluice.server.choices", "{choice}", "Choices that have ended."),
        slo_choices=meter.create_counter(
            "sluice.server.slo_choices", "{choice}", "Choices that have ended, by class and by whether it was met."
        ),
    )

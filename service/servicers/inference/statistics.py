"""The numbers and the times of a model's inferences, as Triton's statistics have them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from google.protobuf.message import Message
from sluice.inference import model_statistics_pb2

from service.registry.models import ServedModel


@dataclass(slots=True)
class _Total:
    """A number of events and the sum of their durations."""

    count: int = 0
    ns: int = 0

    def add(self, duration_ns: int) -> None:
        self.count += 1
        self.ns += max(duration_ns, 0)

    def message(self) -> model_statistics_pb2.StatisticDuration:
        return model_statistics_pb2.StatisticDuration(count=self.count, ns=self.ns)


@dataclass(slots=True)
class _Totals:
    """The totals of one model."""

    success: _Total = field(default_factory=_Total)
    fail: _Total = field(default_factory=_Total)
    queue: _Total = field(default_factory=_Total)
    compute: _Total = field(default_factory=_Total)
    last_ms: int = 0  # since the epoch


class RunningInference:
    """One inference, which notes the time that it has waited in the queue."""

    def __init__(self) -> None:
        self.queue_ns: int | None = None

    def note(self, answer: Message) -> None:
        """Read the wait from an answer or from the event of a stream, if it has any."""
        if "event" in answer.DESCRIPTOR.oneofs_by_name and (kind := answer.WhichOneof("event")) is not None:
            answer = getattr(answer, kind)
        timings = getattr(answer, "timings", None)
        if timings is not None and timings.HasField("queue_wait"):
            self.queue_ns = timings.queue_wait.ToNanoseconds()


class InferenceStatistics:
    """The totals of all models by name and version, since the process began."""

    def __init__(self) -> None:
        self._totals: defaultdict[tuple[str, str], _Totals] = defaultdict(_Totals)

    @contextmanager
    def recording(self, model: ServedModel) -> Iterator[RunningInference]:
        """Record an inference of a model in the block: its time, and whether the block raises an error."""
        began, inference = time.monotonic_ns(), RunningInference()
        totals = self._totals[model.name, model.description.version]
        try:
            yield inference
        except Exception:
            totals.fail.add(time.monotonic_ns() - began)
            raise
        duration = time.monotonic_ns() - began
        totals.success.add(duration)
        queue_ns = inference.queue_ns or 0  # embeddings and scores report no wait
        totals.compute.add(duration - queue_ns)
        totals.queue.add(queue_ns)
        totals.last_ms = time.time_ns() // 1_000_000

    def message(self, models: Iterable[ServedModel]) -> model_statistics_pb2.ModelStatisticsResponse:
        """Return the totals of these models."""
        response = model_statistics_pb2.ModelStatisticsResponse()
        for model in models:
            name, version = model.name, model.description.version
            totals = self._totals.get((name, version), _Totals())
            counted = model_statistics_pb2.StatisticDuration(count=totals.compute.count)
            response.model_stats.add(
                name=name,
                version=version,
                last_inference=totals.last_ms,
                inference_count=totals.success.count,
                execution_count=totals.success.count,
                inference_stats=model_statistics_pb2.InferStatistics(
                    success=totals.success.message(),
                    fail=totals.fail.message(),
                    queue=totals.queue.message(),
                    compute_input=counted,
                    compute_infer=totals.compute.message(),
                    compute_output=counted,
                ),
            )
        return response

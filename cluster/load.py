"""The load of a replica, read from its metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

_QUEUE_TIME = "sluice_server_queue_time_seconds"
_CALLS, _REASON = "rpc_server_call_duration_seconds_count", "sluice_error_reason"


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a replica: running and waiting sequences, and the free fraction of the fullest model's cache.

    Since the previous reading, `started` requests had their first step, after `queue_time_s` on average, and `rejected`
    calls were rejected because the queue was full.
    """

    running: int = 0
    waiting: int = 0
    free_cache: float = 1.0
    started: int = 0
    queue_time_s: float = 0.0
    rejected: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """The metrics, summed over models; queue times and rejections are totals since the start of the service."""

    running: float = 0.0
    waiting: float = 0.0
    cache_usage: float = 0.0  # the usage of the fullest model's cache
    num_started: float = 0.0
    queue_time_s: float = 0.0
    num_rejected: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Prometheus text. Raise ValueError if it is invalid."""
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

        def values(name: str) -> list[float]:
            return [sample.value for sample in samples if sample.name == name]

        return cls(
            sum(values("sluice_engine_sequences_running")),
            sum(values("sluice_engine_queue_depth")),
            max(values("sluice_engine_kv_cache_usage"), default=0.0),
            sum(values(f"{_QUEUE_TIME}_count")),
            sum(values(f"{_QUEUE_TIME}_sum")),
            sum(
                sample.value
                for sample in samples
                if sample.name == _CALLS and sample.labels.get(_REASON) == "QUEUE_FULL"
            ),
        )

    def load_since(self, before: Page) -> Load:
        """Return the current load, with queue times and rejections since an earlier reading."""
        started = self.num_started - before.num_started
        waited_s = self.queue_time_s - before.queue_time_s
        return Load(
            int(self.running),
            int(self.waiting),
            1 - self.cache_usage,
            int(started),
            waited_s / started if started else 0.0,
            int(self.num_rejected - before.num_rejected),
        )

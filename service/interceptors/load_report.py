"""Report the service's load after each answer, as xDS ORCA load reports.

Envoy's `client_side_weighted_round_robin` and gRPC's weighted round robin (gRFC A58) send more calls to replicas with
less load. A report covers the whole service, since they weigh hosts, not models.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from service.calls.call import current_call
from service.generation.stats import EngineStats
from service.interceptors.policy import Behaviour, Context, Policy

Form: TypeAlias = Literal["text", "binary"]

_TEXT: Final = "endpoint-load-metrics"
_BINARY: Final = "endpoint-load-metrics-bin"
_DECAY_S: Final = 10.0
# Field numbers of xds.data.orca.v3.OrcaLoadReport, and protobuf's wire types.
_RPS, _EPS, _UTILIZATION, _NAMED = 6, 7, 9, 8
_DOUBLE, _BYTES = 1, 2


class LoadReports(Policy):
    """Adds a load report to the trailers of each call."""

    def __init__(self, form: Form, engines: Callable[[], Iterable[EngineStats]]) -> None:
        self._form = form
        self._engines = engines
        # Exponentially decaying rates of successful and failed calls per second. They are separate, so that a replica
        # whose calls fail immediately does not look productive.
        self._served = self._failed = 0.0
        self._counted_at = time.monotonic()

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:  # noqa: ARG002  all alike
        if (call := current_call()) is not None:
            call.report_load = self._report
        return await proceed(request, context)

    def _report(self) -> tuple[tuple[str, str | bytes], ...]:
        """Return the trailer with the load of this moment."""
        now = time.monotonic()
        kept = math.exp((self._counted_at - now) / _DECAY_S)
        self._served, self._failed, self._counted_at = kept * self._served, kept * self._failed, now
        if (call := current_call()) is not None and call.reason:
            self._failed += 1 / _DECAY_S
        else:
            self._served += 1 / _DECAY_S
        usage = waiting = cache = 0.0
        for stats in self._engines():
            used = 1 - stats.num_free_blocks / stats.num_blocks if stats.num_blocks else 0.0
            demand = (stats.num_running + stats.num_waiting) / stats.max_running if stats.max_running else 0.0
            usage, cache, waiting = max(usage, used, demand), max(cache, used), waiting + stats.num_waiting
        # The names of vLLM's reports. An idle replica reports a small utilization, since balancers divide by it.
        named = {"kv_cache_usage_perc": cache, "num_requests_waiting": waiting}
        report = self._served, self._failed, max(usage, 0.001), named
        return ((_TEXT, as_text(*report)),) if self._form == "text" else ((_BINARY, as_binary(*report)),)


def as_text(rps: float, eps: float, utilization: float, named: Mapping[str, float]) -> str:
    """Return a report in the text format."""
    parts = {"application_utilization": utilization, "rps_fractional": rps, "eps": eps}
    parts |= {f"named_metrics.{name}": value for name, value in named.items()}
    return "TEXT " + ",".join(f"{name}={value:.6g}" for name, value in parts.items())


def as_binary(rps: float, eps: float, utilization: float, named: Mapping[str, float]) -> bytes:
    """Return a report in the binary format, a serialized OrcaLoadReport."""
    entries = (_bytes(1, name.encode()) + _double(2, value) for name, value in named.items())
    return b"".join(
        (
            _double(_RPS, rps),
            _double(_EPS, eps),
            *(_bytes(_NAMED, entry) for entry in entries),
            _double(_UTILIZATION, utilization),
        )
    )


def _double(field: int, value: float) -> bytes:
    """Return a protobuf field of type double, encoded."""
    return struct.pack("<Bd", field << 3 | _DOUBLE, value)


def _bytes(field: int, value: bytes) -> bytes:
    """Return a protobuf field of type bytes, encoded."""
    return bytes([field << 3 | _BYTES, len(value)]) + value  # lengths fit into one byte

"""Report the service's load after each answer, as xDS ORCA load reports.

Envoy's `client_side_weighted_round_robin` and gRPC's weighted round robin (gRFC A58) read it, and give more calls to
who has more room. It is of the whole service, since they weigh hosts, not models.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from service.call import current_call
from service.generation.stats import EngineStats
from service.interceptors.policy import Behaviour, Context, Policy

Form: TypeAlias = Literal["text", "binary"]

_TEXT: Final = "endpoint-load-metrics"
_BINARY: Final = "endpoint-load-metrics-bin"
_RATE_OVER_S: Final = 10.0
# Of xds.data.orca.v3.OrcaLoadReport: numbers of its fields, and protobuf's kinds of them.
_RPS, _EPS, _UTILIZATION, _NAMED = 6, 7, 9, 8
_DOUBLE, _BYTES = 1, 2


class LoadReports(Policy):
    """Notes for each call what its trailers are to tell."""

    def __init__(self, form: Form, engines: Callable[[], Iterable[EngineStats]]) -> None:
        self._form = form
        self._engines = engines
        # Of calls that end well, and of others, a second; the further back, the less one counts. A replica that fails
        # at once must not look as if it did much.
        self._served = self._failed = 0.0
        self._counted_at = time.monotonic()

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:  # noqa: ARG002  all alike
        if (call := current_call()) is not None:
            call.report_load = self._report
        return await proceed(request, context)

    def _report(self) -> tuple[tuple[str, str | bytes], ...]:
        now = time.monotonic()
        kept = math.exp((self._counted_at - now) / _RATE_OVER_S)
        self._served, self._failed, self._counted_at = kept * self._served, kept * self._failed, now
        if (call := current_call()) is not None and call.reason:
            self._failed += 1 / _RATE_OVER_S
        else:
            self._served += 1 / _RATE_OVER_S
        usage = waiting = cache = 0.0
        for stats in self._engines():
            used = 1 - stats.num_free_blocks / stats.num_blocks if stats.num_blocks else 0.0
            asked = (stats.num_running + stats.num_waiting) / stats.max_running if stats.max_running else 0.0
            usage, cache, waiting = max(usage, used, asked), max(cache, used), waiting + stats.num_waiting
        # Names of vLLM's reports. Who is idle says so by a little: a weight of nothing can't be divided by.
        named = {"kv_cache_usage_perc": cache, "num_requests_waiting": waiting}
        told = self._served, self._failed, max(usage, 0.001), named
        return ((_TEXT, as_text(*told)),) if self._form == "text" else ((_BINARY, as_binary(*told)),)


def as_text(rps: float, eps: float, utilization: float, named: Mapping[str, float]) -> str:
    """A report as a header's text."""
    parts = {"application_utilization": utilization, "rps_fractional": rps, "eps": eps}
    parts |= {f"named_metrics.{name}": value for name, value in named.items()}
    return "TEXT " + ",".join(f"{name}={value:.6g}" for name, value in parts.items())


def as_binary(rps: float, eps: float, utilization: float, named: Mapping[str, float]) -> bytes:
    """A report as its message's bytes."""
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
    return struct.pack("<Bd", field << 3 | _DOUBLE, value)


def _bytes(field: int, value: bytes) -> bytes:
    return bytes([field << 3 | _BYTES, len(value)]) + value  # none is longer than one byte tells

"""The resources that the processes use, as reported by their metrics."""

from __future__ import annotations

import re
import urllib.request
from dataclasses import dataclass

from tests.waiting import GUARD_S

_SAMPLE = re.compile(r"^(\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Measure:
    """One quantity of a process: the sum of a metric's samples, and the tolerated growth."""

    process: str
    metric: str
    tolerance: float
    unit: float = 1.0

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.process} {self.metric.removeprefix('sluice_').removesuffix('_bytes')}"


_MIB = float(1 << 20)

# Memory in MiB, which varies with allocators and caches; pools of libraries add and remove threads and descriptors.
MEASURES = (
    Measure("service", "process_resident_memory_bytes", 64, _MIB),
    Measure("service", "process_open_fds", 8),
    Measure("service", "sluice_event_loop_tasks", 2),
    Measure("service", "process_thread_count", 8),
    Measure("service", "sluice_engine_process_memory_bytes", 160, _MIB),
    Measure("service", "sluice_engine_process_open_files", 4),
    Measure("service", "sluice_engine_process_threads", 4),
    Measure("service", "sluice_engine_kv_blocks_used", 0),
    Measure("service", "sluice_engine_sequences_running", 0),
    Measure("service", "sluice_engine_queue_depth", 0),
    Measure("gateway", "process_resident_memory_bytes", 48, _MIB),
    Measure("gateway", "process_open_fds", 8),
    Measure("gateway", "sluice_event_loop_tasks", 2),
    Measure("gateway", "process_thread_count", 8),
    Measure("gateway", "http_server_active_requests", 0),
)


def read(pages: dict[str, str]) -> dict[str, float]:
    """Return the value of each measure by name. `pages` are the addresses of the metrics pages by process."""
    sums: dict[tuple[str, str], float] = {}
    for process, address in pages.items():
        with urllib.request.urlopen(address, timeout=GUARD_S) as page:  # noqa: S310 the product's own
            for metric, value in _SAMPLE.findall(page.read().decode()):
                sums[process, metric] = sums.get((process, metric), 0.0) + float(value)
    return {each.name: sums.get((each.process, each.metric), 0.0) / each.unit for each in MEASURES}


def grown(warm: dict[str, float], end: dict[str, float]) -> list[str]:
    """Return the measures that grew by more than their tolerance since the warm-up."""
    return [
        f"{each.name} went from {warm[each.name]:.0f} to {end[each.name]:.0f}, and may by {each.tolerance:g}"
        for each in MEASURES
        if end[each.name] - warm[each.name] > each.tolerance
    ]

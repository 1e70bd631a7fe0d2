"""The host memory that a cache may take; `device_memory` does the same for devices."""

from __future__ import annotations

from pathlib import Path

CPU_CACHE_FRACTION = 0.5  # of what is left beside the weights; activations and the rest of the host need memory too

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def cache_bytes() -> int:
    """Bytes that the cache may take, once the weights are loaded."""
    return int(available_host_bytes() * CPU_CACHE_FRACTION)


def available_host_bytes() -> int:
    """What the kernel calls available, or what the container's limit leaves if that is less."""
    lines = MEMINFO.read_text(encoding="ascii").splitlines()
    available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    try:
        limit = (CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((CGROUP / "memory.current").read_text(encoding="ascii"))
    except OSError:
        return available
    return available if limit == "max" else min(available, int(limit) - used)

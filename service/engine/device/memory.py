"""The host memory that is available for a cache. `device_memory` is the counterpart for devices."""

from __future__ import annotations

from pathlib import Path

CPU_CACHE_FRACTION = 0.5  # of the memory left after the weights; activations and other processes need memory too

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def cache_bytes() -> int:
    """Return the bytes that the cache may take. Call it after the weights are loaded."""
    return int(available_host_bytes() * CPU_CACHE_FRACTION)


def available_host_bytes() -> int:
    """Return the kernel's MemAvailable, or the rest of the container's memory limit if that is less."""
    lines = MEMINFO.read_text(encoding="ascii").splitlines()
    available = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    try:
        limit = (CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((CGROUP / "memory.current").read_text(encoding="ascii"))
    except OSError:
        return available
    return available if limit == "max" else min(available, int(limit) - used)

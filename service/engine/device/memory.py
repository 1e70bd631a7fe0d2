"""The host memory that is available for a cache. `device_memory` is the counterpart for devices."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from service.engine.device import control_groups
from service.generation.errors import ModelLoadError

_GB = 1e9
CPU_CACHE_FRACTION = 0.5  # of the memory left after the weights; activations and other processes need memory too

MEMINFO = Path("/proc/meminfo")


def cache_bytes() -> int:
    """Return the bytes that the cache may take. Call it after the weights are loaded."""
    return int(available_host_bytes() * CPU_CACHE_FRACTION)


def available_host_bytes() -> int:
    """Return the kernel's MemAvailable, or what the container's or the process's limit leaves if that is less."""
    return min(_meminfo("MemAvailable"), _left_of_address_space(), control_groups.memory_left())


def require_host_memory(weight_bytes: int, folder: Path) -> None:
    """Raise ModelLoadError if the weights don't fit in memory and swap space, before any of them is read.

    Without this check the kernel would kill the process, or a failed allocation abort it.
    """
    capacity = min(available_host_bytes() + _meminfo("SwapFree"), _left_of_address_space())
    if weight_bytes > capacity:
        raise ModelLoadError(
            f"{folder}: the weights take {weight_bytes / _GB:.1f} GB, and {max(capacity, 0) / _GB:.1f} GB of memory "
            "are available; free memory, raise the limit (ulimit -v, the container's), or choose a smaller model or "
            "engine.quantization"
        )


def _meminfo(name: str) -> int:
    """Return a value of /proc/meminfo in bytes; 0 if it is missing."""
    lines = MEMINFO.read_text(encoding="ascii").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def _left_of_address_space() -> int:
    """Return the bytes that this process may still map (ulimit -v)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return limit - int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()

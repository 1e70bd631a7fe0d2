"""How much memory a cache may take, by what the device has left."""

from __future__ import annotations

from pathlib import Path

CPU_CACHE_FRACTION = 0.5  # of what is left beside the weights; activations and the rest of the host need memory too
ACCELERATOR_CACHE_FRACTION = 0.85  # activations need the rest

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def cache_bytes(device: str) -> int:
    """Bytes that the cache may take on the device, once the weights are loaded."""
    if device.startswith("cuda"):
        import torch  # noqa: PLC0415  needless on CPUs

        free, _ = torch.cuda.mem_get_info(torch.device(device))
        return int(free * ACCELERATOR_CACHE_FRACTION)
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

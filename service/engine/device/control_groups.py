"""The limits of this process's control groups: a container's, a systemd unit's, and those of the groups above them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")  # lines of hierarchy, controllers and path; version 2 has no controllers


@dataclass(frozen=True, slots=True)
class _Names:
    """The files of a group's memory, and the values of memory.stat that are cached pages of files."""

    limit: str
    usage: str
    cached: tuple[str, str]


_MEMORY: Final = _Names("memory.max", "memory.current", ("inactive_file", "active_file"))
_MEMORY_1: Final = _Names(
    "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")
)


def memory_left() -> int:
    """Return the bytes that the groups still allow; sys.maxsize without a limit.

    Cached pages of files count as free: reading the weights fills the group with them, and the kernel reclaims them.
    Files in memory and pages that are locked are not among them.
    """
    left = [_left(folder, _MEMORY) for folder in _folders("")]
    left += [_left(folder, _MEMORY_1) for folder in _folders("memory")]
    return min(left, default=sys.maxsize)


def cpu_limit() -> int | None:
    """Return the number of CPUs whose time the groups allow, rounded up; None without a limit."""
    limits = [_cpus(folder, "cpu.max") for folder in _folders("")]
    limits += [_cpus(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us") for folder in _folders("cpu")]
    return min((limit for limit in limits if limit is not None), default=None)


def _cpus(folder: Path, *names: str) -> int | None:
    """Return a group's quota per period, both in microseconds, which version 2 has in one file."""
    try:
        quota, period = map(int, " ".join((folder / name).read_text(encoding="ascii") for name in names).split())
    except (OSError, ValueError):  # the group has no such file, or its quota is "max"
        return None
    return max(1, -(-quota // period)) if quota > 0 and period > 0 else None  # version 1 has -1 without a limit


def _left(folder: Path, names: _Names) -> int:
    """Return the bytes that a group leaves; sys.maxsize if it has no limit."""
    try:
        most = int((folder / names.limit).read_text(encoding="ascii"))
        used = int((folder / names.usage).read_text(encoding="ascii"))
    except (OSError, ValueError):  # the group has no such file, or its limit is "max"
        return sys.maxsize
    try:
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    values = dict(line.split(maxsplit=1) for line in lines)
    return most - used + sum(int(values.get(name, 0)) for name in names.cached)


def _folders(controller: str) -> Iterator[Path]:
    """Yield this process's group of a controller and the groups above it; "" is the hierarchy of version 2.

    A container often sees its own group as the root: the folders of the path are then missing.
    """
    root = ROOT / controller
    path = _own_path(controller)
    yield from (folder for folder in (path, *path.parents) if folder.is_relative_to(root) and folder.is_dir())


def _own_path(controller: str) -> Path:
    """Return the folder of this process's group, the root if it is unknown or above the visible ones."""
    root = ROOT / controller
    try:
        lines = OWN.read_text(encoding="utf-8").splitlines()
    except OSError:
        return root
    for line in lines:
        _, _, controllers_path = line.partition(":")
        controllers, _, path = controllers_path.partition(":")
        if controller in controllers.split(",") and ".." not in path.split("/"):
            return root / path.lstrip("/")
    return root

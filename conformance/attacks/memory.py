"""The resident memory of the attacked server: a process of this machine and all its descendants."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

PROC = Path("/proc")
INTERVAL_S = 0.05
MIB = 2**20
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Growth:
    """Measures, for the block of a `with`, by how much a server's memory exceeds its memory at the start."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._start = self._most = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if self._pid is not None:
            self._start = self._most = resident_bytes(self._pid or 0)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        if self._pid is not None:
            self._thread.join()
            self._most = max(self._most, resident_bytes(self._pid or 0))

    @property
    def mib(self) -> int:
        """The maximum growth in MiB; 0 without a process."""
        return (self._most - self._start) // MIB

    def _watch(self) -> None:
        while not self._is_over.wait(INTERVAL_S):
            self._most = max(self._most, resident_bytes(self._pid or 0))


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants; processes that end meanwhile count as 0."""
    total = 0
    for each in family(pid):
        with contextlib.suppress(OSError):
            total += int((PROC / str(each) / "statm").read_text().split()[1]) * PAGE_BYTES
    return total


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for each in found:
        for children in PROC.glob(f"{each}/task/*/children"):
            with contextlib.suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def listener(port: int) -> int | None:
    """Return the process of this machine that listens on a TCP port, if the kernel shows it."""
    inodes = {
        f"socket:[{fields[9]}]"
        for table in ("tcp", "tcp6")
        if (PROC / "net" / table).exists()
        for fields in (line.split() for line in (PROC / "net" / table).read_text().splitlines()[1:])
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port
    }
    for descriptor in PROC.glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(descriptor.readlink()) in inodes:
                return int(descriptor.parts[2])
    return None

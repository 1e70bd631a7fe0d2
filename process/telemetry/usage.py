"""Resource usage of a process, from Linux's /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """Memory, descriptors and threads of a process at one moment."""

    resident_bytes: int
    num_descriptors: int
    num_threads: int

    @classmethod
    def of_process(cls, pid: int) -> Self | None:
        """Return the usage of a process of the same user; None if it has ended or there is no /proc."""
        folder = Path("/proc") / str(pid)
        try:
            resident_pages = int((folder / "statm").read_text().split()[1])
            num_descriptors, num_threads = (sum(1 for _ in (folder / name).iterdir()) for name in ("fd", "task"))
        except OSError:
            return None
        return cls(resident_pages * os.sysconf("SC_PAGE_SIZE"), num_descriptors, num_threads)

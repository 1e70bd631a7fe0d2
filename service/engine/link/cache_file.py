"""The memory of a worker's cache, which belongs to its parent."""

from __future__ import annotations

import os
import weakref


class CacheFile:
    """A file in memory that a worker maps, and the next worker after its death, until it is closed."""

    def __init__(self) -> None:
        """Raise OSError if the system has no such files."""
        if not hasattr(os, "memfd_create"):
            raise OSError("the system has no files in memory")
        self._file = os.memfd_create("sluice-cache", os.MFD_CLOEXEC)
        self._close = weakref.finalize(self, os.close, self._file)

    @property
    def path(self) -> str:
        """The path by which a child of this process opens the file."""
        return f"/proc/{os.getpid()}/fd/{self._file}"

    def close(self) -> None:
        """Free the memory for good."""
        self._close()

    def free(self) -> None:
        """Free the memory. No worker may use it any more."""
        os.ftruncate(self._file, 0)

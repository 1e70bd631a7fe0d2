"""Bound and return the memory of a process: after a model was loaded, or a long text was read."""

from __future__ import annotations

import ctypes
import gc
import os

_NUM_PRIMITIVES = 8  # as many as a step of a model has kinds of products


def bound_primitives() -> None:
    """Keep few of oneDNN's compiled products, unless the environment says how many; to be called before torch is used.

    It makes one for each number of rows, and keeps 1,024 by default: hundreds of megabytes after minutes of batches
    that are of another size each step.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_NUM_PRIMITIVES))


def settle() -> None:
    """Take what is loaded for good, and give back to the system what only the load needed.

    To look through what is loaded for garbage would hold up a step, or the event loop, by 0.1 s now and then. A load of
    150,000 tokens leaves 25 MB that the C library would keep.
    """
    gc.collect()
    gc.freeze()
    trim()


def trim() -> None:
    """Give back to the system what the C library keeps of memory that is free. Takes milliseconds."""
    trim_heap = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim_heap is not None:
        trim_heap(0)

"""Limit a process's memory, and return free memory to the system after a model was loaded or a long text was read."""

from __future__ import annotations

import ctypes
import gc
import os

_NUM_PRIMITIVES = 8  # the number of different matrix products in a model's step


def limit_primitive_cache() -> None:
    """Keep few of oneDNN's compiled primitives, unless the environment sets a number. Call it before torch is used.

    oneDNN compiles a primitive for each number of rows and keeps 1,024 by default: hundreds of megabytes after a few
    minutes of batches whose size changes with each step.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_NUM_PRIMITIVES))


def freeze_heap() -> None:
    """Exclude all loaded objects from garbage collection, and return the memory that only the load needed.

    Garbage collection over the loaded objects would occasionally delay a step or the event loop by 0.1 s. A load of
    150,000 tokens leaves 25 MB that the C library would keep.
    """
    gc.collect()
    gc.freeze()
    trim_heap()


def trim_heap() -> None:
    """Return the free memory that the C library keeps to the system. This takes milliseconds."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if malloc_trim is not None:
        malloc_trim(0)

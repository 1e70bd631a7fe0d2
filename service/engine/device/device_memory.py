"""The shares of a device's memory: weights, steps, recorded decodes and cache; and the error when it runs out.

A CPU's is in `memory`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from service.generation.errors import ModelLoadError

_GRAPH_PART = 64  # of a device: what recorded decodes take at most
_GB = 1e9


class DeviceMemory(Protocol):
    """The memory of an accelerator."""

    def info(self) -> tuple[int, int]:
        """Free and total bytes."""

    def watch(self) -> None:
        """Measure the peak from now on."""

    def peak(self) -> int:
        """Bytes that were taken at most since, beyond what was taken then."""


def graph_bytes(memory: DeviceMemory) -> int:
    """What recorded decodes may take: a sixty-fourth of the device."""
    return memory.info()[1] // _GRAPH_PART


def require_room(memory: DeviceMemory, part: float, weight_bytes: int, folder: Path) -> None:
    """Raise ModelLoadError for weights that the device has no room for, before a byte is read."""
    free, total = memory.info()
    room = int(total * part) - (total - free)
    if weight_bytes > room:
        raise ModelLoadError(
            f"{folder}: the weights take {weight_bytes / _GB:.1f} GB, and {max(room, 0) / _GB:.1f} GB are left: "
            f"engine.device_memory {part:g} of the device's {total / _GB:.1f} GB, {(total - free) / _GB:.1f} GB taken"
        )


def room_for_cache(memory: DeviceMemory, part: float, step_bytes: int) -> int:
    """Bytes for the cache once weights are loaded: `part` of the device, less what is taken, a step and recordings."""
    free, total = memory.info()
    return int(total * part) - (total - free) - step_bytes - graph_bytes(memory)


@contextmanager
def out_of_memory_explained(memory: DeviceMemory | None, folder: Path) -> Iterator[None]:
    """Turn torch's error, pages long, into a ModelLoadError of one line."""
    try:
        yield
    except RuntimeError as error:
        # By its name: on CPUs torch may not even be imported.
        if memory is None or type(error).__name__ != "OutOfMemoryError":
            raise
        free, total = memory.info()
        raise ModelLoadError(
            f"{folder}: the device has no memory left while it is loaded: {free / _GB:.1f} of {total / _GB:.1f} GB are "
            "free; lower engine.device_memory or engine.max_batch_tokens, or take a smaller model"
        ) from error

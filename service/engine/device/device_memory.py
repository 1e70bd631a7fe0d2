"""Divide an accelerator's memory among weights, steps, CUDA graphs and the KV cache, and report when it runs out.

Host memory is divided in `memory`. `fraction` is the part of the device's total memory that the engine may use,
engine.device_memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from service.generation.errors import ModelLoadError

_GRAPH_DIVISOR = 64  # CUDA graphs of decode steps take at most 1/64 of the device
_GB = 1e9


class DeviceMemory(Protocol):
    """The memory of an accelerator."""

    def info(self) -> tuple[int, int]:
        """Return the free and the total bytes."""

    def reset_peak(self) -> None:
        """Start to measure the peak from the bytes that are allocated now."""

    def peak(self) -> int:
        """Return the peak of allocated bytes since `reset_peak`, minus those allocated at that time."""


def graph_bytes(memory: DeviceMemory) -> int:
    """Return the bytes that CUDA graphs of decode steps may take: 1/64 of the device."""
    return memory.info()[1] // _GRAPH_DIVISOR


def require_capacity(memory: DeviceMemory, fraction: float, weight_bytes: int, folder: Path) -> None:
    """Raise ModelLoadError if the weights do not fit on the device, before any of them is read."""
    free, total = memory.info()
    capacity = int(total * fraction) - (total - free)
    if weight_bytes > capacity:
        raise ModelLoadError(
            f"{folder}: the weights take {weight_bytes / _GB:.1f} GB, and {max(capacity, 0) / _GB:.1f} GB are left: "
            f"engine.device_memory {fraction:g} of the device's {total / _GB:.1f} GB, "
            f"{(total - free) / _GB:.1f} GB taken"
        )


def cache_capacity(memory: DeviceMemory, fraction: float, step_bytes: int) -> int:
    """Return the bytes for the KV cache: `fraction` of the device, minus allocated memory, a step and CUDA graphs.

    `step_bytes` is the measured peak of a step with the largest batch.
    """
    free, total = memory.info()
    return int(total * fraction) - (total - free) - step_bytes - graph_bytes(memory)


@contextmanager
def explain_out_of_memory(memory: DeviceMemory | None, folder: Path) -> Iterator[None]:
    """Convert torch's out-of-memory error, which is pages long, to a ModelLoadError of one line."""
    try:
        yield
    except RuntimeError as error:
        # The class is compared by name, because torch is not imported for every model.
        if memory is None or type(error).__name__ != "OutOfMemoryError":
            raise
        free, total = memory.info()
        raise ModelLoadError(
            f"{folder}: the device has no memory left while it is loaded: {free / _GB:.1f} of {total / _GB:.1f} GB are "
            "free; lower engine.device_memory or engine.max_batch_tokens, or use a smaller model"
        ) from error

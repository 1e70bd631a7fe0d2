"""Copies between host and device: asynchronous to the device, and with a single wait back to the host, now or later.

On a CPU `to_device` and `to_host` return views.
"""

from __future__ import annotations

from collections import abc
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(values: NDArray[Any], device: torch.device) -> Tensor:
    """Return the values as a tensor on the device, copied from pinned memory without waiting for the device."""
    tensor = torch.from_numpy(values)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


def to_host(tensors: abc.Sequence[Tensor]) -> list[NDArray[Any]]:
    """Return the tensors' values as arrays. One copy moves all of them and waits for the device's queued work."""
    if not tensors or tensors[0].device.type == "cpu":
        return [tensor.numpy() for tensor in tensors]
    return _split(_joined(tensors).cpu().numpy(), tensors)


class HostCopy:
    """A copy of tensors to the host. The device makes it after the work that is queued now, and before later work."""

    def __init__(self, tensors: abc.Sequence[Tensor]) -> None:
        self._tensors = tensors
        joined = _joined(tensors)
        self._bytes = joined.to("cpu", non_blocking=True)
        self._made = torch.cuda.current_stream(joined.device).record_event() if joined.is_cuda else None

    def values(self) -> list[NDArray[Any]]:
        """Wait for the copy, and return the tensors' values as arrays."""
        if self._made is not None:
            self._made.synchronize()
        return _split(self._bytes.numpy(), self._tensors)


def _joined(tensors: abc.Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.contiguous().view(-1).view(torch.uint8) for tensor in tensors])


def _split(flat: NDArray[np.uint8], tensors: abc.Sequence[Tensor]) -> list[NDArray[Any]]:
    ends = np.cumsum([tensor.numel() * tensor.itemsize for tensor in tensors])
    parts = np.split(flat, ends[:-1])
    return [
        # Copied, because a part may not be aligned to its type.
        np.frombuffer(part.tobytes(), _NUMPY[tensor.dtype]).reshape(tensor.shape)
        for part, tensor in zip(parts, tensors, strict=True)
    ]


_NUMPY = {torch.bool: np.bool_, torch.int64: np.int64, torch.float32: np.float32}

"""Copies between host and device: to the device without waiting, back with one wait.

On a CPU both are views.
"""

from __future__ import annotations

from collections import abc
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(values: NDArray[Any], device: torch.device) -> Tensor:
    """Those values there. The copy starts from pinned memory, so that nobody waits for what the device is at."""
    tensor = torch.from_numpy(values)
    if device.type == "cpu":
        return tensor
    return tensor.pin_memory().to(device, non_blocking=True)


def to_host(tensors: abc.Sequence[Tensor]) -> list[NDArray[Any]]:
    """The tensors' values in one copy, which waits for all that the device was given before."""
    if not tensors or tensors[0].device.type == "cpu":
        return [tensor.numpy() for tensor in tensors]
    flat = torch.cat([tensor.contiguous().view(-1).view(torch.uint8) for tensor in tensors]).cpu().numpy()
    ends = np.cumsum([tensor.numel() * tensor.itemsize for tensor in tensors])
    parts = np.split(flat, ends[:-1])
    return [
        # A copy: a part need not begin where its type may.
        np.frombuffer(part.tobytes(), _NUMPY[tensor.dtype]).reshape(tensor.shape)
        for part, tensor in zip(parts, tensors, strict=True)
    ]


_NUMPY = {torch.bool: np.bool_, torch.int64: np.int64, torch.float32: np.float32}

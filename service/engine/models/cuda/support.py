"""What the kernels support. It doesn't import Triton, which is installed with torch for CUDA only."""

from __future__ import annotations

import torch

MOST_HEAD_NUMBERS = 256  # of a head, for the attention kernels
_LEAST_CAPABILITY = (8, 0)  # bfloat16's matrix products need Ampere or newer


def device_unsupported_reason(device: torch.device) -> str | None:
    """Return why the kernels do not support a device, or None if they do."""
    if device.type != "cuda" or torch.version.hip:
        return f"{device} is not an NVIDIA device"
    if (found := torch.cuda.get_device_capability(device)) < _LEAST_CAPABILITY:
        return f"its compute capability is {found[0]}.{found[1]}, the kernels need {_LEAST_CAPABILITY[0]}.0"
    return None

"""NVIDIA devices: torch's attention kernel, CUDA graphs and device memory.

All code that needs such a device is in this module; tests without one use test doubles.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn.attention.varlen import varlen_attn

from service.engine.models.attention.accelerator import Accelerator
from service.engine.models.attention.decode_graphs import GraphLimits, Recording
from service.engine.models.attention.varlen import VarlenKernel

_LEAST_CAPABILITY = (8, 0)  # flash attention needs Ampere or newer
# Flash attention 2, the version in torch, takes pages of multiples of 256 tokens (Dao-AILab/flash-attention, issue
# 828). If it chooses the number of splits itself, it may return NaN for pages (pytorch/torchtitan, issue 3235). With
# one split, the bits of a row also do not depend on the lengths of other rows.
FLASH_ATTENTION = VarlenKernel(
    attend=cast("Callable[..., Tensor]", varlen_attn),  # without `return_aux` it returns one tensor
    dtypes=frozenset({torch.float16, torch.bfloat16}),
    page_multiple=256,
    head_multiple=8,
    max_head_dim=256,
    num_splits=1,
)


def cuda_accelerator(device: torch.device, max_sequences: int, max_context: int, max_bytes: int) -> Accelerator | None:
    """Return the kernel and recorder of a device, or None if flash attention does not support the device."""
    if torch.version.hip or torch.cuda.get_device_capability(device) < _LEAST_CAPABILITY:
        return None
    return Accelerator(FLASH_ATTENTION, CudaRecorder(device), GraphLimits(max_sequences, max_context, max_bytes))


@dataclass(frozen=True, slots=True)
class CudaRecording:
    """A CUDA graph and its output."""

    graph: torch.cuda.CUDAGraph
    result: Tensor

    def replay(self) -> None:
        """Launch the graph on the current stream."""
        self.graph.replay()


class CudaRecorder:
    """A Recorder of CUDA graphs, which share a memory pool because only one of them runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], Tensor]) -> Recording:
        """Run `work` once on a side stream, because libraries allocate at their first call, then capture it."""
        with torch.cuda.device(self._device):
            side_stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side_stream):
                work()
            torch.cuda.current_stream().wait_stream(side_stream)
            graph = torch.cuda.CUDAGraph()
            # Threads of other engines may use the device at the same time.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                result = work()
        return CudaRecording(graph, result)

    def free_bytes(self) -> int:
        """Return the free bytes of the device, as reported by the driver."""
        return torch.cuda.mem_get_info(self._device)[0]


class CudaMemory:
    """The DeviceMemory of a CUDA device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = 0

    def info(self) -> tuple[int, int]:
        """Return free and total bytes; memory cached by torch counts as free."""
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self._device)

    def reset_peak(self) -> None:
        """Start to measure the peak from the bytes that are allocated now."""
        torch.cuda.reset_peak_memory_stats(self._device)
        self._before = torch.cuda.memory_allocated(self._device)

    def peak(self) -> int:
        """Return the peak of allocated bytes since `reset_peak`, minus those allocated at that time."""
        torch.cuda.synchronize(self._device)
        return torch.cuda.max_memory_allocated(self._device) - self._before

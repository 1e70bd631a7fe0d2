"""NVIDIA devices: torch's attention kernel for them, recordings, and their memory.

What only such a device can run stands here and nowhere else; a double of each is what the tests use elsewhere.
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

_LEAST_CAPABILITY = (8, 0)  # of a device that flash attention has kernels for: Ampere
# Flash attention 2, which is what torch brings, takes pages of multiples of 256 tokens (Dao-AILab/flash-attention,
# issue 828). Left to choose the number of splits itself, it may return NaN for pages (pytorch/torchtitan, issue 3235);
# with one, a row's bits don't depend on the others' lengths either.
FLASH_ATTENTION = VarlenKernel(
    attend=cast("Callable[..., Tensor]", varlen_attn),  # without `return_aux` it returns one tensor
    dtypes=frozenset({torch.float16, torch.bfloat16}),
    page_multiple=256,
    head_multiple=8,
    max_head_dim=256,
    num_splits=1,
)


def cuda_accelerator(device: torch.device, max_sequences: int, max_context: int, max_bytes: int) -> Accelerator | None:
    """What that device has; None for one that has no such kernels."""
    if torch.version.hip or torch.cuda.get_device_capability(device) < _LEAST_CAPABILITY:
        return None
    return Accelerator(FLASH_ATTENTION, CudaRecorder(device), GraphLimits(max_sequences, max_context, max_bytes))


@dataclass(frozen=True, slots=True)
class CudaRecording:
    """A CUDA graph."""

    graph: torch.cuda.CUDAGraph
    result: Tensor

    def replay(self) -> None:
        """Launch it on the current stream."""
        self.graph.replay()


class CudaRecorder:
    """A Recorder whose recordings share a pool of memory, since only one of them runs at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], Tensor]) -> Recording:
        """Run `work` once beside, for libraries that make their memory with their first call, then keep it."""
        with torch.cuda.device(self._device):
            beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            beside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(beside):
                work()
            torch.cuda.current_stream().wait_stream(beside)
            graph = torch.cuda.CUDAGraph()
            # Other engines' threads may be at work on the device.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                result = work()
        return CudaRecording(graph, result)

    def free_bytes(self) -> int:
        """The device's, by the driver."""
        return torch.cuda.mem_get_info(self._device)[0]


class CudaMemory:
    """A DeviceMemory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before = 0

    def info(self) -> tuple[int, int]:
        """Free and total bytes; what torch keeps for later counts as free."""
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(self._device)

    def watch(self) -> None:
        """Measure from now on."""
        torch.cuda.reset_peak_memory_stats(self._device)
        self._before = torch.cuda.memory_allocated(self._device)

    def peak(self) -> int:
        """Bytes that were taken at most since, beyond what was taken then."""
        torch.cuda.synchronize(self._device)
        return torch.cuda.max_memory_allocated(self._device) - self._before

"""The kernels and the graph recorder of a device; a CPU has neither."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from service.engine.models.attention.decode_graphs import GraphLimits, Recorder
from service.engine.models.attention.device_kernels import DeviceKernels
from service.engine.models.attention.kv_cache import CacheShape, KVCache
from service.engine.models.attention.page_cache import PageCache

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A device's kernels, and a recorder of decodes with its limits."""

    kernels: DeviceKernels
    recorder: Recorder
    limits: GraphLimits


def make_cache(
    accelerator: Accelerator | None, shape: CacheShape, num_blocks: int, block_size: int, device: torch.device
) -> KVCache | PageCache:
    """Return a PageCache if the kernels support it, otherwise a KVCache; the log has the reason."""
    if accelerator is None:
        return KVCache(shape, num_blocks, block_size, device)
    if (reason := accelerator.kernels.unsupported_reason(shape, block_size)) is not None:
        _log.warning("attention takes several calls per layer, and no decode graphs are captured: %s", reason)
        return KVCache(shape, num_blocks, block_size, device)
    return PageCache(shape, num_blocks, block_size, device)

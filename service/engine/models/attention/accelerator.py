"""The kernels and recordings that a device has in addition to torch's operators; a CPU has none."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from service.engine.models.attention.decode_graphs import GraphLimits, Recorder
from service.engine.models.attention.kv_cache import CacheShape, KVCache
from service.engine.models.attention.page_cache import PageCache
from service.engine.models.attention.varlen import VarlenKernel

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A kernel for attention over pages, and a recorder of decodes with its limits."""

    kernel: VarlenKernel
    recorder: Recorder
    limits: GraphLimits


def make_cache(
    accelerator: Accelerator | None, shape: CacheShape, num_blocks: int, block_size: int, device: torch.device
) -> KVCache | PageCache:
    """Pages, where there is a kernel that can attend over them; the log says why another can't."""
    if accelerator is None:
        return KVCache(shape, num_blocks, block_size, device)
    if (reason := accelerator.kernel.refusal(shape, block_size)) is not None:
        _log.warning("attention takes several calls a layer, and no decodes are recorded: %s", reason)
        return KVCache(shape, num_blocks, block_size, device)
    return PageCache(shape, num_blocks, block_size, device)

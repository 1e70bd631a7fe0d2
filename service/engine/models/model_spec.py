"""The description of a model by which a backend is chosen and loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.engine.models.checkpoint.checkpoint import Checkpoint

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The properties of a model, of its device and of its settings that decide which backend can serve it."""

    config: Any  # as `read_model_config` returns it
    checkpoint: Checkpoint
    dtype: str  # of the arithmetic, by torch's name
    device: str  # by torch's name
    max_positions: int  # tokens of the longest sequence
    block_size: int = 16  # tokens a cache block
    quantization: str | None = None  # int8 or int4: to round the weights to as they are loaded
    most_threads: int = 1  # for steps that are long enough
    tensor_parallel: int = 1  # processes that share weights and cache
    max_adapters: int = 0  # that it may come to hold
    max_sequences: int = 64  # that run at a time
    batch_invariant: bool = False  # its answers must not depend on what else is in a step
    max_graph_bytes: int = 0  # of a device, for recorded decodes
    kv_cache_dtype: str = AUTO  # of keys and values, by torch's name; AUTO: `dtype`

    @property
    def cache_dtype(self) -> str:
        """The type of cached keys and values, by torch's name."""
        return self.dtype if self.kv_cache_dtype == AUTO else self.kv_cache_dtype

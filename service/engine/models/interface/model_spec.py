"""The specification of a model, from which a backend is selected and loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.engine.models.checkpoint.checkpoint import Checkpoint

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """The properties of a model, its device and its settings that determine which backend can serve it."""

    config: Any  # as `read_model_config` returns it
    checkpoint: Checkpoint
    dtype: str  # of the arithmetic, by torch's name
    device: str  # by torch's name
    max_positions: int  # tokens of the longest sequence
    block_size: int = 16  # tokens per cache block
    quantization: str | None = None  # int8 or int4: quantize the weights during the load
    most_threads: int = 1  # the threads of long steps
    tensor_parallel: int = 1  # the number of processes that hold shards of weights and cache
    max_adapters: int = 0  # adapters loaded at a time
    max_sequences: int = 64  # sequences that run at a time
    batch_invariant: bool = False  # answers must not depend on the other requests of a step
    max_graph_bytes: int = 0  # the device memory for CUDA graphs of decode steps
    kv_cache_dtype: str = AUTO  # of keys and values, by torch's name; AUTO: `dtype`

    @property
    def cache_dtype(self) -> str:
        """The type of cached keys and values, by torch's name."""
        return self.dtype if self.kv_cache_dtype == AUTO else self.kv_cache_dtype

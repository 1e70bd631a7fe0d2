"""The size of a generator's cache: blocks, adapters and sequence states in the memory that the weights leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from service.engine.device.device_memory import DeviceMemory, cache_capacity
from service.engine.device.memory import cache_bytes
from service.engine.interface.cache_group import CacheGroup, max_blocks
from service.engine.interface.config import EngineConfig
from service.engine.loading.model_plan import ModelPlan
from service.engine.models.checkpoint.checkpoint import Checkpoint
from service.engine.models.checkpoint.text_part import text_config
from service.engine.models.interface.backend import Backend, KeepsSequenceState
from service.engine.runner.step_memory import measure_step_bytes
from service.generation.errors import ModelLoadError

_CHECKPOINT_SHARE = 0.15  # of the memory for caches: the states of prefixes
_MOST_CHECKPOINTS = 16_384


def available_cache_bytes(
    backend: Backend[Any], plan: ModelPlan, config: EngineConfig, memory: DeviceMemory | None
) -> int:
    """Return the bytes available for caches after the weights are loaded."""
    if memory is None:
        return cache_bytes()
    step_bytes = measure_step_bytes(
        backend,
        memory,
        num_tokens=config.max_batch_tokens,
        num_sequences=config.max_batch_sequences,
        max_positions=plan.spec.max_positions,
        block_size=plan.spec.block_size,
        vocab_size=text_config(plan.spec.config).vocab_size,
    )
    return cache_capacity(memory, config.device_memory, step_bytes)


def adapter_bytes(checkpoint: Checkpoint, config: EngineConfig) -> int:
    """Return the bytes that `max_adapters` adapters take at most: float32 on every matrix, ranks padded to 16."""
    sides = sum(sum(shape) for _, shape, _ in checkpoint.describe() if len(shape) == 2)
    return 4 * sides * -(-config.max_adapter_rank // 16) * 16 * (config.max_adapters or 0)


def limit_sequences(
    config: EngineConfig, backend: KeepsSequenceState, cache_bytes_left: int, folder: Path
) -> tuple[EngineConfig, int]:
    """Limit running sequences to those whose state fits into half of the bytes.

    Return the resolved config and the number of slots for states: one for each running sequence and, if the backend can
    keep states of prefixes, more for checkpoints and drafts. Prefix caching is off if it cannot.
    """
    num_sequences, num_checkpoints = state_slots(
        backend.bytes_per_sequence, cache_bytes_left, config.max_batch_sequences
    )
    if num_sequences < 1:
        each = backend.bytes_per_sequence
        raise ModelLoadError(f"no memory is left for the state of a sequence of {folder}, {each} bytes")
    resolved = replace(config, max_batch_sequences=num_sequences)
    if not backend.splits_states:
        return replace(resolved, prefix_caching=False), num_sequences
    return resolved, num_sequences + num_checkpoints


def state_slots(bytes_each: int, num_bytes: int, most_sequences: int) -> tuple[int, int]:
    """Return how many sequences can run with their states in the caches' bytes, and how many checkpoints are kept."""
    if not bytes_each:
        return most_sequences, _MOST_CHECKPOINTS
    num_sequences = min(most_sequences, num_bytes // 2 // bytes_each)
    return num_sequences, min(int(num_bytes * _CHECKPOINT_SHARE) // bytes_each, _MOST_CHECKPOINTS)


def choose_num_blocks(
    config: EngineConfig,
    max_model_len: int,
    groups: Sequence[CacheGroup],
    *,
    bytes_per_block: int,
    cache_bytes_left: int,
    folder: Path,
) -> int:
    """Return the number of blocks that fit, at most those that a full batch of sequences of maximum length uses."""
    of_sequence = max_blocks(groups, max_model_len, config.max_batch_tokens, config.tokens_per_block)
    useful = config.max_batch_sequences * of_sequence
    affordable = cache_bytes_left // bytes_per_block if bytes_per_block else useful
    if affordable < 1:
        raise ModelLoadError(f"no memory is left for the cache of {folder}")
    return min(useful, affordable)

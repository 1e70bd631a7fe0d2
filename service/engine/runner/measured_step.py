"""Measure the device memory that a step needs, by computing the largest one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from service.engine.core.batch import BatchEntry, lay_out
from service.engine.device.device_memory import DeviceMemory
from service.engine.models.backend import Backend, KeepsSequences

_COPIES_OF_LOGITS = 4  # that a sampler makes: changed, truncated, sorted, as weights; each float32


def measured_step(
    backend: Backend[Any],
    memory: DeviceMemory,
    *,
    num_tokens: int,
    num_sequences: int,
    max_positions: int,
    block_size: int,
    vocab_size: int,
) -> int:
    """Bytes of a step of so many tokens of so many sequences, over a cache that `allocate` is to replace.

    No sequence has more than `max_positions` tokens, so a step of few sequences may have less in all.
    """
    lengths = [min(length, max_positions) for length in _shares(num_tokens, num_sequences)]
    num_blocks = -(-max(lengths) // block_size)
    # All in the same blocks: nobody reads the result.
    table = array("i", range(num_blocks))
    backend.allocate(num_blocks, block_size)
    batch = replace(
        lay_out([BatchEntry([0] * length, 0, table[: -(-length // block_size)], 1) for length in lengths], block_size),
        slots=range(len(lengths)),
    )
    memory.watch()
    backend.forward(batch)
    if isinstance(backend, KeepsSequences):
        for slot in batch.slots:
            backend.forget(slot)
    return memory.peak() + _COPIES_OF_LOGITS * 4 * num_sequences * vocab_size


def _shares(num_tokens: int, num_sequences: int) -> Iterable[int]:
    each, rest = divmod(num_tokens, num_sequences)
    return (each + (index < rest) for index in range(num_sequences))

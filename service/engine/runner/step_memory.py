"""Measure the device memory of a step by running the largest one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from service.engine.core.batch import BatchEntry, lay_out
from service.engine.device.device_memory import DeviceMemory
from service.engine.models.interface.backend import Backend, KeepsSequenceState

_COPIES_OF_LOGITS = 4  # that a sampler makes, in float32: adjusted, truncated, sorted, and as probabilities


def measure_step_bytes(
    backend: Backend[Any],
    memory: DeviceMemory,
    *,
    num_tokens: int,
    num_sequences: int,
    max_positions: int,
    block_size: int,
    vocab_size: int,
) -> int:
    """Return the bytes that a step of `num_tokens` tokens in `num_sequences` sequences takes beyond weights and cache.

    The step runs over a temporary cache, which a later `allocate` replaces. No sequence has more than `max_positions`
    tokens, so a step of few sequences may have fewer tokens in total.
    """
    lengths = [min(length, max_positions) for length in _shares(num_tokens, num_sequences)]
    num_blocks = -(-max(lengths) // block_size)
    # All sequences use the same blocks, because the result is not read.
    table = array("i", range(num_blocks))
    backend.allocate(num_blocks, block_size)
    entries = [BatchEntry([0] * length, 0, [table[: -(-length // block_size)]], 1) for length in lengths]
    states = np.array([(slot, slot, 0, -1) for slot in range(len(lengths))], np.int32)
    memory.reset_peak()
    backend.forward(replace(lay_out(entries, block_size), states=states))
    if isinstance(backend, KeepsSequenceState):
        for slot in range(len(lengths)):
            backend.forget(slot)
    return memory.peak() + _COPIES_OF_LOGITS * 4 * num_sequences * vocab_size


def _shares(num_tokens: int, num_sequences: int) -> Iterable[int]:
    each, rest = divmod(num_tokens, num_sequences)
    return (each + (index < rest) for index in range(num_sequences))

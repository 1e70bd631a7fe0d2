"""Cache memory is allocated between steps, before it is used."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np
import pytest
import sluice_native

from tests.native.decoders import CONFIGS, native, reference
from tests.waiting import GUARD_S

MIB = 1 << 20
BLOCK_SIZE = 16
CACHE_BYTES = 256 * MIB


def num_blocks_in(model: sluice_native.Model, num_bytes: int) -> int:
    return num_bytes // (sum(model.bytes_per_slot) * BLOCK_SIZE)


def step(model: sluice_native.Model, block: int) -> None:
    """Compute one token in a block of the cache."""
    token, position, offsets = np.array([1], np.int32), np.array([0], np.int32), np.array([0, 1], np.int32)
    model.step(token, position, offsets, token, np.array([[block]], np.int32), position)


def given(before: int, at_least: int) -> int:
    """Return the bytes allocated since `before`, when they are at least `at_least` and no longer grow."""
    deadline = time.monotonic() + GUARD_S
    last = -1
    while (now := resident_bytes() - before) < at_least or now != last:
        assert time.monotonic() < deadline, f"{now} bytes were given, of {at_least}"
        last = now
        time.sleep(0.2)
    return now


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.slow
def test_memory_is_allocated_before_a_step_uses_it() -> None:
    """The minimum is allocated at first, and later as much as is in use again; use grows down from the cache's end."""
    model = native(reference(CONFIGS["qwen3"]), "float32")
    num_blocks = num_blocks_in(model, CACHE_BYTES)
    before = resident_bytes()
    model.allocate(num_blocks, BLOCK_SIZE)
    assert given(before, 6 * MIB) < 12 * MIB
    step(model, num_blocks - num_blocks_in(model, 24 * MIB))
    assert given(before, 24 * MIB) < 44 * MIB, "what lies behind is not in use here"
    step(model, 0)
    assert given(before, 24 * MIB) < 48 * MIB, "nothing lies before it"


def test_a_cache_can_be_replaced_and_freed_while_its_memory_is_allocated() -> None:
    model = native(reference(CONFIGS["qwen3"]), "float32")
    for _ in range(20):
        model.allocate(num_blocks_in(model, CACHE_BYTES), BLOCK_SIZE)
        step(model, num_blocks_in(model, CACHE_BYTES // 2))
    del model

"""Measurement of a model's step times on this machine: `python -m bench.fleet calibrate --model MODEL`."""

from __future__ import annotations

import statistics
import time
from array import array
from typing import Any

from bench.fleet.simulated.step_model import StepTable
from service.engine.core.batch import BatchEntry, lay_out
from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import load_model

_BATCHES = (1, 2, 4, 8, 16, 32, 64)
_PROMPTS = (1, 64, 128, 256, 512, 1024, 2048)
_CONTEXT = 512
_NUM_ROUNDS = 5


def calibrate(model: str, config: EngineConfig) -> StepTable:
    """Measure the backend of a model without scheduler and sampler; the times are medians of several rounds."""
    loaded = load_model(model, config)
    size, runner = loaded.config.tokens_per_block, loaded.runner
    longest = loaded.info.max_model_len
    context = min(_CONTEXT, longest - 1)
    assert loaded.config.num_blocks is not None  # noqa: S101  it is resolved
    runner.backend.prepare_thread(loaded.config.num_threads)
    prompts = [number for number in _PROMPTS if number <= min(longest, config.max_batch_tokens)]
    most = min(loaded.config.num_blocks * size // (context + 1), config.max_batch_sequences)
    batches = [number for number in _BATCHES if number <= most]
    prefill = [(number, _seconds(runner.backend, [(0, number)], size)) for number in prompts]
    decode = [(number, _seconds(runner.backend, [(context, 1)] * number, size)) for number in batches]
    short = _seconds(runner.backend, [(size, 1)] * batches[-1], size)
    return StepTable(
        model,
        tuple(decode),
        tuple(prefill),
        context,
        max(decode[-1][1] - short, 0.0) / (batches[-1] * (context - size)),
        num_blocks=loaded.config.num_blocks,
        block_size=size,
    )


def _seconds(backend: Any, parts: list[tuple[int, int]], block_size: int) -> float:
    """Return the median time of steps that compute, for each (start, number) of `parts`, tokens from that position."""
    blocks = -(-max(start + number for start, number in parts) // block_size)
    batch = lay_out(
        [
            BatchEntry([1] * number, start, [array("i", range(index * blocks, (index + 1) * blocks))], 1)
            for index, (start, number) in enumerate(parts)
        ],
        block_size,
    )
    backend.forward(batch)
    taken = []
    for _ in range(_NUM_ROUNDS):
        began = time.perf_counter()
        backend.forward(batch)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)

"""Measure native steps of models with recurrent layers: tokens per second of decodes and of a prompt.

Run as `python -m bench.engine.native.recurrent_step [--shapes lfm2-350m …] [--types bfloat16 int8 int4] [--threads 2]`,
with native/ installed. The weights are random, which take the same time as trained ones, and the shapes are those of
published models. Each number is the median of several steps; `16 / 1` is the ratio of the decoded tokens per second.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
import sluice_native

from bench.recurrent_shapes import RECURRENT_CONFIGS
from service.engine.models.plans.families.table import plan_of

BLOCK_SIZE = 16
CONTEXT = 128
STREAMS = (1, 16)
PREFILL = 512


class Steps:
    """A model with random weights, and its steps of sequences that all have CONTEXT tokens."""

    def __init__(self, shape: str, weight_type: str, num_threads: int) -> None:
        plan = plan_of(RECURRENT_CONFIGS[shape]())
        self.model = sluice_native.Model(plan.to_native(), weight_type=weight_type, num_threads=num_threads)
        generator = np.random.default_rng(0)
        for name, size in self.model.tensors().items():
            values = generator.standard_normal(int(np.prod(size)), np.float32).reshape(size)
            self.model.load(name, values * np.float32(0.02) if len(size) > 1 else np.abs(values))
        self.model.allocate(max(STREAMS) * -(-CONTEXT // BLOCK_SIZE) + PREFILL // BLOCK_SIZE, BLOCK_SIZE)
        self.model.allocate_states(max(STREAMS))

    def decode(self, num_sequences: int) -> float:
        """Return the tokens per second of a step that computes one token of each sequence."""
        return num_sequences / self._time(num_sequences, 1, CONTEXT)

    def prefill(self) -> float:
        """Return the tokens per second of a step that computes a prompt."""
        return PREFILL / self._time(1, PREFILL, PREFILL)

    def _time(self, num_sequences: int, num_new: int, length: int) -> float:
        """Return the median seconds of a step in which each sequence computes its last tokens."""
        blocks_each = -(-length // BLOCK_SIZE)
        num_tokens = num_sequences * num_new
        slots = np.arange(num_sequences)
        arguments: dict[str, Any] = {
            "token_ids": np.arange(num_tokens) % 1_000,
            "positions": np.tile(np.arange(length - num_new, length), num_sequences),
            "row_offsets": np.arange(0, num_tokens + 1, num_new),
            "context_lengths": np.full(num_sequences, length),
            "block_tables": np.arange(num_sequences * blocks_each).reshape(num_sequences, -1),
            "output_rows": np.arange(num_new - 1, num_tokens, num_new),
            "states": np.stack([slots, slots, 0 * slots, 0 * slots - 1], axis=1),
        }
        given: Any = {name: np.ascontiguousarray(array, np.int32) for name, array in arguments.items()}
        taken: list[float] = []
        ends = time.perf_counter() + 3
        while len(taken) < 5 or time.perf_counter() < ends:
            began = time.perf_counter()
            self.model.step(**given)
            taken.append(time.perf_counter() - began)
        return statistics.median(taken)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--shapes", nargs="+", default=list(RECURRENT_CONFIGS), choices=list(RECURRENT_CONFIGS))
    parser.add_argument("--types", nargs="+", default=["bfloat16"])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print("| shape | weights | state MB | 1 stream | 16 streams | 16 / 1 | prompt of 512 |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for shape in options.shapes:
        for weight_type in options.types:
            steps = Steps(shape, weight_type, options.threads)
            one, many = map(steps.decode, STREAMS)
            state = steps.model.bytes_per_state / 1e6
            print(
                f"| {shape} | {weight_type} | {state:.2f} | {one:.1f} | {many:.1f} | {many / one:.1f} "
                f"| {steps.prefill():.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

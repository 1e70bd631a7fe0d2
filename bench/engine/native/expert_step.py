"""Measure decode steps of a model of experts, and compare them with the time to read the weights that they use.

Run as `python -m bench.engine.native.expert_step [--types bfloat16 int8 int4] [--batches 1 4 16] [--threads 2]`, with
native/ installed. The weights are random, and each step has other tokens, which choose other experts. Prints the median
and the best of the steps; the time to read all weights, measured between the steps on the same threads, times the share
of the weights that one row uses; and the ratio of the two for a batch of one.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from typing import Any, Final

import numpy as np
import sluice_native

from bench.engine.native.native_step import BLOCK_SIZE, blocks_of, step_arrays
from service.engine.models.plans.expert_sources import is_expert_tensor
from service.engine.models.plans.plan import AttentionPlan, DecoderPlan, ExpertsPlan, LayerPlan, RotaryPlan

# Qwen3-30B-A3B's layers with fewer experts: 0.4 B parameters in all.
_HIDDEN, _HEADS, _KV_HEADS, _HEAD_DIM, _LAYERS, _VOCABULARY = 2_048, 32, 4, 128, 2, 32_768
_EXPERTS: Final = ExpertsPlan(num_experts=32, num_chosen=4, width=768, is_renormalized=True)
_CONTEXT: Final = 32
_SECONDS: Final = 3.0
_LEAST_STEPS: Final = 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", nargs="*", default=["bfloat16"], choices=["float32", "bfloat16", "int8", "int4"])
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for weight_type in options.types:
        model = _random_model(weight_type, max(options.batches), options.threads)
        share = _share_of_a_row(model)
        print(f"{weight_type}, {model.instruction_set}, {model.weight_bytes / 1e6:.0f} MB of weights, ", end="")
        print(f"{share:.2f} of them for one row")
        for batch in options.batches:
            for name, (step, reading) in _timed(model, batch, options.threads).items():
                ratio = f", ratio {share * reading / step:.2f}" if batch == 1 else ""
                print(f"  batch {batch:2}, {name}: {1e3 * step:.3f} ms; ", end="")
                print(f"one row's weights read in {1e3 * share * reading:.3f}{ratio}", flush=True)


def _plan() -> dict[str, Any]:
    attention = AttentionPlan(
        num_heads=_HEADS, num_kv_heads=_KV_HEADS, head_dim=_HEAD_DIM, scale=_HEAD_DIM**-0.5, head_norm="head"
    )
    frequencies = 1e6 ** -(np.arange(0, _HEAD_DIM, 2) / _HEAD_DIM)
    return DecoderPlan(
        vocab_size=_VOCABULARY,
        hidden_size=_HIDDEN,
        norm_epsilon=1e-6,
        is_tied=True,
        rotary=(RotaryPlan(inverse_frequencies=tuple(frequencies.tolist())),),
        layers=(LayerPlan(attention=attention, feed_forward=_EXPERTS),) * _LAYERS,
    ).to_native()


def _random_model(weight_type: str, most_rows: int, threads: int) -> sluice_native.Model:
    model = sluice_native.Model(_plan(), weight_type=weight_type, num_threads=threads)
    sizes = [math.prod(shape) for shape in model.tensors().values()]
    numbers = np.random.default_rng(0).standard_normal(max(sizes) + len(sizes), dtype=np.float32)
    for index, (name, shape) in enumerate(model.tensors().items()):
        scale = np.float32(1.0 if name.endswith("mlp.gate.weight") else 0.02)
        model.load(name, numbers[index : index + sizes[index]].reshape(shape) * scale)
    model.allocate(most_rows * blocks_of(_CONTEXT), BLOCK_SIZE)
    return model


def _share_of_a_row(model: sluice_native.Model) -> float:
    """Return the share of the weights that one row is multiplied with."""
    sizes = {name: math.prod(shape) for name, shape in model.tensors().items()}
    used = sum(
        size * _EXPERTS.num_chosen / _EXPERTS.num_experts if is_expert_tensor(name) else size
        for name, size in sizes.items()
    )
    return used / sum(sizes.values())


def _timed(model: sluice_native.Model, batch: int, threads: int) -> dict[str, tuple[float, float]]:
    """Return the medians and the best of steps and of readings of all weights, in seconds."""
    arrays = step_arrays(batch, 1, _CONTEXT)
    rows, logits = np.arange(batch, dtype=np.int32), np.empty((batch, _VOCABULARY), dtype=np.float32)
    random = np.random.default_rng(1)
    steps: list[float] = []
    readings: list[float] = []
    began = time.perf_counter()
    while len(steps) < _LEAST_STEPS or time.perf_counter() - began < _SECONDS:
        token_ids = random.integers(0, _VOCABULARY, batch).astype(np.int32)
        start = time.perf_counter()
        model.step(token_ids, *arrays[1:], rows, logits, threads)
        steps.append(time.perf_counter() - start)
        readings.append(model.read_weights(threads))
    return {
        "median": (statistics.median(steps), statistics.median(readings)),
        "best": (min(steps), min(readings)),  # more reliable on a busy machine
    }


if __name__ == "__main__":
    main()

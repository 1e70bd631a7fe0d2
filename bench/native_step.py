"""How long a native step takes, beside the time to read the weights once, which no decode can beat.

Run as `python -m bench.native_step [--threads N] [--types bfloat16 int8 …] [--cache float16 …] [--shapes 0.5b 5m]`,
with native/ installed.
Random weights, which cost the same time as trained ones. Prints the median and the best of several steps, the floor
measured between them, and floor / median.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import sluice_native
from numpy.typing import NDArray

BATCH_SIZES = (1, 4, 16, 64)
CONTEXTS = (32, 512)
PREFILL = 512
BLOCK_SIZE = 16

Ints: TypeAlias = NDArray[np.int32]


def _shape(*, hidden: int, inner: int, layers: int, heads: int, kv_heads: int, vocabulary: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_layers": layers,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": 64,
        "vocab_size": vocabulary,
        "norm_epsilon": 1e-6,
        "inverse_frequencies": (1e6 ** -(np.arange(0, 64, 2) / 64)).tolist(),
    }


SHAPES: dict[str, dict[str, Any]] = {
    "0.5b": _shape(hidden=896, inner=4_864, layers=24, heads=14, kv_heads=2, vocabulary=151_936)
    | {"is_tied": True, "has_qkv_bias": True},
    "5m": _shape(hidden=256, inner=640, layers=6, heads=4, kv_heads=2, vocabulary=2_048) | {"has_head_norm": True},
}
# Whose adapter each of 16 sequences has.
ADAPTED = {
    "batch 16, no adapter": [-1] * 16,
    "batch 16, 4 of each adapter and 8 of none": [-1, 0, -1, 1] * 4,
    "batch 16, 8 of each adapter": [0, 1] * 8,
}
TYPES = {"0.5b": ["bfloat16"], "5m": ["float32"]}


@dataclass(frozen=True, slots=True)
class Timed:
    """Medians, in seconds, and the best step: on a busy machine it tells more."""

    step: float
    best: float
    floor: float

    def __str__(self) -> str:
        step, best, floor = (f"{1e3 * each:.3f}" for each in (self.step, self.best, self.floor))
        return f"{step:>8} ms (best {best}); weights read in {floor} ms, ratio {self.floor / self.step:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--types", nargs="*", choices=["float32", "bfloat16", "int8", "int4"])
    parser.add_argument("--cache", nargs="*", choices=["auto", "float32", "bfloat16", "float16"], default=["auto"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, nargs="*", default=BATCH_SIZES)
    parser.add_argument("--contexts", type=int, nargs="*", default=CONTEXTS)
    parser.add_argument("--set", default="auto", help="instruction set")
    parser.add_argument("--rank", type=int, default=0, help="also with two adapters of this rank on every matrix")
    options = parser.parse_args()
    for name in options.shapes:
        for weight_type, cache_type in product(options.types or TYPES[name], options.cache):
            num_slots = max(options.batches) * blocks_of(max(options.contexts)) * BLOCK_SIZE
            types = {"weight_type": weight_type, "cache_type": cache_type}
            model = random_model(name, num_slots, **types, num_threads=options.threads, instruction_set=options.set)
            print(f"{name} {weight_type}, cache {cache_type}, {model.instruction_set}, ", end="")
            print(f"{options.threads} threads, ", end="")
            print(f"{model.weight_bytes / 1e6:.0f} MB of weights")
            for context in options.contexts:
                for batch in options.batches:
                    timed = decode(model, batch, context)
                    print(f"  batch {batch:2}, context {context:3}: {timed}", flush=True)
            if options.rank:
                put_adapters(model, options.rank)
                for label, places in ADAPTED.items():
                    print(f"  {label}: {decode(model, len(places), CONTEXTS[0], places)}", flush=True)
            print(f"  prefill of {PREFILL}: {PREFILL / prefill(model):8.0f} tokens/s", flush=True)


def random_model(name: str, num_slots: int, **options: Any) -> sluice_native.Model:
    """A model of that shape with random weights and room for so many tokens, and for a prompt."""
    model = sluice_native.Model(**SHAPES[name], **options)
    random = np.random.default_rng(0)
    for tensor, shape in model.tensors().items():
        model.load(tensor, random.standard_normal(shape, dtype=np.float32) * np.float32(0.02))
    model.allocate(blocks_of(max(num_slots, PREFILL)), BLOCK_SIZE)
    return model


def blocks_of(context: int) -> int:
    return -(-context // BLOCK_SIZE)


def put_adapters(model: sluice_native.Model, rank: int) -> None:
    """Two, at the places 0 and 1, which change every matrix of the layers."""
    random = np.random.default_rng(0)
    for place in (0, 1):
        modules = [
            (
                name.removesuffix(".weight"),
                random.standard_normal((rank, shape[1]), dtype=np.float32) * np.float32(0.02),
                random.standard_normal((shape[0], rank), dtype=np.float32) * np.float32(0.02),
            )
            for name, shape in model.tensors().items()
            if len(shape) > 1 and name.startswith("model.layers.")
        ]
        model.put_adapter(place, modules)


def decode(model: sluice_native.Model, batch: int, context: int, places: list[int] | None = None) -> Timed:
    """One new token for each of `batch` sequences of `context` tokens, with the adapters at `places`."""
    arrays = step_arrays(batch, 1, context)
    logits = np.empty((batch, vocab_size(model)), dtype=np.float32)
    rows = np.arange(batch, dtype=np.int32)
    adapters = None if places is None else np.array(places, dtype=np.int32)
    return timed(model, lambda: model.step(*arrays, rows, logits, adapters=adapters))


def prefill(model: sluice_native.Model) -> float:
    """Seconds for a prompt in one step."""
    arrays = step_arrays(1, PREFILL, PREFILL)
    return timed(model, lambda: model.step(*arrays, np.array([PREFILL - 1], dtype=np.int32))).step


def step_arrays(batch: int, new_tokens: int, context: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Token ids, positions, row offsets, context lengths, block tables."""
    positions = np.tile(np.arange(context - new_tokens, context), batch)
    return (
        (positions % 1_000).astype(np.int32),
        positions.astype(np.int32),
        (np.arange(batch + 1) * new_tokens).astype(np.int32),
        np.full(batch, context, dtype=np.int32),
        np.arange(batch * blocks_of(context), dtype=np.int32).reshape(batch, -1),
    )


def vocab_size(model: sluice_native.Model) -> int:
    return model.tensors()["model.embed_tokens.weight"][0]


def timed(model: sluice_native.Model, run: Any) -> Timed:
    """Run for about two seconds, the reading of the weights between the steps."""
    run()
    steps: list[float] = []
    floors: list[float] = []
    began = time.perf_counter()
    while len(steps) < 5 or (time.perf_counter() - began < 2 and len(steps) < 1_000):
        start = time.perf_counter()
        run()
        steps.append(time.perf_counter() - start)
        floors.append(model.read_weights())
    return Timed(statistics.median(steps), min(steps), statistics.median(floors))


if __name__ == "__main__":
    main()

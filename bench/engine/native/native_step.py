"""Measure native steps, and compare them with the lower bounds of memory and arithmetic.

Run as `python -m bench.engine.native.native_step [--threads 1 2] [--types bfloat16 int8 …] [--cache float16 …]
[--shapes 0.5b 5m] [--prefills 32 512]`, with native/ installed. The weights are random, which take the same time as
trained ones. Prints the median and the best of several steps; the time to read the weights once, and the time for the
step's products with all operands in registers, both measured between the steps on the same threads; and the ratio of
the larger of these two times to the median.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import sluice_native
from numpy.typing import NDArray

from bench.engine.native.random_blocks import SCALES, random_blocks
from service.engine.models.plans.plan import AttentionPlan, DecoderPlan, DensePlan, HeadNorm, LayerPlan, RotaryPlan

BATCH_SIZES = (1, 4, 16, 64)
CONTEXTS = (32, 512)
PREFILLS = (512,)
BLOCK_SIZE = 16
_HEAD_DIM = 64

Ints: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShape:
    """The sizes of a Llama-like decoder with heads of 64 numbers."""

    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    is_tied: bool = False
    has_qkv_bias: bool = False
    head_norm: HeadNorm = "none"

    def plan(self) -> dict[str, Any]:
        """Return the native model's plan."""
        layer = LayerPlan(
            attention=AttentionPlan(
                num_heads=self.heads,
                num_kv_heads=self.kv_heads,
                head_dim=_HEAD_DIM,
                scale=_HEAD_DIM**-0.5,
                has_qkv_bias=self.has_qkv_bias,
                head_norm=self.head_norm,
            ),
            feed_forward=DensePlan(width=self.inner),
        )
        frequencies = 1e6 ** -(np.arange(0, _HEAD_DIM, 2) / _HEAD_DIM)
        return DecoderPlan(
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            norm_epsilon=1e-6,
            is_tied=self.is_tied,
            rotary=(RotaryPlan(inverse_frequencies=tuple(frequencies.tolist())),),
            layers=(layer,) * self.layers,
        ).to_native()


SHAPES: dict[str, StepShape] = {
    "0.5b": StepShape(
        hidden=896, inner=4_864, layers=24, heads=14, kv_heads=2, vocabulary=151_936, is_tied=True, has_qkv_bias=True
    ),
    "1b": StepShape(hidden=2_048, inner=8_192, layers=16, heads=32, kv_heads=8, vocabulary=128_256, is_tied=True),
    "5m": StepShape(hidden=256, inner=640, layers=6, heads=4, kv_heads=2, vocabulary=2_048, head_norm="head"),
}
# The adapter slot of each of 16 sequences.
ADAPTED = {
    "batch 16, no adapter": [-1] * 16,
    "batch 16, 4 of each adapter and 8 of none": [-1, 0, -1, 1] * 4,
    "batch 16, 8 of each adapter": [0, 1] * 8,
}
TYPES = {"0.5b": ["bfloat16"], "1b": ["bfloat16"], "5m": ["float32"]}


@dataclass(frozen=True, slots=True)
class Timed:
    """Medians, in seconds, and the best step, which is more reliable on a busy machine."""

    step: float
    best: float
    reading: float
    products: float

    def __str__(self) -> str:
        step, best = (f"{1e3 * each:.3f}" for each in (self.step, self.best))
        reading, products = (f"{1e3 * each:.3f}" for each in (self.reading, self.products))
        ratio = max(self.reading, self.products) / self.step
        return f"{step:>8} ms (best {best}); weights read in {reading}, products in {products} ms, ratio {ratio:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=["0.5b", "5m"])
    parser.add_argument("--types", nargs="*", choices=["float32", "bfloat16", "int8", "int4", *SCALES])
    parser.add_argument(
        "--cache", nargs="*", choices=["auto", "float32", "bfloat16", "float16", "int8"], default=["auto"]
    )
    parser.add_argument("--threads", type=int, nargs="*", default=[2])
    parser.add_argument("--batches", type=int, nargs="*", default=BATCH_SIZES)
    parser.add_argument("--contexts", type=int, nargs="*", default=CONTEXTS)
    parser.add_argument("--prefills", type=int, nargs="*", default=PREFILLS)
    parser.add_argument("--set", default="auto", help="instruction set")
    parser.add_argument("--rank", type=int, default=0, help="also with two adapters of this rank on every matrix")
    options = parser.parse_args()
    for name in options.shapes:
        for weight_type, cache_type in product(options.types or TYPES[name], options.cache):
            rows = max(*options.batches, 16 if options.rank else 0)
            blocks = max(rows * blocks_of(max(options.contexts)), blocks_of(max(options.prefills)))
            types = {"weight_type": weight_type, "cache_type": cache_type}
            if weight_type in SCALES:
                types |= {"weight_type": "packed", "kinds": lambda _, kind=weight_type: kind}
            most = max(options.threads)
            model = random_model(name, blocks * BLOCK_SIZE, **types, num_threads=most, instruction_set=options.set)
            print(f"{name} {weight_type}, cache {cache_type}, {model.instruction_set}, ", end="")
            print(f"{model.weight_bytes / 1e6:.0f} MB of weights")
            for context, batch, threads in product(options.contexts, options.batches, options.threads):
                timed = decode(model, name, batch, context, threads)
                print(f"  batch {batch:2}, context {context:3}, threads {threads}: {timed}", flush=True)
            if options.rank:
                put_adapters(model, options.rank)
                for (label, slots), threads in product(ADAPTED.items(), options.threads):
                    timed = decode(model, name, len(slots), CONTEXTS[0], threads, slots=slots)
                    print(f"  {label}, threads {threads}: {timed}", flush=True)
            for tokens, threads in product(options.prefills, options.threads):
                timed = prefill(model, name, tokens, threads)
                print(f"  prefill {tokens:3}, threads {threads}: {timed}; ", end="")
                print(f"{tokens / timed.step:.0f} tokens/s", flush=True)


def random_model(name: str, num_slots: int, **options: Any) -> sluice_native.Model:
    """Return a model of a shape with random weights and a cache of `num_slots` slots."""
    model = sluice_native.Model(SHAPES[name].plan(), **options)
    random = np.random.default_rng(0)
    for tensor, shape in model.tensors().items():
        if "kinds" in options and len(shape) > 1:
            rows, columns = shape
            model.load_blocks(tensor, random_blocks(options["kinds"](tensor), rows, columns, random))
            continue
        model.load(tensor, random.standard_normal(shape, dtype=np.float32) * np.float32(0.02))
    model.allocate(blocks_of(num_slots), BLOCK_SIZE)
    return model


def blocks_of(context: int) -> int:
    return -(-context // BLOCK_SIZE)


def put_adapters(model: sluice_native.Model, rank: int) -> None:
    """Put adapters that change every matrix of the layers into the slots 0 and 1."""
    random = np.random.default_rng(0)
    for slot in (0, 1):
        modules = [
            (
                name.removesuffix(".weight"),
                random.standard_normal((rank, shape[1]), dtype=np.float32) * np.float32(0.02),
                random.standard_normal((shape[0], rank), dtype=np.float32) * np.float32(0.02),
            )
            for name, shape in model.tensors().items()
            if len(shape) > 1 and name.startswith("model.layers.")
        ]
        model.put_adapter(slot, modules)


def decode(
    model: sluice_native.Model, name: str, batch: int, context: int, threads: int, *, slots: list[int] | None = None
) -> Timed:
    """Time one new token for each of `batch` sequences of `context` tokens, with the adapters in `slots`.

    The adapters' products are not counted.
    """
    arrays = step_arrays(batch, 1, context)
    logits = np.empty((batch, vocab_size(model)), dtype=np.float32)
    rows = np.arange(batch, dtype=np.int32)
    adapters = None if slots is None else np.array(slots, dtype=np.int32)
    num_products = batch * (products_of_layers(name) + products_of_head(name) + products_of_attention(name, context))
    return timed(model, lambda: model.step(*arrays, rows, logits, threads, adapters), num_products, threads)


def prefill(model: sluice_native.Model, name: str, tokens: int, threads: int) -> Timed:
    """Time a prompt in one step."""
    arrays = step_arrays(1, tokens, tokens)
    rows = np.array([tokens - 1], dtype=np.int32)
    attention = sum(products_of_attention(name, 1 + token) for token in range(tokens))
    num_products = tokens * products_of_layers(name) + attention + products_of_head(name)
    return timed(model, lambda: model.step(*arrays, rows, None, threads), num_products, threads)


def products_of_layers(name: str) -> int:
    """Return the number of products of one token with the weights of the layers."""
    shape = SHAPES[name]
    attention = shape.hidden * 2 * (shape.heads + shape.kv_heads) * _HEAD_DIM
    return shape.layers * (attention + 3 * shape.hidden * shape.inner)


def products_of_head(name: str) -> int:
    return SHAPES[name].hidden * SHAPES[name].vocabulary


def products_of_attention(name: str, context: int) -> int:
    """Return the number of products of one token with the keys and values of a context."""
    shape = SHAPES[name]
    return 2 * shape.layers * shape.heads * _HEAD_DIM * context


def step_arrays(batch: int, new_tokens: int, context: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return token ids, positions, row offsets, context lengths and block tables."""
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


def timed(model: sluice_native.Model, run: Callable[[], object], num_products: int, threads: int) -> Timed:
    """Time steps for about two seconds; between them, time reading the weights and the products alone."""
    run()
    steps: list[float] = []
    readings: list[float] = []
    products: list[float] = []
    began = time.perf_counter()
    while len(steps) < 5 or (time.perf_counter() - began < 2 and len(steps) < 1_000):
        start = time.perf_counter()
        run()
        steps.append(time.perf_counter() - start)
        readings.append(model.read_weights(threads))
        products.append(num_products / model.multiply_rate(threads))
    return Timed(statistics.median(steps), min(steps), statistics.median(readings), statistics.median(products))


if __name__ == "__main__":
    main()

"""Compare attention over latents with attention over the keys and values that the latents would expand to.

Run as `python -m bench.engine.native.latent_step [--types bfloat16 int8] [--contexts 512 4096] [--threads 2]`, with
native/ installed. The layers have the sizes of DeepSeek-V2-Lite's attention and hardly any feed-forward part. The
second model has 16 heads of 192 numbers, and never expands anything: its times are what expansion would have to beat.
Prints, for both, the bytes of the cache per token and the best times of a decode step and of a chunk of 128 tokens, in
turns.
"""

from __future__ import annotations

import argparse
import time
from typing import Final

import numpy as np
import sluice_native

from bench.engine.native.native_step import BLOCK_SIZE, blocks_of, step_arrays
from service.engine.models.plans.plan import (
    AttentionPlan,
    DecoderPlan,
    DensePlan,
    LatentPlan,
    LayerPlan,
    RotaryPlan,
)

_HIDDEN, _HEADS, _LAYERS, _VOCABULARY = 2_048, 16, 4, 1_024
_LATENT: Final = LatentPlan(
    num_heads=_HEADS,
    kv_rank=512,
    query_rank=0,
    key_dim=128,
    rotated_dim=64,
    value_dim=128,
    scale=192**-0.5,
    norm_epsilon=1e-6,
)
_EXPANDED: Final = AttentionPlan(num_heads=_HEADS, num_kv_heads=_HEADS, head_dim=192, scale=192**-0.5)
_CHUNK: Final = 128
_ROUNDS: Final = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", nargs="*", default=["bfloat16"], choices=["float32", "bfloat16", "int8", "int4"])
    parser.add_argument("--contexts", type=int, nargs="*", default=[512, 2_048])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    for weight_type in options.types:
        longest = max(options.contexts)
        models = {
            "latents": _random_model(_LATENT, weight_type, longest, options.threads),
            "expanded": _random_model(_EXPANDED, weight_type, longest, options.threads),
        }
        print(f"{weight_type}, {models['latents'].instruction_set}, bytes of the cache per token and layer:", end="")
        print(", ".join(f" {name} {model.bytes_per_slot[0]}" for name, model in models.items()))
        for context in options.contexts:
            for count in (1, _CHUNK):
                best = _timed(models, count, context, options.threads)
                print(f"  context {context}, {count} tokens:", end="")
                print(",".join(f" {name} {1e3 * seconds:.2f} ms" for name, seconds in best.items()), end="")
                print(f", ratio {best['expanded'] / best['latents']:.2f}", flush=True)


def _random_model(
    attention: AttentionPlan | LatentPlan, weight_type: str, num_slots: int, threads: int
) -> sluice_native.Model:
    frequencies = 1e4 ** -(np.arange(0, 64, 2) / 64)
    plan = DecoderPlan(
        vocab_size=_VOCABULARY,
        hidden_size=_HIDDEN,
        norm_epsilon=1e-6,
        is_tied=True,
        rotary=(RotaryPlan(inverse_frequencies=tuple(frequencies.tolist())),),
        layers=(LayerPlan(attention=attention, feed_forward=DensePlan(width=64)),) * _LAYERS,
    )
    model = sluice_native.Model(plan.to_native(), weight_type=weight_type, num_threads=threads)
    random = np.random.default_rng(0)
    for name, shape in model.tensors().items():
        model.load(name, random.standard_normal(shape, dtype=np.float32) * np.float32(0.02))
    model.allocate(blocks_of(num_slots), BLOCK_SIZE)
    for end in range(_CHUNK, num_slots + 1, _CHUNK):  # memory that was never written would be read from one page
        model.step(*step_arrays(1, _CHUNK, end), np.zeros(0, np.int32), None, threads)
    return model


def _timed(models: dict[str, sluice_native.Model], count: int, context: int, threads: int) -> dict[str, float]:
    """Return the best time of a step of each model, whose steps alternate, in seconds."""
    arrays = step_arrays(1, count, context)
    rows = np.zeros(1, dtype=np.int32)
    best = dict.fromkeys(models, float("inf"))
    for _ in range(_ROUNDS):
        for name, model in models.items():
            began = time.perf_counter()
            model.step(*arrays, rows, None, threads)
            best[name] = min(best[name], time.perf_counter() - began)
    return best


if __name__ == "__main__":
    main()

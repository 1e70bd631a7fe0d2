"""Measure how far a model's distributions are from those of its dequantized weights in float32, by format.

Run as `python -m bench.engine.native.block_divergence [--formats Q4_K "AWQ, 4 bits" …] [--layers 4] [--hidden 512]`,
with native/ installed. The weights are random. Prints the mean divergence in nats a token with weights in blocks, with
keys and values of float32 and float16, and with the same weights widened to bfloat16, whose products round inputs as
well. Of formats of folders, the embedding is bfloat16.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import sluice_native
from numpy.typing import NDArray

from bench.engine.native.random_weights import FORMATS, WHOLE, random_weight
from service.engine.models.plans.plan import AttentionPlan, DecoderPlan, DensePlan, LayerPlan, RotaryPlan

_HEAD_DIM = 64
_VOCABULARY = 4_096
_TOKENS = 64
_BLOCK_SIZE = 16


def plan_of(hidden: int, layers: int) -> dict[str, Any]:
    """Return the plan of a Llama-like decoder."""
    heads = hidden // _HEAD_DIM
    attention = AttentionPlan(
        num_heads=heads, num_kv_heads=max(1, heads // 4), head_dim=_HEAD_DIM, scale=_HEAD_DIM**-0.5
    )
    frequencies = 1e6 ** -(np.arange(0, _HEAD_DIM, 2) / _HEAD_DIM)
    return DecoderPlan(
        vocab_size=_VOCABULARY,
        hidden_size=hidden,
        norm_epsilon=1e-6,
        is_tied=True,
        rotary=(RotaryPlan(inverse_frequencies=tuple(frequencies.tolist())),),
        layers=(LayerPlan(attention=attention, feed_forward=DensePlan(width=2 * hidden)),) * layers,
    ).to_native()


def log_probabilities(model: sluice_native.Model, token_ids: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the logarithms of each token's distribution."""
    count = len(token_ids)
    model.allocate(num_blocks=count // _BLOCK_SIZE, block_size=_BLOCK_SIZE)
    every = np.arange(count, dtype=np.int32)
    offsets, table = np.array([0, count], np.int32), np.arange(count // _BLOCK_SIZE, dtype=np.int32)[None]
    logits = model.step(token_ids, every, offsets, offsets[1:], table, every).astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    logarithms: NDArray[np.float64] = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return logarithms


def measure(name: str, plan: dict[str, Any]) -> str:
    """Return the row of a format."""
    random = np.random.default_rng(0)
    exact, widened = (
        sluice_native.Model(plan, weight_type=weight_type, num_threads=2) for weight_type in ("float32", "bfloat16")
    )
    weights = {}
    for tensor, shape in exact.tensors().items():
        if len(shape) > 1:
            rows, columns = shape
            is_whole = name in WHOLE or "proj" in tensor
            weights[tensor] = random_weight(name if is_whole else "BF16", rows, columns, random)
    packed = [
        sluice_native.Model(
            plan, weight_type="packed", kinds=lambda tensor: weights[tensor].kind, cache_type=cache, num_threads=2
        )
        for cache in ("float32", "float16")
    ]
    for tensor, shape in exact.tensors().items():
        weight = weights.get(tensor)
        for model in (exact, widened):
            model.load(tensor, np.ones(shape, np.float32) if weight is None else weight.numbers)
        for model in packed:
            if weight is None:
                model.load(tensor, np.ones(shape, np.float32))
            else:
                model.load_blocks(tensor, weight.blocks, weight.order)
    token_ids = random.integers(0, _VOCABULARY, _TOKENS).astype(np.int32)
    expected = log_probabilities(exact, token_ids)

    def divergence(model: sluice_native.Model) -> float:
        found = log_probabilities(model, token_ids)
        return float((np.exp(expected) * (expected - found)).sum(-1).mean())

    found = [divergence(model) for model in (*packed, widened)]
    return f"| {name} | {' | '.join(f'{each:.1e}' for each in found)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--formats", nargs="*", choices=FORMATS, default=FORMATS)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=512)
    options = parser.parse_args()
    print("| format | float32 cache | float16 cache | widened to bfloat16 |\n|---|--:|--:|--:|")
    for name in options.formats:
        print(measure(name, plan_of(options.hidden, options.layers)), flush=True)


if __name__ == "__main__":
    main()

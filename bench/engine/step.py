"""Measure steps of the engine: decodes at several batch sizes, and prefills.

Run as `python -m bench.engine.step [--threads N] [--context N] [demo] [0.5b]`. Prints milliseconds per decode step, the
median and the best of several, prefilled tokens per second, and the microseconds of a decode step spent on its input:
the arrays, and the tensors and attention plan that a torch backend makes of them before the first layer. Decoding is
greedy, without scheduler and server.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

from bench import shapes
from service.engine.core.batch import make_batch
from service.engine.core.engine_core import SampledToken
from service.engine.core.sequences.sequence import Sequence, SequenceGroup
from service.engine.core.step import ScheduledSequence, Step
from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import LoadedModel, load_model
from service.engine.models.attention.attention import AttentionPlan
from service.engine.models.attention.inputs import Inputs
from service.engine.models.attention.kv_cache import CacheShape, KVCache
from service.engine.models.attention.scores import Scores
from service.engine.models.checkpoint.model_config import read_model_config
from service.generation.requests.parameters import SamplingParams
from service.generation.requests.request import GenerationRequest

BATCH_SIZES = (1, 4, 16)
INPUT_SIZES = (16, 64)
NUM_STEPS = 12
NUM_INPUTS = 200
MODELS = {"demo": lambda: shapes.DEMO, "0.5b": shapes.qwen2_5_0_5b}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], help="default: all")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--compute-dtype", default="auto", choices=["auto", "float32", "bfloat16"])
    options = parser.parse_args()
    print(f"{options.threads} threads, context {options.context}")
    config = EngineConfig(num_threads=options.threads, num_blocks=16 * (options.context // 16 + 4))
    for name in options.models or MODELS:
        built = load_model(str(MODELS[name]()), config, compute_dtype=options.compute_dtype)
        print(f"{name}: {built.info.num_parameters / 1e6:.1f} M parameters, {built.info.dtype}")
        for batch_size in BATCH_SIZES:
            print("  " + measure(built, batch_size, options.context))
        for num_decodes in INPUT_SIZES:
            print("  " + measure_input(built, num_decodes, options.context))


def measure(built: LoadedModel, batch_size: int, context: int) -> str:
    """Prefill `batch_size` sequences of `context` tokens one by one, then decode them together."""
    blocks_each = context // 16 + 4
    sequences = [
        sequence(built, index, context, range(index * blocks_each, (index + 1) * blocks_each))
        for index in range(batch_size)
    ]
    prefills = [step(built, [each]) for each in sequences]
    decodes = [step(built, sequences) for _ in range(NUM_STEPS)]
    median, best = statistics.median(decodes), min(decodes)
    return (
        f"batch {batch_size:2}: {1e3 * median:8.2f} ms per decode step (best {1e3 * best:.2f}), "
        f"{batch_size / median:7.1f} tokens/s; prefill {context / min(prefills):8.0f} tokens/s"
    )


def measure_input(built: LoadedModel, num_decodes: int, context: int) -> str:
    """Time making the input of a step of `num_decodes` decodes repeatedly, without computing the step."""
    blocks_each = context // 16 + 4
    config: Any = read_model_config(built.folder)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    shape = CacheShape(
        config.num_hidden_layers, config.num_key_value_heads, head_dim, head_dim, getattr(torch, built.info.dtype)
    )
    cache = KVCache(shape, num_decodes * blocks_each, 16, torch.device("cpu"))
    items = []
    for index in range(num_decodes):
        each = sequence(built, index, context, range(index * blocks_each, (index + 1) * blocks_each))
        each.num_computed_tokens = context - 1
        items.append(ScheduledSequence(each, 1, samples=True))
    arrays_s, inputs_s = [], []
    for _ in range(NUM_INPUTS):
        began = time.perf_counter()
        batch = make_batch(items, 16)
        made = time.perf_counter()
        Inputs.from_batch(batch, 16, cache.device)
        AttentionPlan(cache, batch, Scores(1.0))
        arrays_s.append(made - began)
        inputs_s.append(time.perf_counter() - made)
    return (
        f"{num_decodes:2} decodes: {1e6 * statistics.median(arrays_s):.0f} µs to make their arrays, "
        f"{1e6 * statistics.median(inputs_s):.0f} µs to make their tensors and attention plan"
    )


def sequence(built: LoadedModel, index: int, context: int, blocks: range) -> Sequence:
    prompt = torch.randint(built.tokens.vocab_size, (context,), generator=torch.Generator().manual_seed(index))
    group = SequenceGroup(
        GenerationRequest(f"{index}", prompt.tolist(), SamplingParams(temperature=0)),
        built.tokens,
        serial=index,
        seed=index,
        arrived=0.0,
        eos_token_ids=(),
        max_model_len=built.info.max_model_len,
        cache_salt="",
    )
    only = group.sequences[0]
    only.block_table.extend(blocks)
    return only


def step(built: LoadedModel, sequences: list[Sequence]) -> float:
    """Compute each sequence's uncomputed tokens and append its next token; return the seconds of the step."""
    items = [
        ScheduledSequence(each, len(each.token_ids) - each.num_computed_tokens, samples=True) for each in sequences
    ]
    began = time.perf_counter()
    tokens = built.runner.run(Step(items, started=[], preempted=[]))
    seconds = time.perf_counter() - began
    for each, token in zip(sequences, tokens or (), strict=True):
        if not isinstance(token, SampledToken):
            raise TypeError(f"no token: {token}")
        each.num_computed_tokens = len(each.token_ids)
        each.token_ids.append(token.token_id)
    return seconds


if __name__ == "__main__":
    main()

"""How long a step of the engine takes: decodes at several batch sizes, and prefill.

Run as `python -m bench.engine_step [--threads N] [--context N] [demo] [0.5b]`. Prints milliseconds a decode step, the
median and the best of several, and prefilled tokens a second. No scheduler, no server: the runner alone, greedy.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from bench import shapes
from service.engine.config import EngineConfig
from service.engine.core import SampledToken
from service.engine.load_generator import LoadedModel, load_model
from service.engine.scheduler import ScheduledSequence, Step
from service.engine.sequence import Sequence, SequenceGroup
from service.generation.parameters import SamplingParams
from service.generation.request import GenerationRequest

BATCH_SIZES = (1, 4, 16)
NUM_STEPS = 12
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
        f"batch {batch_size:2}: {1e3 * median:8.2f} ms a decode step (best {1e3 * best:.2f}), "
        f"{batch_size / median:7.1f} tokens/s; prefill {context / min(prefills):8.0f} tokens/s"
    )


def sequence(built: LoadedModel, index: int, context: int, blocks: range) -> Sequence:
    prompt = torch.randint(built.tokenizer.vocab_size, (context,), generator=torch.Generator().manual_seed(index))
    group = SequenceGroup(
        GenerationRequest(f"{index}", prompt.tolist(), SamplingParams(temperature=0)),
        built.tokenizer,
        serial=index,
        seed=index,
        arrived=0.0,
        eos_token_ids=(),
        max_model_len=built.info.max_model_len,
        cache_salt="",
    )
    only = group.sequences[0]
    only.block_table = list(blocks)
    return only


def step(built: LoadedModel, sequences: list[Sequence]) -> float:
    """Compute what each sequence lacks and append its next token; the seconds it took."""
    items = [
        ScheduledSequence(each, len(each.token_ids) - each.num_computed_tokens, samples=True) for each in sequences
    ]
    began = time.perf_counter()
    tokens = built.runner.run(Step(items, started=[], preempted=[]))
    seconds = time.perf_counter() - began
    for each, token in zip(sequences, tokens, strict=True):
        if not isinstance(token, SampledToken):
            raise TypeError(f"no token: {token}")
        each.num_computed_tokens = len(each.token_ids)
        each.token_ids.append(token.token_id)
    return seconds


if __name__ == "__main__":
    main()

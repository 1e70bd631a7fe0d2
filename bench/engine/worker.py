"""Compare an engine that computes in a process of its own with one in a thread of the service's process.

Run as `python -m bench.engine.worker [demo] [0.5b] [--streams 1 16] [--tokens 96] [--rounds 5]`. There is no server:
an engine's client on an event loop reads greedy streams that end by their length. It is measured with an idle loop, and
with a loop that encodes JSON in slices of 20 ms and runs all ready callbacks between them. A gap is the time between
two tokens of a stream, when sampled and when received; the percentiles are over the gaps of all streams. The rounds
alternate between the two workers; a ratio is process over thread, the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from bench import shapes
from service.engine.building.engines import build_engine
from service.engine.client.generator import GeneratorClient
from service.engine.interface.config import EngineConfig
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest

MODELS = {"demo": lambda: shapes.DEMO, "0.5b": shapes.qwen2_5_0_5b}
SLICE_S = 0.020
PROMPT_TOKENS = 64
PAYLOAD = [{"index": index, "text": "some text " * 5, "values": [index / 7] * 5} for index in range(200)]
WORKERS: tuple[Any, ...] = ("thread", "process")


@dataclass(frozen=True)
class Result:
    """The figures of one measurement; gaps in milliseconds."""

    tokens_per_s: float
    sampled_p95: float
    sampled_p99: float
    received_p95: float
    received_p99: float


@asynccontextmanager
async def busy_loop() -> AsyncIterator[None]:
    """Keep the loop busy with encoding JSON, one slice at a time."""

    async def encode() -> None:
        while True:
            end = time.monotonic() + SLICE_S
            while time.monotonic() < end:
                json.dumps(PAYLOAD)
            await asyncio.sleep(0)

    task = asyncio.create_task(encode())
    try:
        yield
    finally:
        task.cancel()


async def stream(engine: GeneratorClient, prompt: list[int], num_tokens: int) -> tuple[list[float], list[float]]:
    """Read one stream; return when each token was sampled, and when it was received."""
    stopping = StopParams(max_tokens=num_tokens, ignore_eos=True)
    wanted = GenerationRequest("bench", prompt, SamplingParams(temperature=0), stopping)
    sampled: list[float] = []
    received: list[float] = []
    async with engine.generate(wanted) as outputs:
        async for output in outputs:
            sampled += output.token_times
            received += [time.monotonic()] * len(output.token_times)
    return sampled, received


async def measure(engine: GeneratorClient, num_streams: int, num_tokens: int, draw: random.Random) -> Result:
    """Measure `num_streams` concurrent streams, each with a different prompt."""
    prompts = [draw.choices(range(100, 1000), k=PROMPT_TOKENS) for _ in range(num_streams)]
    began = time.monotonic()
    times = await asyncio.gather(*(stream(engine, prompt, num_tokens) for prompt in prompts))
    seconds = max(sampled[-1] for sampled, _ in times) - began
    sampled, received = (
        [1000 * (after - before) for each in times for before, after in pairwise(each[side])] for side in (0, 1)
    )
    return Result(
        num_streams * num_tokens / seconds,
        *(statistics.quantiles(sampled, n=100)[percent - 1] for percent in (95, 99)),
        *(statistics.quantiles(received, n=100)[percent - 1] for percent in (95, 99)),
    )


async def compare(model: str, options: argparse.Namespace) -> dict[tuple[int, bool], dict[str, list[Result]]]:
    """Return the results of all rounds by number of streams and busy loop, and then by worker."""
    engines: dict[str, GeneratorClient] = {}
    for worker in WORKERS:
        config = EngineConfig(worker=worker, num_blocks=1024, prefix_caching=False)
        engines[worker] = (await asyncio.to_thread(build_engine, model, config)).engine
        engines[worker].start()
    results: dict[tuple[int, bool], dict[str, list[Result]]] = {}
    draw = random.Random(0)
    try:
        for engine in engines.values():
            await measure(engine, 2, 8, draw)  # warm
        for num_streams in options.streams:
            for is_busy in (False, True):
                found = results.setdefault((num_streams, is_busy), {worker: [] for worker in WORKERS})
                for _ in range(options.rounds):
                    for worker, engine in engines.items():
                        if not is_busy:
                            found[worker].append(await measure(engine, num_streams, options.tokens, draw))
                            continue
                        async with busy_loop():
                            found[worker].append(await measure(engine, num_streams, options.tokens, draw))
    finally:
        for engine in engines.values():
            await engine.close()
    return results


def main() -> None:
    """Print one table per model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], help="default: all")
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--tokens", type=int, default=96, help="of each answer")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    for model in options.models or MODELS:
        results = asyncio.run(compare(str(MODELS[model]()), options))
        print(f"\n{model}: {options.tokens} tokens per answer, medians of {options.rounds} rounds; gaps in ms\n")
        print("| streams | loop | value | thread | process | ratio |\n|--:|--|--|--:|--:|--:|")
        for (num_streams, is_busy), found in results.items():
            for each in fields(Result):
                thread, process = ([getattr(result, each.name) for result in found[worker]] for worker in WORKERS)
                ratio = statistics.median(ours / theirs for ours, theirs in zip(process, thread, strict=True))
                print(
                    f"| {num_streams} | {'busy' if is_busy else 'idle'} | {each.name} "
                    f"| {statistics.median(thread):.2f} | {statistics.median(process):.2f} | {ratio:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""Measure the effect of a long prompt on concurrent streams, and the time saved by a cached prefix.

Usage: python -m bench.replicas.long_prompt [--models 24m demo 0.5b] [--streams 4] [--tokens 8192] [--slowdown 2.5 1000]

Calls go over gRPC to a service in a process of its own; the weights are random. First, streams decode, and then a
prompt of many tokens arrives. The gaps between a stream's messages while the prompt is computed are compared with the
median gap before and after. `--slowdown` has values of the setting engine.max_slowdown; with a very large one, only
engine.max_prefill_chunk limits the gaps. The bundled model is left out of this part, since its context is too short.

Then sequential requests are sent, each with a prefix of 1,000 tokens and a question; each prefix is sent once new and
once cached.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
from grpc import aio
from sluice.v1 import sampling_pb2, text_generation_pb2, text_generation_pb2_grpc
from tokenizers import Tokenizer

from bench import shapes
from bench.serving.servers import START_TIMEOUT_S, free_port, running
from cli.bench.prompts import WORDS

MODELS = {"24m": shapes.long_24m, "demo": lambda: shapes.DEMO, "0.5b": shapes.qwen2_5_0_5b}
PREFIX_TOKENS = 1_000
QUESTION_TOKENS = 24
NUM_FIRST = 10  # tokens of each stream that are not measured
NUM_ALONE = 100  # tokens of each stream before the prompt arrives, and after it


@dataclass(frozen=True)
class Served:
    """The service and the tokenizer of its model, which is named `bench`."""

    stub: Any
    tokenizer: Tokenizer
    draw: random.Random

    def text(self, num_tokens: int) -> str:
        """Return random words of about `num_tokens` tokens."""
        words = " ".join(self.draw.choices(WORDS, k=num_tokens))
        text: str = self.tokenizer.decode(self.tokenizer.encode(words).ids[:num_tokens])
        return text

    def stream(self, text: str, max_tokens: int) -> Any:
        """Start a greedy continuation that only ends by its length."""
        stopping = sampling_pb2.StopParams(max_tokens=max_tokens, ignore_eos=True)
        request = text_generation_pb2.GenerateTextRequest(model="bench", text_input=text, stopping=stopping)
        return self.stub.StreamGenerateText(request)


@asynccontextmanager
async def service(folder: Path, *flags: str) -> AsyncIterator[Served]:
    """Run the service with the model in a folder, and yield it when it is ready."""
    port = free_port()
    fixed = [f"--port={port}", f"--metrics-port={free_port()}", "--drain-delay-s=0", f"--model=bench={folder}"]
    with running([sys.executable, "-m", "service", *fixed, *flags]):
        async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = text_generation_pb2_grpc.TextGenerationServiceStub(channel)
            served = Served(stub, Tokenizer.from_file(str(folder / "tokenizer.json")), random.Random(0))
            await until_up(served)
            yield served


async def until_up(served: Served) -> None:
    """Return when a text has been generated, which also warms up the engine."""
    for _ in range(START_TIMEOUT_S):
        try:
            async for _ in served.stream(served.text(300), 20):
                pass
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            await asyncio.sleep(1)
        else:
            return
    sys.exit("the service did not start; see .cache/bench/server.log")


async def first_token_s(call: Any) -> float:
    """Return the seconds until the first token of a call."""
    began = time.monotonic()
    async for event in call:
        if event.HasField("delta") or event.HasField("finished"):
            return time.monotonic() - began
    raise RuntimeError("the stream ended without a token")


class Streams:
    """Streams that are read concurrently, with the times of their messages by `time.monotonic()`."""

    def __init__(self, calls: list[Any]) -> None:
        self.received: list[list[float]] = [[] for _ in calls]
        self._calls = calls
        self._goal = math.inf
        self._is_reached = asyncio.Event()
        self._readers = [asyncio.create_task(self._read(*each)) for each in zip(calls, self.received, strict=True)]

    async def receive(self, num: int) -> None:
        """Return when each stream has received `num` more tokens."""
        self._goal = num + max(map(len, self.received))
        self._is_reached.clear()
        await self._is_reached.wait()

    async def close(self) -> None:
        """Cancel the calls."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)

    def gaps_ms(self) -> Iterator[tuple[float, float, float]]:
        """Yield the beginning, the end and the milliseconds of each gap between two tokens."""
        for times in self.received:
            for before, after in pairwise(times):
                yield before, after, 1e3 * (after - before)

    async def _read(self, call: Any, times: list[float]) -> None:
        async for event in call:
            times.extend([time.monotonic()] * event.HasField("delta"))
            if min(map(len, self.received)) >= self._goal:
                self._is_reached.set()


async def gaps(served: Served, num_streams: int, num_tokens: int) -> str:
    """Return a row of the first table: gaps of streams alone, and during a prompt of `num_tokens` tokens."""
    streams = Streams([served.stream(served.text(100), 6_000) for _ in range(num_streams)])
    await streams.receive(NUM_FIRST)
    started = time.monotonic()
    await streams.receive(NUM_ALONE)
    began = time.monotonic()
    waited_s = await first_token_s(served.stream(served.text(num_tokens), 1))
    ended = time.monotonic()
    await streams.receive(NUM_ALONE)
    await streams.close()
    all_gaps = list(streams.gaps_ms())
    alone = [gap for before, after, gap in all_gaps if before >= started and (after <= began or before >= ended)]
    mixed = [gap for before, after, gap in all_gaps if after > began and before < ended]
    usual, median, late = statistics.median(alone), statistics.median(mixed), statistics.quantiles(mixed, n=20)[-1]
    return f"{usual:.1f} | {median:.1f} | {late:.1f} | {max(mixed):.0f} | {late / usual:.2f} | {waited_s:.1f}"


async def prefixes(served: Served, num_rounds: int) -> str:
    """Return a row of the second table."""
    new: list[float] = []
    cached: list[float] = []
    for _ in range(num_rounds):
        prefix = served.text(PREFIX_TOKENS)
        for times in (new, cached):
            times.append(1e3 * await first_token_s(served.stream(prefix + served.text(QUESTION_TOKENS), 1)))
    ratio = statistics.median(new) / statistics.median(cached)
    return f"{statistics.median(new):.0f} | {statistics.median(cached):.0f} | {ratio:.1f}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=["24m", "demo"], choices=MODELS)
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=8_192)
    parser.add_argument("--slowdown", nargs="*", type=float, default=[2.5, 1_000])
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    print(f"\n{options.streams} streams, then a prompt of {options.tokens} tokens; gaps between tokens in ms\n")
    print("| model | slowdown | alone, median | with prompt, median | 95 % | longest | 95 % / alone | first token s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name in options.models:
        for slowdown in options.slowdown if name != "demo" else ():
            async with service(MODELS[name](), f"--engine.max-slowdown={slowdown}") as served:
                print(f"| {name} | {slowdown:g} | {await gaps(served, options.streams, options.tokens)} |", flush=True)
    print(f"\nFirst token after a prompt of {PREFIX_TOKENS} shared tokens and {QUESTION_TOKENS} others, ms\n")
    print("| model | new | cached | ratio |")
    print("|---|--:|--:|--:|")
    for name in options.models:
        async with service(MODELS[name]()) as served:
            print(f"| {name} | {await prefixes(served, options.rounds)} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())

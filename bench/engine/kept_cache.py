"""Measure first tokens from keys and values that an earlier process has computed.

Run as `python -m bench.engine.kept_cache [--parts restart encryption crash] [--tokens 8000] [--dtype bfloat16]`. The
model has the shape of Qwen2.5 0.5B. `restart` stops an engine with `engine.cache_folder` and starts another one: the
first token of a prompt that the first engine has answered, as a ratio of the first token of one that none has answered.
The engine is loaded by then; its load with and without a snapshot is reported, too. `encryption` restarts engines with
and without `engine.cache_key_file` in turn, compares the medians of three restarts each, and the processor's time to
write and to read the blocks alone. `crash` kills the worker process under 16 streams with half as many tokens each, of
which they share the first seven eighths, so that the prompts are computed in minutes. Their first tokens after the
restart, from prompts and received tokens, are compared with those from the same prompts before the kill, when the
worker had computed them.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import random
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench import shapes
from service.engine.building.engines import build_engine
from service.engine.client.generator import GeneratorClient
from service.engine.core.blocks.cache_entry import BLOCK, CacheEntry
from service.engine.core.snapshot.snapshot_folder import SnapshotFolder
from service.engine.interface.config import EngineConfig
from service.generation.errors import EngineFailed
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest

NUM_STREAMS = 16


class Restart(NamedTuple):
    """The measured times of one restart, in seconds, and the bytes of the snapshot."""

    plain_load_s: float  # of the first engine, which finds no snapshot
    cold_s: float  # first token of a prompt that no engine has answered
    stop_s: float
    num_bytes: int
    load_s: float  # of the second engine
    first_s: float  # first token of the same prompt


def load(dtype: Any, cache_folder: Path | None, cache_key_file: Path | None = None) -> tuple[GeneratorClient, float]:
    """Load an engine, and return it with the seconds that this took."""
    began = time.monotonic()
    config = EngineConfig(max_model_len=8_400, cache_folder=cache_folder, cache_key_file=cache_key_file)
    engine = build_engine(str(shapes.qwen2_5_0_5b()), config, compute_dtype=dtype).engine
    return engine, time.monotonic() - began


async def first_token_s(engine: GeneratorClient, prompt: list[int]) -> float:
    """Return the seconds until the first token of an answer."""
    stopping = StopParams(max_tokens=4, ignore_eos=True)
    began = time.monotonic()
    async with engine.generate(GenerationRequest("bench", prompt, SamplingParams(temperature=0), stopping)) as outputs:
        async for output in outputs:
            return output.token_times[0] - began
    raise RuntimeError("the answer has no token")


def random_prompt(num_tokens: int, seed: int) -> list[int]:
    """Return tokens without any common prefix with other seeds'."""
    return random.Random(seed).choices(range(100, 100_000), k=num_tokens)


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir())


async def until(condition: Callable[[], bool]) -> None:
    """Return when the condition holds."""
    while not condition():  # noqa: ASYNC110  it depends on another process
        await asyncio.sleep(0.01)


async def open_stream(engine: GeneratorClient, prompt: list[int], received: list[int]) -> float:
    """Add the tokens of a long answer to `received` until the engine fails; return the seconds until the first one."""
    stopping = StopParams(max_tokens=400, ignore_eos=True)
    began = time.monotonic()
    wanted = GenerationRequest("bench", prompt + received, SamplingParams(temperature=0), stopping)
    first_s = 0.0
    with suppress(EngineFailed):
        async with engine.generate(wanted) as outputs:
            async for output in outputs:
                first_s = first_s or output.token_times[0] - began
                received += output.token_ids
    return first_s


async def crash(dtype: Any, num_tokens: int) -> None:
    """Report the first tokens of 16 streams that are opened again after the death of their worker."""
    num_own = num_tokens // 16
    shared = random_prompt(num_tokens // 2 - num_own, NUM_STREAMS)
    prompts = [shared + random_prompt(num_own, seed) for seed in range(NUM_STREAMS)]
    engine, _ = load(dtype, None)
    async with engine:
        await first_token_s(engine, shared)
        cold = await asyncio.gather(*(first_token_s(engine, prompt) for prompt in prompts))
        received: list[list[int]] = [[] for _ in prompts]
        streams = [
            asyncio.create_task(open_stream(engine, prompt, tokens))
            for prompt, tokens in zip(prompts, received, strict=True)
        ]
        await until(lambda: min(map(len, received)) >= 20)
        engine.kill()
        began = time.monotonic()
        warm = await asyncio.gather(*streams)
        await until(lambda: not engine.is_restarting)
        restart_s = time.monotonic() - began
        resumed = await asyncio.gather(
            *(first_token_s(engine, prompt + tokens) for prompt, tokens in zip(prompts, received, strict=True))
        )
        num_adopted = engine.stats().num_adopted_blocks
    warm_s, resumed_s = statistics.mean(warm), statistics.mean(resumed)
    print(
        f"crash, {NUM_STREAMS} streams of {num_tokens // 2} tokens, the last {num_own} their own, {dtype}: "
        f"mean first token warm {warm_s:.3f} s",
        end=", ",
    )
    print(f"resumed {resumed_s:.3f} s, ratio {resumed_s / warm_s:.2f}; cold {statistics.mean(cold):.1f} s", end="; ")
    print(f"new worker after {restart_s:.1f} s with {num_adopted} blocks")


async def measure_restart(dtype: Any, num_tokens: int, key_file: Path | None) -> Restart:
    """Stop an engine that has answered a prompt, start another one, and repeat the prompt."""
    with tempfile.TemporaryDirectory() as folder:
        prompt = random_prompt(num_tokens, 0)
        first, plain_load_s = load(dtype, Path(folder), key_file)
        async with first:
            await first_token_s(first, random_prompt(64, 2))
            cold_s = await first_token_s(first, prompt)
            began = time.monotonic()
        stop_s = time.monotonic() - began
        num_bytes = size_of(Path(folder))
        second, load_s = load(dtype, Path(folder), key_file)
        async with second:
            await first_token_s(second, random_prompt(64, 3))
            return Restart(plain_load_s, cold_s, stop_s, num_bytes, load_s, await first_token_s(second, prompt))


async def restart(dtype: Any, num_tokens: int) -> None:
    """Report the first tokens of a new prompt, and of one that an engine before the restart has answered."""
    found = await measure_restart(dtype, num_tokens, None)
    print(
        f"restart, {num_tokens} tokens, {dtype}: cold {found.cold_s:.2f} s, after a restart {found.first_s:.3f} s, "
        f"ratio {found.first_s / found.cold_s:.4f}; stop with {found.num_bytes / 1e6:.0f} MB in {found.stop_s:.2f} s; "
        f"load {found.plain_load_s:.2f} s without and {found.load_s:.2f} s with a snapshot"
    )


async def encryption(dtype: Any, num_tokens: int) -> None:
    """Report the times of restarts with a key as ratios of those without one."""
    with tempfile.TemporaryDirectory() as folder:
        key_file = Path(folder) / "key"
        key_file.write_bytes(base64.b64encode(secrets.token_bytes(32)))
        rounds = [
            (await measure_restart(dtype, num_tokens, None), await measure_restart(dtype, num_tokens, key_file))
            for _ in range(3)
        ]
    print(f"encryption, {num_tokens} tokens, {dtype}, {rounds[0][0].num_bytes / 1e6:.0f} MB:", end=" ")
    parts = []
    for name in ("stop_s", "load_s", "first_s"):
        plain, encrypted = (
            statistics.median(getattr(each, name) for each in times) for times in zip(*rounds, strict=True)
        )
        parts.append(f"{name} {plain:.3f} plain, {encrypted:.3f} encrypted, ratio {encrypted / plain:.2f}")
    print("; ".join(parts))
    for name, times in zip(("write", "read"), zip(*map(files_s, (None, bytes(32))), strict=True), strict=True):
        print(f"{name} {times[0]:.3f} s of a core plain, {times[1]:.3f} encrypted, ratio {times[1] / times[0]:.2f}")


def files_s(key: bytes | None) -> tuple[float, float]:
    """Return the processor's seconds to write and to read 99 MB of blocks, medians of five."""
    rows = [np.random.default_rng(0).integers(0, 256, (500, 198_000), np.uint8)]
    entries = [CacheEntry(BLOCK, index.to_bytes(32), index) for index in range(len(rows[0]))]
    times = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as folder:
            snapshots = SnapshotFolder(Path(folder), 1 << 30, key=key)
            began = time.process_time()
            snapshots.write(bytes(32), entries, rows)
            written = time.process_time()
            snapshots.read(bytes(32), rows)
            times.append((written - began, time.process_time() - written))
    write_s, read_s = map(statistics.median, zip(*times, strict=True))
    return write_s, read_s


PARTS = {"restart": restart, "encryption": encryption, "crash": crash}


def main() -> None:
    """Run the parts that the arguments name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--tokens", type=int, default=8_000)
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    for part in options.parts:
        asyncio.run(PARTS[part](options.dtype, options.tokens))


if __name__ == "__main__":
    main()

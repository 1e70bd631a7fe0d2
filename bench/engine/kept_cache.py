"""Measure first tokens from keys and values that an earlier process has computed.

Run as `python -m bench.engine.kept_cache [--tokens 8000] [--dtype bfloat16]`. The model has the shape of Qwen2.5 0.5B.
`restart` stops an engine with `engine.cache_folder` and starts another one: the first token of a prompt
that the first engine has answered, as a ratio of the first token of one that none has answered. The engine is loaded by
then; its load with and without a snapshot is reported, too.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import shapes
from service.engine.building.engines import build_engine
from service.engine.client.generator import GeneratorClient
from service.engine.interface.config import EngineConfig
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest


def load(dtype: Any, cache_folder: Path | None) -> tuple[GeneratorClient, float]:
    """Load an engine, and return it with the seconds that this took."""
    began = time.monotonic()
    config = EngineConfig(max_model_len=8_400, cache_folder=cache_folder)
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


async def restart(dtype: Any, num_tokens: int) -> None:
    """Report the first tokens of a new prompt, and of one that an engine before the restart has answered."""
    with tempfile.TemporaryDirectory() as folder:
        prompt, new = random_prompt(num_tokens, 0), random_prompt(num_tokens, 1)
        first, plain_s = load(dtype, Path(folder))
        async with first:
            await first_token_s(first, random_prompt(64, 2))
            cold = [await first_token_s(first, prompt)]
            began = time.monotonic()
        stop_s = time.monotonic() - began
        size = size_of(Path(folder))
        second, load_s = load(dtype, Path(folder))
        async with second:
            await first_token_s(second, random_prompt(64, 3))
            found = await first_token_s(second, prompt)
            cold.append(await first_token_s(second, new))
    cold_s = statistics.mean(cold)
    print(f"restart, {num_tokens} tokens, {dtype}: cold {cold_s:.2f} s, after a restart {found:.3f} s, ratio", end=" ")
    print(
        f"{found / cold_s:.4f}; stop with {size / 1e6:.0f} MB in {stop_s:.2f} s; load {plain_s:.2f} s without and",
        end=" ",
    )
    print(f"{load_s:.2f} s with a snapshot")


def main() -> None:
    """Run the parts that the arguments name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--parts", nargs="+", default=["restart"], choices=["restart"])
    parser.add_argument("--tokens", type=int, default=8_000)
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    for part in options.parts:
        asyncio.run({"restart": restart}[part](options.dtype, options.tokens))


if __name__ == "__main__":
    main()

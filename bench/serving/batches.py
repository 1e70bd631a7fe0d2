"""How much a batch delays other requests, and its share of the idle capacity: `python -m bench.serving.batches`.

One service, called over gRPC, has three loads in turn: requests of people that arrive at random instants, a batch, and
both. Without `--rate`, people take the same part of the time on every machine: the time of a single request is measured
first. Printed are the ratio of the 95th percentiles of the times to the first token with and without the batch, and the
batch's rate of tokens with people, relative to its rate alone in the time that people leave idle.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import grpc
from sluice.v1 import batch_pb2, batch_pb2_grpc, completion_pb2, completion_pb2_grpc

from bench import shapes
from bench.serving.servers import ROOT, free_ports

_MODEL: Final = "m"
_VOCABULARY: Final = 2_000  # token ids of prompts are below
_START_TIMEOUT_S: Final = 180
_LINES: Final = 2000  # more than a phase computes
_SETTLE_S: Final = 2.0
_BUSY: Final = 0.35  # the part of the time that people's requests take


@dataclass(frozen=True)
class Load:
    """The load: seconds of a phase, people's requests per second, and the tokens of prompts and answers."""

    seconds: float
    rate: float  # 0 for the one that the machine's speed gives
    prompt: int
    answer: int
    batch_prompt: int
    batch_answer: int


@dataclass
class Service:
    """A running service with its stubs."""

    completions: Any
    batches: Any
    metrics_url: str

    def counters(self) -> dict[str, float]:
        """Return the engine's busy seconds and computed tokens so far."""
        with urllib.request.urlopen(self.metrics_url, timeout=30) as answer:  # noqa: S310  a loopback address
            lines = answer.read().decode().splitlines()
        names = {"busy": "sluice_engine_busy_time_seconds_total", "tokens": "sluice_engine_computed_tokens_total"}
        return {
            short: sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{"))
            for short, name in names.items()
        }


@asynccontextmanager
async def started(model: Path) -> AsyncIterator[Service]:
    """Start a service on a model, and stop it at the end of the block."""
    port, metrics = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        flags = {
            "port": port, "metrics-port": metrics, "model": f"{_MODEL}={model}", "log-level": "error",
            "stored-responses.file": Path(folder) / "responses.sqlite3",
        }  # fmt: skip
        command = [sys.executable, "-m", "service", *(f"--{name}={value}" for name, value in flags.items())]
        process = subprocess.Popen(command, cwd=ROOT)  # noqa: ASYNC220  at the start only
        try:
            async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
                service = Service(
                    completion_pb2_grpc.CompletionServiceStub(channel),
                    batch_pb2_grpc.BatchServiceStub(channel),
                    f"http://127.0.0.1:{metrics}/metrics",
                )
                async with asyncio.timeout(_START_TIMEOUT_S):
                    while not await _is_ready(service):  # noqa: ASYNC110  another process
                        await asyncio.sleep(0.2)
                yield service
        finally:
            process.terminate()
            process.wait()


async def _is_ready(service: Service) -> bool:
    """Return whether the service answers a request."""
    try:
        await service.completions.Complete(_request(8, 2, random.Random(0)), wait_for_ready=True)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False
    return True


def _request(prompt: int, answer: int, draw: random.Random) -> completion_pb2.CompleteRequest:
    """Return a request with random tokens, so that no prompt is found in the cache."""
    ids = [draw.randrange(_VOCABULARY) for _ in range(prompt)]
    return completion_pb2.CompleteRequest(
        model=_MODEL,
        prompts=[{"token_ids": {"ids": ids}}],
        stopping={"max_tokens": answer, "min_tokens": answer, "ignore_eos": True},
    )


async def _first_token_s(service: Service, load: Load, draw: random.Random) -> float:
    """Return the time to the first token of a request, which is read to its end."""
    began, first = time.monotonic(), 0.0
    request = _request(load.prompt, load.answer, draw)
    async for event in service.completions.StreamComplete(request, wait_for_ready=True):
        if not first and event.WhichOneof("event") == "delta":
            first = time.monotonic() - began
    return first


async def rate_of(service: Service, load: Load) -> float:
    """Return the rate at which people's requests take the part _BUSY of the time."""
    draw = random.Random(3)
    await _first_token_s(service, load, draw)
    began = time.monotonic()
    await _first_token_s(service, load, draw)
    return _BUSY / (time.monotonic() - began)


async def people(service: Service, load: Load, phase: int) -> list[float]:
    """Return the times to the first token of requests at random instants, the same ones in each phase.

    Their prompts differ, so that none is found in the cache.
    """
    draw, prompts = random.Random(1), random.Random(100 + phase)
    instants, at = [], 0.0
    while (at := at + draw.expovariate(load.rate)) < load.seconds:
        instants.append(at)

    async def send(instant: float) -> float:
        await asyncio.sleep(instant)
        return await _first_token_s(service, load, prompts)

    return await asyncio.gather(*map(send, instants))


@asynccontextmanager
async def batch(service: Service, load: Load) -> AsyncIterator[None]:
    """Run a batch during the block."""
    draw = random.Random(2)

    def messages() -> Any:
        yield batch_pb2.CreateBatchRequest(description=batch_pb2.BatchDescription())
        for begin in range(0, _LINES, 100):
            lines = [
                batch_pb2.BatchLine(
                    custom_id=str(number), completion=_request(load.batch_prompt, load.batch_answer, draw)
                )
                for number in range(begin, begin + 100)
            ]
            yield batch_pb2.CreateBatchRequest(requests=batch_pb2.BatchLines(lines=lines))

    created = (await service.batches.CreateBatch(messages())).batch
    await asyncio.sleep(_SETTLE_S)
    yield
    await service.batches.DeleteBatch(batch_pb2.DeleteBatchRequest(id=created.id))
    await asyncio.sleep(_SETTLE_S)


def p95(times: list[float]) -> float:
    """Return the 95th percentile."""
    return statistics.quantiles(times, n=20, method="inclusive")[-1]


async def measure(model: Path, load: Load) -> dict[str, float]:
    """Return the measured times and ratios."""
    async with started(model) as service:
        load = replace(load, rate=load.rate or await rate_of(service, load))
        before = service.counters()
        alone = await people(service, load, 0)
        after = service.counters()
        idle = 1 - (after["busy"] - before["busy"]) / load.seconds
        peoples_tokens = after["tokens"] - before["tokens"]
        async with batch(service, load):
            before = service.counters()
            await asyncio.sleep(load.seconds / 2)
            whole = (service.counters()["tokens"] - before["tokens"]) / (load.seconds / 2)
        # The limit of steps follows from people's first tokens, which a service that has run for long knows.
        async with batch(service, load):
            before, began = service.counters(), time.monotonic()
            together = await people(service, load, 1)
            taken = (service.counters()["tokens"] - before["tokens"] - peoples_tokens) / (time.monotonic() - began)
    return {
        "requests": len(alone),
        "rate": load.rate,
        "p95_s": p95(alone),
        "p95_s_with_batch": p95(together),
        "p95_ratio": p95(together) / p95(alone),
        "median_ratio": statistics.median(together) / statistics.median(alone),
        "idle": idle,
        "batch_tokens_per_s": whole,
        "batch_tokens_per_s_with_people": taken,
        "batch_share_of_idle": taken / whole / idle,
    }


def main() -> None:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, help="folder of the model; default: random weights of the 0.5 B shape")
    parser.add_argument("--seconds", type=float, default=80, help="of each phase with people")
    parser.add_argument("--rate", type=float, default=0, help="people's requests per second; default: by the machine")
    parser.add_argument("--prompt", type=int, default=384, help="tokens of people's prompts")
    parser.add_argument("--answer", type=int, default=16, help="tokens of people's answers")
    given = parser.parse_args()
    model = given.model or shapes.qwen2_5_0_5b()
    load = Load(given.seconds, given.rate, given.prompt, given.answer, batch_prompt=64, batch_answer=32)
    print(json.dumps(asyncio.run(measure(model, load)), indent=2))


if __name__ == "__main__":
    main()

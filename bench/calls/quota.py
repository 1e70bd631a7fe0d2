"""Measure the cost in µs of counting a request against its key's limits, in memory and in a local Redis.

Run: .venv/bin/python -m bench.calls.quota [--requests 2000] [--callers 1 16]

A key has all four counted limits. Each request is admitted, charges its tokens and returns the unused ones. `callers`
run concurrently, each sending one request after the other. It prints the median and 99th percentile of a request's
time, and the requests per second. It starts a Redis server; `tools/install.sh redis` installs one.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvloop

from service.generation.caller import Caller, Limits
from service.generation.outputs.events import Usage
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.parameters import StopParams
from service.generation.requests.request import GenerationRequest
from service.quota.limit import Measure
from service.quota.limit_status import LimitStatus
from service.quota.memory_store import MemoryStore
from service.quota.quota import Quota
from service.quota.redis_store import RedisStore
from service.quota.store import Store, StoreLost

MODEL = "m"
MANY = 1_000_000_000
LIMITS = Limits(MANY, MANY, MANY, 1000)
STOPPING = StopParams(max_tokens=100)
ASKED = AnswerRequest(MODEL, (), "prompts", stopping=STOPPING)
PREPARED = [GenerationRequest("r", [1] * 100, stopping=STOPPING)]


def _ignore(statuses: Sequence[LimitStatus]) -> None:
    """Ignore the statuses of the key's limits."""


class NullObserver:
    """A QuotaObserver that does nothing."""

    def on_use(self, caller: str, model: str, num_input: int, num_output: int) -> None:
        """Do nothing."""

    def on_rejection(self, caller: str, model: str, measure: Measure) -> None:
        """Do nothing."""


async def charge(quota: Quota, caller: Caller) -> float:
    """Return the seconds of one request."""
    began = time.perf_counter()
    async with quota.admit(caller, MODEL, _ignore) as charge:
        await charge.take_for(charge.bound(ASKED), PREPARED)
        charge.count(lambda: Usage(100, 50))
    return time.perf_counter() - began


async def measure(store: Store, num_callers: int, num_requests: int) -> tuple[Sequence[float], float]:
    """Return the seconds of each request, and of all of them together."""
    quota = Quota(store, NullObserver(), {}, 1024)

    async def call(index: int) -> list[float]:
        caller = Caller(id=f"k{index}", limits=LIMITS)
        return [await charge(quota, caller) for _ in range(num_requests // num_callers)]

    await call(0)
    began = time.perf_counter()
    times = await asyncio.gather(*map(call, range(num_callers)))
    return [each for some in times for each in some], time.perf_counter() - began


@contextmanager
def redis_server() -> Iterator[str]:
    """Run a server that listens only on a socket file, and yield its URL."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "redis.sock"
        command = ["redis-server", "--port", "0", "--unixsocket", str(socket), "--save", ""]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            yield f"unix://{socket}"
        finally:
            server.terminate()
            server.wait()


async def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 16])
    options = parser.parse_args()
    print(f"{'store':8} {'callers':>7} {'median µs':>10} {'p99 µs':>8} {'requests/s':>11}")
    with redis_server() as url:
        remote = RedisStore(url, 5)
        while True:
            try:
                await remote.start()
                break
            except StoreLost:
                await asyncio.sleep(0.05)
        for name, store in (("memory", MemoryStore()), ("redis", remote)):
            for num_callers in options.callers:
                times, total = await measure(store, num_callers, options.requests)
                median, p99 = statistics.median(times) * 1e6, statistics.quantiles(times, n=100)[98] * 1e6
                print(f"{name:8} {num_callers:7} {median:10.0f} {p99:8.0f} {len(times) / total:11.0f}")
        await remote.close()


if __name__ == "__main__":
    uvloop.run(main())

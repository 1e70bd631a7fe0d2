"""What counting a request against its caller's limits costs, in memory and in a Redis on this machine, in µs.

Run: .venv/bin/python -m bench.calls.quota [--requests 2000] [--callers 1 16]

A caller has all four limits that are counted; each request is let in, takes its tokens and gives back what it didn't
use. `callers` send them at once, one after the other each. Printed are the time of one request, median and 99th
percentile, and the requests a second. A Redis is started for it; tools/install.sh redis installs that.
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
    """Where the caller stands is told to nobody."""


class Nobody:
    """A QuotaObserver that does nothing."""

    def on_use(self, caller: str, model: str, num_input: int, num_output: int) -> None:
        """Nothing."""

    def on_refusal(self, caller: str, model: str, measure: Measure) -> None:
        """Nothing."""


async def charge(quota: Quota, caller: Caller) -> float:
    """The seconds of one request."""
    began = time.perf_counter()
    async with quota.admit(caller, MODEL, _ignore) as charge:
        await charge.take_for(charge.bound(ASKED), PREPARED)
        charge.count(lambda: Usage(100, 50))
    return time.perf_counter() - began


async def measure(store: Store, num_callers: int, num_requests: int) -> tuple[Sequence[float], float]:
    """The seconds of each request, and of all of them."""
    quota = Quota(store, Nobody(), {}, 1024)

    async def call(index: int) -> list[float]:
        caller = Caller(id=f"k{index}", limits=LIMITS)
        return [await charge(quota, caller) for _ in range(num_requests // num_callers)]

    await call(0)
    began = time.perf_counter()
    times = await asyncio.gather(*map(call, range(num_callers)))
    return [each for some in times for each in some], time.perf_counter() - began


@contextmanager
def redis_server() -> Iterator[str]:
    """The URL of a server that listens on a socket file only."""
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

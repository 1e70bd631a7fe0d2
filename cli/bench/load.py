"""Send requests by a plan: a fixed concurrency, or random times regardless of the server's speed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from cli.bench.dialects import BenchRequest
from cli.bench.plan import Plan
from cli.bench.record import Record

_MOST_KEPT: Final = 64 << 20  # bytes of responses that are parsed later


class Sent(Protocol):
    """A completed request. Its record is read once."""

    @property
    def num_bytes(self) -> int: ...

    def record(self) -> Record: ...


class Sender(Protocol):
    """Sends requests to a server."""

    async def send(self, request: BenchRequest) -> Sent: ...

    async def close(self) -> None: ...


class Load:
    """One run of a plan. If it is cancelled, connections are closed, and completed requests are kept."""

    def __init__(
        self, sender: Sender, make_request: Callable[[], BenchRequest], watch: Callable[[int], None] = lambda _: None
    ) -> None:
        """`make_request` returns a request; `watch` is called with the number of completed requests."""
        self._sender = sender
        self._make_request = make_request
        self._watch = watch
        self._kept: list[Sent] = []
        self._num_kept = 0
        self._records: list[Record] = []

    async def run(self, plan: Plan) -> None:
        """Run the plan, and return when the last response has ended."""
        requests = self._requests(plan)
        async with asyncio.TaskGroup() as group:
            if plan.rate is None:
                for _ in range(plan.concurrency):
                    group.create_task(self._in_turn(requests))
                return
            draw = random.Random(plan.seed)  # noqa: S311  not for security
            at = time.perf_counter()
            while True:
                at += draw.expovariate(plan.rate)
                await asyncio.sleep(max(0.0, at - time.perf_counter()))
                if (request := next(requests, None)) is None:
                    return
                group.create_task(self._send(request))

    def records(self) -> list[Record]:
        """Return the records of completed requests, in order of completion."""
        self._records += [sent.record() for sent in self._kept]
        self._kept.clear()
        self._num_kept = 0
        return self._records

    def _requests(self, plan: Plan) -> Iterator[BenchRequest]:
        """Yield requests until the plan's number or its duration is reached."""
        began = time.perf_counter()
        num = 0
        while (plan.num_requests is None or num < plan.num_requests) and (
            plan.seconds is None or time.perf_counter() - began < plan.seconds
        ):
            num += 1
            yield self._make_request()

    async def _in_turn(self, requests: Iterator[BenchRequest]) -> None:
        """Send requests one after the other."""
        for request in requests:
            await self._send(request)

    async def _send(self, request: BenchRequest) -> None:
        """Send one request and keep its response; make records of the kept ones if they are too large."""
        sent = await self._sender.send(request)
        self._kept.append(sent)
        self._num_kept += sent.num_bytes
        if self._num_kept > _MOST_KEPT:
            self.records()
        self._watch(len(self._records) + len(self._kept))

"""Requests by a plan: so many at once, or at random moments, whether or not the server keeps up."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from cli.bench.dialects import Ask
from cli.bench.plan import Plan
from cli.bench.record import Record

_MOST_KEPT: Final = 64 << 20  # bytes of answers, to be read when there is nothing to time


class Sent(Protocol):
    """A request that has ended. Its record is read once."""

    @property
    def num_bytes(self) -> int: ...

    def record(self) -> Record: ...


class Sender(Protocol):
    """A way to a server."""

    async def send(self, ask: Ask) -> Sent: ...

    async def close(self) -> None: ...


class Load:
    """One run of a plan. Cancelled, it hangs up, and has what had ended until then."""

    def __init__(self, sender: Sender, ask: Callable[[], Ask], watch: Callable[[int], None] = lambda _: None) -> None:
        """`ask` makes a request; `watch` is told how many have ended."""
        self._sender = sender
        self._ask = ask
        self._watch = watch
        self._kept: list[Sent] = []
        self._num_kept = 0
        self._records: list[Record] = []

    async def run(self, plan: Plan) -> None:
        """Until the last answer has ended."""
        asks = self._asks(plan)
        async with asyncio.TaskGroup() as group:
            if plan.rate is None:
                for _ in range(plan.concurrency):
                    group.create_task(self._in_turn(asks))
                return
            draw = random.Random(plan.seed)  # noqa: S311  it guards nothing
            at = time.perf_counter()
            while True:
                at += draw.expovariate(plan.rate)
                await asyncio.sleep(max(0.0, at - time.perf_counter()))
                if (ask := next(asks, None)) is None:
                    return
                group.create_task(self._send(ask))

    def records(self) -> list[Record]:
        """Of those that have ended, in that order."""
        self._records += [sent.record() for sent in self._kept]
        self._kept.clear()
        self._num_kept = 0
        return self._records

    def _asks(self, plan: Plan) -> Iterator[Ask]:
        began = time.perf_counter()
        num = 0
        while (plan.num_requests is None or num < plan.num_requests) and (
            plan.seconds is None or time.perf_counter() - began < plan.seconds
        ):
            num += 1
            yield self._ask()

    async def _in_turn(self, asks: Iterator[Ask]) -> None:
        for ask in asks:
            await self._send(ask)

    async def _send(self, ask: Ask) -> None:
        sent = await self._sender.send(ask)
        self._kept.append(sent)
        self._num_kept += sent.num_bytes
        if self._num_kept > _MOST_KEPT:
            self.records()
        self._watch(len(self._records) + len(self._kept))

"""Concurrent clients of every kind, and the outcome of each request."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx
from grpc import aio

from tests.soak import requests as kinds
from tests.soak.requests import Dice, GrpcRequest, RestRequest
from tests.waiting import GUARD_S

DONE = "done"
LEFT = "left"  # closed by the client on purpose
AWAY = "not accepted"  # no connection: the server doesn't listen
RETRY_STATUSES = {429, 503, 529}

Kind = Callable[[Dice], RestRequest | GrpcRequest]


@dataclass
class Load:
    """Clients of one address, which send requests until the event of `run` is set and then finish the open ones.

    A client keeps its connection for `num_kept` requests. `leaving` is the share of streams that are closed in the
    middle.
    """

    url: str
    num_callers: int
    kinds: Sequence[Kind] = (*kinds.REST, *kinds.GRPC)
    leaving: float = 0.0
    num_kept: int = 1
    seed: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    async def run(self, enough: asyncio.Event) -> None:
        """Send requests until `enough` is set."""
        async with asyncio.TaskGroup() as group:
            for number in range(self.num_callers):
                group.create_task(self._ask(random.Random(f"{self.seed} {number}"), enough))

    def lost(self) -> dict[tuple[str, str], int]:
        """Return the unexpected outcomes: kind and outcome, with their count."""
        expected = (DONE, LEFT, AWAY, "refused")
        return {key: count for key, count in self.outcomes.items() if not key[1].startswith(expected)}

    def num(self, outcome: str) -> int:
        """Return the number of requests with this outcome."""
        return sum(count for (_, each), count in self.outcomes.items() if each == outcome)

    async def _ask(self, dice: Dice, enough: asyncio.Event) -> None:
        while not enough.is_set():
            async with self._connections() as (http, channel):
                for _ in range(self.num_kept):
                    kind = dice.choice(self.kinds)
                    request = kind(dice)
                    if isinstance(request, RestRequest):
                        outcome = await self._rest(http, request, dice)
                    else:
                        outcome = await self._grpc(channel, request, dice)
                    self.outcomes[kind.__name__, outcome] += 1
                    if outcome.startswith(("refused", AWAY)):
                        await asyncio.sleep(0.2)
                    if enough.is_set():
                        return

    @contextlib.asynccontextmanager
    async def _connections(self) -> AsyncIterator[tuple[httpx.AsyncClient, aio.Channel]]:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=GUARD_S, verify=False) as http,  # noqa: S501 plain text
            aio.insecure_channel(self.url.removeprefix("http://"), options) as channel,
        ):
            yield http, channel

    def _num_to_read(self, dice: Dice) -> int | None:
        """Return the number of a stream's pieces to read; None for all."""
        return dice.randrange(1, 20) if dice.random() < self.leaving else None

    async def _rest(self, http: httpx.AsyncClient, request: RestRequest, dice: Dice) -> str:
        left_after = self._num_to_read(dice)
        try:
            async with http.stream("POST", request.path, json=request.body) as answer:
                last = ""
                num_read = 0
                async for line in answer.aiter_lines():
                    last = line or last
                    num_read += 1
                    if num_read == left_after:
                        return LEFT
        except httpx.ConnectError:
            return AWAY
        except httpx.HTTPError as error:
            return f"{type(error).__name__}: {error}"
        return _outcome(request, answer.status_code, last)

    async def _grpc(self, channel: aio.Channel, request: GrpcRequest, dice: Dice) -> str:
        left_after = self._num_to_read(dice)
        call: Any = getattr(request.stub(channel), request.method)(request.message, timeout=GUARD_S)
        num_read = 0
        try:
            if isinstance(call, aio.UnaryUnaryCall):
                await call
            else:
                async for _ in call:
                    num_read += 1
                    if num_read == left_after:
                        return LEFT
        except aio.AioRpcError as error:
            if error.code().name == request.code:
                return DONE
            text = str(error.details())
            if "failed to connect" in text.lower():
                return AWAY
            refusals = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
            if not num_read and error.code() in refusals and "reset" not in text.lower():
                return f"refused {error.code().name}"
            return f"{error.code().name}: {text[:200]}"
        finally:
            call.cancel()
        return DONE if request.code == "OK" else "answered"


def _outcome(request: RestRequest, status: int, last: str) -> str:
    """Return the outcome of a finished answer, by its last line."""
    if status in request.statuses:
        return DONE if request.end is None or request.end in last else f"no end: {last[:200]}"
    return f"refused {status}" if status in RETRY_STATUSES else f"status {status}: {last[:200]}"

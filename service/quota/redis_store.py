"""Buckets and slots in a Redis or Valkey server that replicas share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from service.quota.redis_scripts import GIVE_BACK, RENEW, TAKE
from service.quota.store import Demand, Reading, StoreLost

_PREFIX = "{sluice-quota}:"  # a hash tag: a cluster keeps all keys on one server, which scripts require
_MAX_CONNECTIONS = 64
_LEASE_S = 5.0  # after which the slots of a dead process are released
_RENEWALS = 3  # per lease
_MAX_RENEWED = 500  # per script, which blocks the server
_PROBE_MS = 1000


def check_url(url: str) -> None:
    """Raise ValueError for an invalid URL, without connecting."""
    try:
        BlockingConnectionPool.from_url(url).make_connection()  # type: ignore[no-untyped-call]
    except TypeError as error:  # an unknown option
        raise ValueError(str(error).rpartition(") got an ")[2]) from error


class RedisStore:
    """A `Store` that several replicas share. No call takes longer than `timeout_s`.

    `take` raises StoreLost. Tokens and slots are returned in the background; if a return is lost, they become available
    again after some time.
    """

    def __init__(self, url: str, timeout_s: float, lease_s: float = _LEASE_S) -> None:
        """Connect at first use. `url` must pass `check_url`."""
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=_MAX_CONNECTIONS,
            timeout=timeout_s,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),  # an operation that may have succeeded is not repeated
        )
        self._redis = Redis(connection_pool=pool)
        self._timeout_s = timeout_s
        self._lease_s = lease_s
        self._lease_us = round(lease_s * 1e6)
        self._take = self._redis.register_script(TAKE)
        self._give_back = self._redis.register_script(GIVE_BACK)
        self._renew = self._redis.register_script(RENEW)
        self._held: dict[str, tuple[str, ...]] = {}  # keys of slots, by holder
        self._sending: set[asyncio.Task[None]] = set()
        self._renewing: asyncio.Task[None] | None = None

    @property
    def num_sending(self) -> int:
        """The number of returns that are still pending."""
        return len(self._sending)

    async def start(self) -> None:
        """Raise StoreLost unless the server can be reached and written to."""
        async with self._translate_errors():
            await self._redis.set(f"{_PREFIX}probe", 1, px=_PROBE_MS)

    async def take(self, demand: Demand) -> Reading:
        """Take a demand as Store.take. Raise StoreLost."""
        taking = asyncio.ensure_future(self._taken(demand))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(lambda done: self._return_unwanted(demand, done))
            raise

    def give_back(self, demand: Demand) -> None:
        """Return the tokens and slots of a demand in the background."""
        self._held.pop(demand.holder, None)
        self._send(self._send_back(demand))

    async def close(self) -> None:
        """Wait for pending operations, and disconnect."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
        if self._sending:
            await asyncio.wait(self._sending)
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def _taken(self, demand: Demand) -> Reading:
        """Run `take` on the server."""
        buckets = [_PREFIX + draw.bucket.name for draw in demand.draws]
        slots = [_PREFIX + slots.name for slots in demand.slots]
        numbers = [number for draw in demand.draws for number in (draw.bucket.limit, draw.num_tokens, draw.at_least)]
        limits = [each.limit for each in demand.slots]
        async with self._translate_errors():
            is_granted, *states = await self._take(
                keys=[*buckets, *slots], args=[len(buckets), *numbers, demand.holder, self._lease_us, *limits]
            )
        if is_granted and slots:
            self._hold(demand.holder, slots)
        behind_s = [microseconds / 1e6 for microseconds in states[: len(buckets)]]
        return Reading(bool(is_granted), behind_s, states[len(buckets) :], self.give_back)

    def _return_unwanted(self, demand: Demand, done: asyncio.Task[Reading]) -> None:
        """Return the tokens and slots that an abandoned operation has taken."""
        if not done.cancelled() and done.exception() is None and done.result().is_granted:
            self.give_back(demand)

    async def _send_back(self, demand: Demand) -> None:
        """Run `give_back` on the server."""
        buckets = [_PREFIX + draw.bucket.name for draw in demand.draws]
        slots = [_PREFIX + slots.name for slots in demand.slots]
        numbers = [number for draw in demand.draws for number in (draw.bucket.limit, draw.num_tokens)]
        async with self._translate_errors():
            await self._give_back(keys=[*buckets, *slots], args=[len(buckets), *numbers, demand.holder])

    def _hold(self, holder: str, keys: list[str]) -> None:
        """Keep the lease of a holder's slots until they are given back."""
        self._held[holder] = tuple(keys)
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew_leases())

    async def _renew_leases(self) -> None:
        """Renew the leases of all holders, also at a server that has lost them."""
        while True:
            await asyncio.sleep(self._lease_s / _RENEWALS)
            held = [(key, holder) for holder, keys in self._held.items() for key in keys]
            for start in range(0, len(held), _MAX_RENEWED):
                batch = [each for each in held[start : start + _MAX_RENEWED] if each[1] in self._held]
                self._send(self._renew_batch(batch))

    async def _renew_batch(self, held: list[tuple[str, str]]) -> None:
        """Renew the leases of some holders."""
        async with self._translate_errors():
            await self._renew(keys=[key for key, _ in held], args=[self._lease_us, *(holder for _, holder in held)])

    def _send(self, sending: Coroutine[Any, Any, None]) -> None:
        """Run an operation in the background. Failures are ignored: the next `take` reports them."""
        task = asyncio.create_task(_unless_lost(sending))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    @asynccontextmanager
    async def _translate_errors(self) -> AsyncIterator[None]:
        """Limit the time of an operation, and raise its errors as StoreLost."""
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError as error:
            raise StoreLost(f"no answer within {self._timeout_s:g} s") from error
        except (RedisError, OSError) as error:
            raise StoreLost(" ".join(str(error).split()) or type(error).__name__) from error


async def _unless_lost(sending: Coroutine[Any, Any, None]) -> None:
    """Run an operation, and ignore the loss of the store."""
    try:
        await sending
    except StoreLost:
        return

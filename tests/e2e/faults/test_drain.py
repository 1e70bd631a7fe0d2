"""No accepted request is lost when processes are stopped under load."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from grpc import aio
from sluice.v1 import chat_pb2_grpc

from tests.e2e.faults.test_run import chat_request, until_served
from tests.e2e.replicas import Replicas
from tests.e2e.stack import HOLDABLE, Stack, suspend
from tests.soak.load import AWAY, DONE, Load
from tests.waiting import GUARD_S

DRAIN_TIMES_S = (5, 10, 20, 40)  # the first is enough unless the machine is very slow
# With half of the replicas, requests may wait longer, especially on a busy machine.
PATIENT = ("--engine.max-queue-wait-s=60",)


@asynccontextmanager
async def under(load: Load) -> AsyncIterator[None]:
    """Run the load within the block, and wait for its last requests at the end."""
    stop = asyncio.Event()
    running = asyncio.create_task(load.run(stop))
    try:
        async with asyncio.timeout(GUARD_S):
            await until_num(load, 4 * load.num_callers)
        yield
    finally:
        stop.set()
        await running


async def until_num(load: Load, count: int) -> None:
    """Return when `count` more requests have ended."""
    expected = load.outcomes.total() + count
    while load.outcomes.total() < expected:  # noqa: ASYNC110 a counter has no event
        await asyncio.sleep(0.02)


async def test_sigterm_of_the_runner_loses_no_request() -> None:
    """At SIGTERM each request is answered completely or finds the port closed; the exit code is 0."""
    for drain_time_s in DRAIN_TIMES_S:
        stack = Stack(*draining(drain_time_s))
        try:
            await asyncio.to_thread(stack.wait_for, "sluice is ready.")
            load = Load(stack.url, num_callers=16)
            async with under(load):
                stack.process.send_signal(signal.SIGTERM)
                async with drain_held(stack, drain_time_s) as is_held:
                    num_before = load.num(DONE)
                    # Each caller has one request running, so one of these has begun since.
                    while is_held and load.num(DONE) - num_before <= load.num_callers:  # noqa: ASYNC110 a counter has no event
                        await asyncio.sleep(0.02)
                code = await asyncio.to_thread(stack.wait)
                while not load.num(AWAY):  # noqa: ASYNC110 a counter has no event
                    await asyncio.sleep(0.02)
        finally:
            stack.stop()
        assert code == 0, stack.output
        print(f"{load.num(DONE)} requests")  # noqa: T201 a figure of docs/operation/reliability.md
        assert not load.lost(), load.lost()
        if is_held:
            return
    raise AssertionError("no drain was long enough to see the health check fail")


def draining(drain_time_s: int) -> tuple[str, ...]:
    """Return the options of a drain in which running requests may take long."""
    return f"--drain-time-s={drain_time_s}", f"--drain-timeout-s={GUARD_S}"


@asynccontextmanager
async def drain_held(stack: Stack, drain_time_s: int) -> AsyncIterator[bool]:
    """Stop Envoy's wrapper for the block as soon as Envoy's health check fails.

    Envoy accepts requests until the end of the block, however long it takes. The value is False if the drain time had
    passed before, since the machine is slow: then nothing is stopped, and the drain proves nothing about its beginning.
    """
    async with httpx.AsyncClient(base_url=stack.url, timeout=GUARD_S) as caller:
        try:
            while (ready := await caller.get("/readyz")).status_code == 200:
                pass
        except httpx.TransportError:  # Envoy listens no more
            yield False
            return
    assert ready.status_code == 503
    wrapper = stack.children().get("envoy")
    if wrapper is None:
        yield False
        return
    suspend(wrapper)
    try:
        yield accepts(stack.ports["envoy"], drain_time_s)
    finally:
        os.kill(wrapper, signal.SIGCONT)


def accepts(port: int, timeout_s: float) -> bool:
    """Return True if a new connection to a port is accepted in time."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout_s).close()
    except OSError:
        return False
    return True


@pytest.mark.timeout(600)  # four processes start twice, or five times
@pytest.mark.parametrize(
    "num_rounds", [pytest.param(1, marks=pytest.mark.long), pytest.param(4, marks=pytest.mark.soak)]
)
async def test_restarting_replicas_loses_no_request(num_rounds: int) -> None:
    """One gateway and one service after the other are restarted with SIGTERM: no request is lost.

    Requests are rejected only for lack of capacity, because half of the replicas have less.
    """
    with Replicas(options=PATIENT) as replicas:
        load = Load(replicas.url, num_callers=8)
        async with under(load):
            for pair in (("gateway-1", "service-1"), ("gateway-2", "service-2")) * num_rounds:
                codes = await asyncio.gather(*(asyncio.to_thread(replicas.restart, name) for name in pair))
                assert codes == [0, 0]
    check_all_done(load)


@pytest.mark.cluster
@pytest.mark.timeout(600)
async def test_restarting_a_fleet_loses_no_request() -> None:
    """Three services, two gateways and Envoy are replaced under load, one after the other: no request is lost."""
    with Replicas(num_services=3, options=PATIENT) as replicas:
        load = Load(replicas.url, num_callers=12)
        async with under(load):
            for name in (*replicas.services, *replicas.gateways):
                assert await asyncio.to_thread(replicas.restart, name) == 0
            assert await asyncio.to_thread(replicas.replace_envoy) == 0
            await until_num(load, 4 * load.num_callers)
    check_all_done(load)


def check_all_done(load: Load) -> None:
    """Check that nothing is lost, and few requests are rejected for lack of capacity."""
    print(f"{load.outcomes.total()} requests")  # noqa: T201 a figure of docs/operation/reliability.md
    num_rejected = load.num("refused 429") + load.num("refused RESOURCE_EXHAUSTED")
    assert load.num(DONE) + num_rejected == load.outcomes.total(), load.outcomes
    assert num_rejected * 50 < load.outcomes.total(), load.outcomes


async def test_sigterm_of_envoy_completes_its_streams() -> None:
    """At SIGTERM of Envoy's wrapper its running streams complete, and the runner restarts it."""
    for drain_time_s in DRAIN_TIMES_S:
        stack = Stack("--model=demo=demo/model", *draining(drain_time_s), environment=HOLDABLE)
        try:
            await asyncio.to_thread(stack.wait_for, "sluice is ready.")
            if await check_envoy_is_drained(stack, drain_time_s):
                return
        finally:
            await asyncio.to_thread(stack.stop)
    raise AssertionError("no drain was long enough to see the health check fail")


async def check_envoy_is_drained(stack: Stack, drain_time_s: int) -> bool:
    """Check a drain of Envoy alone. Return False if it was too short to see the health check fail."""
    async with aio.insecure_channel(stack.url.removeprefix("http://")) as channel:
        stub = chat_pb2_grpc.ChatServiceStub(channel)
        streams = [aiter(stub.StreamChat(chat_request("demo", max_tokens=1500))) for _ in range(8)]
        for stream in streams:
            await anext(stream)
        with stack.engine_held():  # so that no stream ends before
            os.kill(stack.children()["envoy"], signal.SIGTERM)
            async with drain_held(stack, drain_time_s) as is_held:
                if is_held:
                    async with httpx.AsyncClient(base_url=stack.url, timeout=GUARD_S) as caller:
                        models = await caller.get("/v1/models")  # accepted while the health check fails
        ends = [[event async for event in stream][-1] for stream in streams]
    assert all(end.HasField("completed") for end in ends)
    if is_held:
        assert (models.status_code, models.headers["connection"]) == (200, "close")
    await asyncio.to_thread(stack.wait_for, "run: envoy exited with code 0; it will be restarted in 0.5 s")
    await asyncio.to_thread(until_served, stack, "demo")
    return is_held

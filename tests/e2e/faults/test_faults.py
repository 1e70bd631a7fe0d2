"""Faults in the environment: stopped processes, full disks, and clients and log readers that do not read."""

from __future__ import annotations

import asyncio
import itertools
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc import aio
from sluice.v1 import chat_pb2_grpc

from tests.e2e.faults.test_drain import under
from tests.e2e.faults.test_run import chat_request, until_served
from tests.e2e.relay import Relay
from tests.e2e.stack import GENERATOR, HOLDABLE, PORTS, ROOT, Stack, free_ports, started, suspend
from tests.soak import requests as kinds
from tests.soak.load import DONE, Load
from tests.waiting import GUARD_S, wait_until

# Limits of tests that try again with twice the time if a process was merely scheduled too late.
STALLS_S = (5, 10, 20, 40)
KEEPALIVES_S = (1, 2, 4, 8, 16)
BODY = {"model": "sluice-demo", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


@contextmanager
def running(*options: str, **settings: object) -> Iterator[Stack]:
    """Yield the product with these settings of the service, ready, and stop it."""
    environment = {f"SLUICE_SERVICE_{name.upper()}": str(value) for name, value in settings.items()}
    with started(*options, environment=HOLDABLE | environment) as stack:
        yield stack


@pytest.fixture(scope="module")
def own() -> Iterator[Stack]:
    """The product with processes that tests stop."""
    with running(GENERATOR) as stack:
        yield stack


def stub_of(channel: grpc.Channel) -> Any:
    return chat_pb2_grpc.ChatServiceStub(channel)


def status_of(stack: Stack, path: str, timeout_s: float) -> int:
    """Return the status of a path at the public listener, or 0 without a response within the timeout."""
    try:
        return httpx.get(f"{stack.url}{path}", timeout=timeout_s).status_code
    except httpx.TransportError:
        return 0


def until_status(stack: Stack, status: int, path: str = "/readyz") -> None:
    """Return when a path has the status. Each request gets more time, because one to a stopped process hangs."""
    timeouts_s = (min(2.0**exponent, GUARD_S) for exponent in itertools.count())
    wait_until(lambda: status_of(stack, path, next(timeouts_s)) == status)


def num_stalls(stack: Stack) -> int:
    """Return how often an engine was restarted because it did not move."""
    return stack.output.count("the engine made no progress for")


def test_a_stopped_engine_is_restarted() -> None:
    """The health check fails, then the engine's streams fail and it is restarted; the other engine continues."""
    for stall_s in STALLS_S:
        with running(max_heartbeat_age_s=stall_s / 2, max_stall_s=stall_s) as stack:
            if is_restarted(stack):
                return
    raise AssertionError("engines that were not stopped were restarted, or the health check did not fail")


def is_restarted(stack: Stack) -> bool:
    """Check that a stopped engine is restarted.

    Return False if that proves nothing: an engine was restarted before, or before the health check failed.
    """
    worker, other = stack.workers()
    with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
        stream = stub_of(channel).StreamChat(chat_request("sluice-demo", n=8, max_tokens=1500), timeout=GUARD_S)
        try:
            next(stream)
        except grpc.RpcError:
            assert num_stalls(stack)
        if num_stalls(stack):
            return False
        suspend(worker)
        status = 200
        while status != 503 and not num_stalls(stack):
            status = status_of(stack, "/readyz", GUARD_S)
        with pytest.raises(grpc.RpcError) as ended:
            list(stream)
    assert ended.value.code() is grpc.StatusCode.INTERNAL
    stack.wait_for("sluice-demo: the engine made no progress for")
    until_served(stack, "sluice-demo")
    until_status(stack, 200)
    stack.until_idle()
    assert worker not in stack.workers()
    return status == 503 and num_stalls(stack) == 1 and other in stack.workers()


def test_a_suspended_engine_rejects_calls() -> None:
    """While an engine is suspended, readiness fails and calls are rejected, long before it counts as stalled."""
    with running("--model=demo=demo/model", engine__reject_while_suspended=True) as stack:
        (worker,) = stack.workers()
        suspend(worker)
        rejected = httpx.post(f"{stack.gateway}/v1/chat/completions", json=BODY | {"model": "demo"}, timeout=GUARD_S)
        assert rejected.status_code == 503
        assert rejected.headers["retry-after"]
        assert "suspended" in rejected.json()["error"]["message"]
        with grpc.insecure_channel(f"127.0.0.1:{stack.ports['service']}") as channel:
            with pytest.raises(grpc.RpcError) as caught:
                stub_of(channel).Chat(chat_request("demo"), timeout=GUARD_S)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        until_status(stack, 503)
        os.kill(worker, signal.SIGCONT)
        until_status(stack, 200)
        until_served(stack, "demo")
        assert stack.workers() == [worker]


def test_a_stopped_service_continues() -> None:
    """A service stopped for longer than an engine may stall completes its streams, and no engine is restarted."""
    for stall_s in STALLS_S:
        with running("--model=demo=demo/model", max_stall_s=stall_s) as stack:
            if is_continued(stack, 1.4 * stall_s):
                return
    raise AssertionError("the engine was restarted")


def is_continued(stack: Stack, stop_s: float) -> bool:
    """Stop the service for a time and check its stream. Return False if the engine was restarted."""
    service, workers = stack.children()["service"], stack.workers()
    with grpc.insecure_channel(f"127.0.0.1:{stack.ports['service']}") as channel:
        stream = stub_of(channel).StreamChat(chat_request("demo", max_tokens=1500), timeout=GUARD_S)
        try:
            next(stream)
            os.killpg(service, signal.SIGSTOP)
            time.sleep(stop_s)  # the claim is about the product's real clock
            os.killpg(service, signal.SIGCONT)
            assert list(stream)[-1].HasField("completed")
        except grpc.RpcError:
            assert num_stalls(stack)
            return False
    until_status(stack, 200)
    assert num_stalls(stack) or stack.workers() == workers
    return not num_stalls(stack)


def test_a_stopped_gateway_does_not_affect_grpc(own: Stack) -> None:
    """Envoy rejects REST requests while the gateway is stopped, and gRPC calls succeed."""
    gateway = own.children()["gateway"]
    suspend(gateway)
    try:
        until_status(own, 503, "/v1/models")
        with grpc.insecure_channel(own.url.removeprefix("http://")) as channel:
            assert stub_of(channel).Chat(chat_request("sluice-demo"), timeout=GUARD_S)
    finally:
        os.kill(gateway, signal.SIGCONT)
    until_status(own, 200, "/v1/models")


@pytest.mark.long
async def test_client_that_answers_no_ping_frees_its_slot() -> None:
    """A connection whose client answers no ping, as after a network failure, ends its stream."""
    for keepalive_s in KEEPALIVES_S:
        with running(GENERATOR, keepalive_time_s=keepalive_s, keepalive_timeout_s=keepalive_s) as stack:
            if await is_slot_freed(stack):
                return
    raise AssertionError("the client was disconnected before it fell silent")


async def is_slot_freed(stack: Stack) -> bool:
    """Check that a silent client's call ends.

    Return False if it ended before, because the live client was scheduled too late to answer a ping.
    """
    async with (
        Relay.to(stack.ports["service"]) as relay,
        aio.insecure_channel(f"127.0.0.1:{relay.port}") as channel,
    ):
        stream = aiter(chat_pb2_grpc.ChatServiceStub(channel).StreamChat(chat_request("sluice-demo", 16, 1900)))
        try:
            await anext(stream)
        except aio.AioRpcError:
            return False
        with stack.engine_held():  # so that the stream cannot end by itself
            if stack.generation_lines():
                return False
            relay.freeze()
            await asyncio.to_thread(wait_until, stack.generation_lines)
        await asyncio.to_thread(stack.until_idle)
    assert '"status":"CANCELLED"' in stack.generation_lines()[0]
    return True


def test_endpoint_change_on_a_full_disk_fails_without_effect(own: Stack) -> None:
    """A change that cannot be stored fails without effect and leaves no file; it succeeds when there is space again."""
    service = own.children()["service"]
    limits = resource.prlimit(service, resource.RLIMIT_FSIZE)
    body = {
        "name": "both",
        "config": {"served_entities": [{"name": "one", "entity_name": "sluice-demo", "entity_version": "1"}]},
    }
    endpoint = f"{own.url}/api/2.0/serving-endpoints/both"
    resource.prlimit(service, resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        refused = httpx.post(f"{own.url}/api/2.0/serving-endpoints", json=body, timeout=GUARD_S)
        assert refused.status_code == 503, refused.text
        assert refused.headers["retry-after"]
        assert "their store can't be read or written; nothing was changed" in refused.text
        assert "File too large" not in refused.text
        assert httpx.get(endpoint, timeout=GUARD_S).status_code == 404
    finally:
        resource.prlimit(service, resource.RLIMIT_FSIZE, limits)
    assert httpx.post(f"{own.url}/api/2.0/serving-endpoints", json=body, timeout=GUARD_S).status_code == 200
    assert httpx.get(endpoint, timeout=GUARD_S).status_code == 200
    assert [each.name for each in own.endpoints_file.parent.iterdir() if each.is_file()] == [own.endpoints_file.name]


def long_chat(dice: kinds.Dice) -> kinds.GrpcRequest:
    """Return a chat with two long answers."""
    request = chat_request("sluice-demo", n=2, max_tokens=dice.randrange(100, 400))
    return kinds.GrpcRequest(chat_pb2_grpc.ChatServiceStub, "StreamChat", request)


async def test_preemptions_lose_nothing() -> None:
    """With cache blocks for a few sequences only, all requests are answered and every block is freed."""
    with running(GENERATOR, engine__num_blocks=60, engine__max_model_len=900) as stack:
        load = Load(stack.url, num_callers=12, kinds=(long_chat, kinds.chat, kinds.mindie), leaving=0.1)
        async with under(load), asyncio.timeout(GUARD_S):
            while await asyncio.to_thread(stack.metric, "sluice_engine_preemptions_total") < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        assert load.num(DONE) > 0
        assert not load.lost(), load.lost()
        await asyncio.to_thread(stack.until_idle)


@pytest.mark.long
def test_requests_are_answered_with_a_blocked_log_and_hanging_collector(tmp_path: Path) -> None:
    """With a full standard output and a collector that accepts nothing, requests are answered and Ctrl-C works."""
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    flags = [f"--{name.replace('_', '-')}-port={port}" for name, port in ports.items()]
    url = f"http://127.0.0.1:{ports['envoy']}"
    with socket.create_server(("127.0.0.1", 0), backlog=1) as collector:
        flags.append(f"--otlp-endpoint=http://127.0.0.1:{collector.getsockname()[1]}")
        flags.append(f"--state-folder={tmp_path}")
        with subprocess.Popen(
            [sys.executable, "-m", "runner", *flags], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as run:
            try:
                wait_until(lambda: is_ready(url))
                with httpx.Client(base_url=url, timeout=GUARD_S) as caller:
                    codes = {caller.get(f"/nowhere/{'x' * 900}").status_code for _ in range(300)}  # 600 KB of log
                    assert codes == {404}
                    assert caller.post("/v1/chat/completions", json=BODY, timeout=GUARD_S).status_code == 200
                run.send_signal(signal.SIGINT)
                assert run.wait(GUARD_S) == 0
            finally:
                run.kill()


def is_ready(url: str) -> bool:
    """Return True if the public listener and everything behind it serve."""
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False

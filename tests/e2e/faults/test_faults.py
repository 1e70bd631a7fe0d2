"""Faults in the environment: stopped processes, full disks, and clients and log readers that do not read."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
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
from tests.e2e.stack import HOLDABLE, PORTS, ROOT, Stack, free_ports
from tests.soak import requests as kinds
from tests.soak.load import DONE, Load
from tests.waiting import GUARD_S, wait_until

QUICK = {
    "SLUICE_SERVICE_MAX_HEARTBEAT_AGE_S": "2.5",
    "SLUICE_SERVICE_MAX_STALL_S": "5",
}
# Used by one test only, because a live client that is scheduled too late is disconnected as well.
PINGING = {"SLUICE_SERVICE_KEEPALIVE_TIME_S": "1", "SLUICE_SERVICE_KEEPALIVE_TIMEOUT_S": "1"}
BODY = {"model": "sluice-demo", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


@pytest.fixture(scope="module")
def quick() -> Iterator[Stack]:
    """The product with short timeouts for stopped processes."""
    stack = Stack(environment=QUICK)
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


def stub_of(channel: grpc.Channel) -> Any:
    return chat_pb2_grpc.ChatServiceStub(channel)


def status_of(stack: Stack, path: str = "/readyz") -> int:
    """Return the status of a path at the public listener, or 0 without a response."""
    try:
        return httpx.get(f"{stack.door}{path}", timeout=3).status_code
    except httpx.TransportError:
        return 0


def test_a_stopped_engine_is_restarted(quick: Stack) -> None:
    """The health check fails, then the engine's streams fail and it is restarted; the other engine continues."""
    worker = quick.workers()[0]
    with grpc.insecure_channel(quick.door.removeprefix("http://")) as channel:
        stream = stub_of(channel).StreamChat(chat_request("sluice-demo", n=8, max_tokens=1500), timeout=GUARD_S)
        next(stream)
        os.kill(worker, signal.SIGSTOP)
        wait_until(lambda: status_of(quick) == 503)
        with pytest.raises(grpc.RpcError) as ended:
            list(stream)
    assert ended.value.code() is grpc.StatusCode.INTERNAL
    quick.wait_for("sluice-demo: the engine has not moved for")
    until_served(quick, "sluice-demo")
    assert worker not in quick.workers()
    wait_until(lambda: status_of(quick) == 200)
    quick.until_idle()


def test_a_suspended_engine_rejects_calls() -> None:
    """While an engine is suspended, readiness fails and calls are rejected, long before it counts as stalled."""
    names = ("SLUICE_SERVICE_MAX_HEARTBEAT_AGE_S", "SLUICE_SERVICE_MAX_STALL_S")
    stack = Stack("--model=demo=demo/model", environment=dict.fromkeys(names, "1000"))
    try:
        stack.wait_for("sluice is ready.")
        (worker,) = stack.workers()
        os.kill(worker, signal.SIGSTOP)
        rejected = httpx.post(f"{stack.gateway}/v1/chat/completions", json=BODY | {"model": "demo"}, timeout=GUARD_S)
        assert rejected.status_code == 503
        assert rejected.headers["retry-after"]
        assert "suspended" in rejected.json()["error"]["message"]
        with grpc.insecure_channel(f"127.0.0.1:{stack.ports['service']}") as channel:
            with pytest.raises(grpc.RpcError) as caught:
                stub_of(channel).Chat(chat_request("demo"), timeout=GUARD_S)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        wait_until(lambda: status_of(stack) == 503)
        os.kill(worker, signal.SIGCONT)
        wait_until(lambda: status_of(stack) == 200)
        until_served(stack, "demo")
        assert stack.workers() == [worker]
    finally:
        stack.stop()


def test_a_stopped_service_continues(quick: Stack) -> None:
    """A service stopped for longer than an engine may stall completes its streams, and no engine is restarted."""
    service = quick.children()["service"]
    workers = quick.workers()
    with grpc.insecure_channel(f"127.0.0.1:{quick.ports['service']}") as channel:
        stream = stub_of(channel).StreamChat(chat_request("sluice-demo", max_tokens=1500), timeout=GUARD_S)
        next(stream)
        os.killpg(service, signal.SIGSTOP)
        time.sleep(7)  # longer than MAX_STALL_S
        os.killpg(service, signal.SIGCONT)
        assert list(stream)[-1].HasField("completed")
    wait_until(lambda: status_of(quick) == 200)
    assert quick.workers() == workers


def test_a_stopped_gateway_does_not_affect_grpc(quick: Stack) -> None:
    """Envoy rejects REST requests while the gateway is stopped, and gRPC calls succeed."""
    gateway = quick.children()["gateway"]
    os.kill(gateway, signal.SIGSTOP)
    try:
        wait_until(lambda: status_of(quick, "/v1/models") == 503)
        with grpc.insecure_channel(quick.door.removeprefix("http://")) as channel:
            assert stub_of(channel).Chat(chat_request("sluice-demo"), timeout=GUARD_S)
    finally:
        os.kill(gateway, signal.SIGCONT)
    wait_until(lambda: status_of(quick, "/v1/models") == 200)


async def test_a_silent_client_frees_its_slot() -> None:
    """A connection whose client answers no ping, as after a network failure, ends its stream."""
    stack = Stack(environment=PINGING | HOLDABLE)
    try:
        await asyncio.to_thread(stack.wait_for, "sluice is ready.")
        async with (
            Relay.to(stack.ports["service"]) as relay,
            aio.insecure_channel(f"127.0.0.1:{relay.port}") as channel,
        ):
            stream = aiter(chat_pb2_grpc.ChatServiceStub(channel).StreamChat(chat_request("sluice-demo", 16, 1900)))
            await anext(stream)
            with stack.engine_held():  # so that the stream cannot end by itself
                relay.freeze()
                await asyncio.to_thread(wait_until, stack.generation_lines)
            await asyncio.to_thread(stack.until_idle)
        assert '"status":"CANCELLED"' in stack.generation_lines()[0]
    finally:
        assert stack.stop() == 0, stack.output


def test_a_full_disk_changes_no_endpoint(quick: Stack) -> None:
    """A change that cannot be stored fails without effect and leaves no file; it succeeds when there is space again."""
    service = quick.children()["service"]
    limits = resource.prlimit(service, resource.RLIMIT_FSIZE)
    body = {
        "name": "both",
        "config": {"served_entities": [{"name": "one", "entity_name": "sluice-demo", "entity_version": "1"}]},
    }
    endpoint = f"{quick.door}/api/2.0/serving-endpoints/both"
    resource.prlimit(service, resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        refused = httpx.post(f"{quick.door}/api/2.0/serving-endpoints", json=body, timeout=GUARD_S)
        assert refused.status_code == 503, refused.text
        assert refused.headers["retry-after"]
        assert "their store can't be read or written; nothing was changed" in refused.text
        assert "File too large" not in refused.text
        assert httpx.get(endpoint, timeout=GUARD_S).status_code == 404
    finally:
        resource.prlimit(service, resource.RLIMIT_FSIZE, limits)
    assert httpx.post(f"{quick.door}/api/2.0/serving-endpoints", json=body, timeout=GUARD_S).status_code == 200
    assert httpx.get(endpoint, timeout=GUARD_S).status_code == 200
    assert [each.name for each in quick.endpoints_file.parent.iterdir()] == [quick.endpoints_file.name]


def long_chat(dice: kinds.Dice) -> kinds.GrpcRequest:
    """Return a chat with two long answers."""
    request = chat_request("sluice-demo", n=2, max_tokens=dice.randrange(100, 400))
    return kinds.GrpcRequest(chat_pb2_grpc.ChatServiceStub, "StreamChat", request)


async def test_preemptions_lose_nothing() -> None:
    """With cache blocks for a few sequences only, all requests are answered and every block is freed."""
    stack = Stack(
        environment={"SLUICE_SERVICE_ENGINE__NUM_BLOCKS": "60", "SLUICE_SERVICE_ENGINE__MAX_MODEL_LEN": "900"}
    )
    try:
        await asyncio.to_thread(stack.wait_for, "sluice is ready.")
        load = Load(stack.door, num_callers=12, kinds=(long_chat, kinds.chat, kinds.mindie), leaving=0.1)
        async with under(load), asyncio.timeout(GUARD_S):
            while await asyncio.to_thread(stack.metric, "sluice_engine_preemptions_total") < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        assert load.num(DONE) > 0
        assert not load.lost(), load.lost()
        await asyncio.to_thread(stack.until_idle)
    finally:
        assert stack.stop() == 0, stack.output


@pytest.mark.long
def test_a_blocked_log_and_a_hanging_collector_stop_nothing(tmp_path: Path) -> None:
    """With a full standard output and a collector that accepts nothing, requests are answered and Ctrl-C works."""
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    flags = [f"--{name.replace('_', '-')}-port={port}" for name, port in ports.items()]
    door = f"http://127.0.0.1:{ports['envoy']}"
    with socket.create_server(("127.0.0.1", 0), backlog=1) as collector:
        flags.append(f"--otlp-endpoint=http://127.0.0.1:{collector.getsockname()[1]}")
        flags.append(f"--state-folder={tmp_path}")
        with subprocess.Popen(
            [sys.executable, "-m", "runner", *flags], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as run:
            try:
                wait_until(lambda: is_ready(door))
                with httpx.Client(base_url=door, timeout=GUARD_S) as caller:
                    codes = {caller.get(f"/nowhere/{'x' * 900}").status_code for _ in range(300)}  # 600 KB of log
                    assert codes == {404}
                    assert caller.post("/v1/chat/completions", json=BODY, timeout=GUARD_S).status_code == 200
                run.send_signal(signal.SIGINT)
                assert run.wait(GUARD_S) == 0
            finally:
                run.kill()


def is_ready(door: str) -> bool:
    """Return True if the public listener and everything behind it serve."""
    try:
        return httpx.get(f"{door}/readyz").status_code == 200
    except httpx.TransportError:
        return False

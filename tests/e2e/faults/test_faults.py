"""What goes wrong around the product: processes that stand still, disks that are full, readers that don't read."""

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
from tests.e2e.stack import PORTS, ROOT, Stack, free_ports
from tests.soak import requests as kinds
from tests.soak.load import DONE, Load
from tests.waiting import GUARD_S, wait_until

QUICK = {
    "SLUICE_SERVICE_MAX_HEARTBEAT_AGE_S": "2.5",
    "SLUICE_SERVICE_MAX_STALL_S": "5",
    "SLUICE_SERVICE_KEEPALIVE_TIME_S": "1",
    "SLUICE_SERVICE_KEEPALIVE_TIMEOUT_S": "1",
}
BODY = {"model": "sluice-demo", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}


@pytest.fixture(scope="module")
def quick() -> Iterator[Stack]:
    """A product that notices soon what stands still."""
    stack = Stack(environment=QUICK)
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        assert stack.stop() == 0, stack.output


def stub_of(channel: grpc.Channel) -> Any:
    return chat_pb2_grpc.ChatServiceStub(channel)


def status_of(stack: Stack, path: str = "/readyz") -> int:
    """What the front door answers now; 0 for nothing in time."""
    try:
        return httpx.get(f"{stack.door}{path}", timeout=3).status_code
    except httpx.TransportError:
        return 0


def test_an_engine_that_stands_still_is_ended(quick: Stack) -> None:
    """First health says no, then its streams end with an error, and it is started again; the other engine goes on."""
    worker = quick.workers()[0]
    with grpc.insecure_channel(quick.door.removeprefix("http://")) as channel:
        stream = stub_of(channel).StreamChat(chat_request("sluice-demo", n=8, max_tokens=1500), timeout=60)
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


def test_a_service_that_stood_still_goes_on(quick: Stack) -> None:
    """Stopped and continued with its engines, for longer than an engine may stall: streams end well, no engine dies."""
    service = quick.children()["service"]
    workers = quick.workers()
    with grpc.insecure_channel(f"127.0.0.1:{quick.ports['service']}") as channel:
        stream = stub_of(channel).StreamChat(chat_request("sluice-demo", max_tokens=1500), timeout=60)
        next(stream)
        os.killpg(service, signal.SIGSTOP)
        time.sleep(7)
        os.killpg(service, signal.SIGCONT)
        assert list(stream)[-1].HasField("completed")
    wait_until(lambda: status_of(quick) == 200)
    assert quick.workers() == workers


def test_a_gateway_that_stands_still_stops_no_grpc(quick: Stack) -> None:
    """REST is refused by Envoy as soon as it notices, and answered again when the gateway goes on."""
    gateway = quick.children()["gateway"]
    os.kill(gateway, signal.SIGSTOP)
    try:
        wait_until(lambda: status_of(quick, "/v1/models") == 503)
        with grpc.insecure_channel(quick.door.removeprefix("http://")) as channel:
            assert stub_of(channel).Chat(chat_request("sluice-demo"), timeout=GUARD_S)
    finally:
        os.kill(gateway, signal.SIGCONT)
    wait_until(lambda: status_of(quick, "/v1/models") == 200)


async def test_a_caller_who_fell_silent_frees_its_place(quick: Stack) -> None:
    """A connection whose other end answers no ping, as after a broken network, ends its stream."""
    await asyncio.to_thread(quick.until_idle)
    async with (
        Relay.to(quick.ports["service"]) as relay,
        aio.insecure_channel(f"127.0.0.1:{relay.port}") as channel,
    ):
        stream = aiter(chat_pb2_grpc.ChatServiceStub(channel).StreamChat(chat_request("sluice-demo", 16, 1900)))
        await anext(stream)
        relay.freeze()
        await asyncio.to_thread(quick.until_idle)


def test_a_full_disk_changes_no_endpoint(quick: Stack) -> None:
    """A change that can't be stored fails and changes nothing; with room again it succeeds; no file is left."""
    service = quick.children()["service"]
    limits = resource.prlimit(service, resource.RLIMIT_FSIZE)
    body = {
        "name": "both",
        "config": {"served_entities": [{"name": "one", "entity_name": "sluice-demo", "entity_version": "1"}]},
    }
    resource.prlimit(service, resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        refused = httpx.post(f"{quick.door}/api/2.0/serving-endpoints", json=body, timeout=60)
        assert refused.status_code == 500, refused.text
        assert "File too large" not in refused.text
        assert status_of(quick, "/api/2.0/serving-endpoints/both") == 404
    finally:
        resource.prlimit(service, resource.RLIMIT_FSIZE, limits)
    assert httpx.post(f"{quick.door}/api/2.0/serving-endpoints", json=body, timeout=60).status_code == 200
    assert status_of(quick, "/api/2.0/serving-endpoints/both") == 200
    assert [each.name for each in quick.endpoints_file.parent.iterdir()] == [quick.endpoints_file.name]


def long_chat(dice: kinds.Dice) -> kinds.GrpcRequest:
    """A chat of two long answers."""
    request = chat_request("sluice-demo", n=2, max_tokens=dice.randrange(100, 400))
    return kinds.GrpcRequest(chat_pb2_grpc.ChatServiceStub, "StreamChat", request)


async def test_a_storm_of_preemptions_loses_nothing() -> None:
    """With blocks for a few sequences only, all are answered, and every block is free at the end."""
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
def test_nobody_reads_the_log_and_the_collector_hangs(tmp_path: Path) -> None:
    """With standard output full and a collector that accepts nothing, requests are answered, and Ctrl-C stops all."""
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    flags = [f"--{name.replace('_', '-')}-port={port}" for name, port in ports.items()]
    door = f"http://127.0.0.1:{ports['envoy']}"
    with socket.create_server(("127.0.0.1", 0), backlog=1) as collector:
        flags.append(f"--otlp-endpoint=http://127.0.0.1:{collector.getsockname()[1]}")
        flags.append(f"--endpoints-file={tmp_path / 'endpoints.json'}")
        with subprocess.Popen(
            [sys.executable, "-m", "runner", *flags], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as run:
            try:
                wait_until(lambda: is_ready(door))
                with httpx.Client(base_url=door, timeout=60) as caller:
                    codes = {caller.get(f"/nowhere/{'x' * 900}").status_code for _ in range(300)}  # 600 KB of log
                    assert codes == {404}
                    assert caller.post("/v1/chat/completions", json=BODY, timeout=GUARD_S).status_code == 200
                run.send_signal(signal.SIGINT)
                assert run.wait(GUARD_S) == 0
            finally:
                run.kill()


def is_ready(door: str) -> bool:
    """Whether the front door and all behind it serve."""
    try:
        return httpx.get(f"{door}/readyz").status_code == 200
    except httpx.TransportError:
        return False

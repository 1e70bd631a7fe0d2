"""Several models and endpoints of them, through Envoy, and after the death of the service."""

import itertools
import os
import signal
import threading
from pathlib import Path
from typing import Any

import grpc
import httpx
from sluice.v1 import endpoint_pb2, endpoint_pb2_grpc

from tests.e2e.faults.test_run import until_served
from tests.e2e.stack import ROOT, Stack
from tests.service.endpoint_fakes import both, entities_of
from tests.waiting import GUARD_S

DEMO = ROOT / "demo" / "model"


def two_models(endpoints_file: Path) -> Stack:
    """Start a run that serves the bundled model twice, with an engine each."""
    stack = Stack(f"--model=a={DEMO}", f"--model=b={DEMO}", endpoints_file=endpoints_file)
    stack.wait_for("sluice is ready.")
    return stack


def stub_of(channel: grpc.Channel) -> Any:
    return endpoint_pb2_grpc.EndpointServiceStub(channel)


def answering_model(stack: Stack, model: str) -> str:
    """Return the model that answers a chat with `model`."""
    body = {"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": "Hello!"}]}
    answer = httpx.post(f"{stack.url}/v1/chat/completions", json=body, timeout=GUARD_S)
    assert answer.status_code == 200, answer.text
    name: str = answer.json()["model"]
    return name


def kill_in_a_loop_of_updates(stack: Stack, stub: Any) -> endpoint_pb2.Endpoint:
    """Change the endpoint `x` repeatedly until the service is killed, and return the last confirmed change."""
    pid = stack.children()["service"]
    timer = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))

    def update(share: int) -> endpoint_pb2.Endpoint:
        request = endpoint_pb2.UpdateEndpointRequest(name="x", entities=entities_of(*both(share, 100 - share)))
        endpoint: endpoint_pb2.Endpoint = stub.UpdateEndpoint(request, timeout=GUARD_S).endpoint
        return endpoint

    confirmed = update(1)
    timer.start()
    try:
        for share in itertools.cycle(range(101)):
            confirmed = update(share)
    except grpc.RpcError:
        timer.join()  # the service is gone
    return confirmed


def test_endpoints_survive_a_killed_service(tmp_path: Path) -> None:
    """Two models answer by name and behind an endpoint; all confirmed changes survive a kill between changes."""
    path = tmp_path / "endpoints.json"
    stack = two_models(path)
    try:
        assert [answering_model(stack, name) for name in ("a", "b")] == ["a", "b"]
        with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
            stub = stub_of(channel)
            stub.CreateEndpoint(
                endpoint_pb2.CreateEndpointRequest(name="x", entities=entities_of(*both(0, 100))), timeout=GUARD_S
            )
            assert answering_model(stack, "x") == "b"
            last = kill_in_a_loop_of_updates(stack, stub)
        until_served(stack, "a")  # after the service's restart
        with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
            stub = stub_of(channel)
            kept = stub.GetEndpoint(endpoint_pb2.GetEndpointRequest(name="x"), timeout=GUARD_S).endpoint
            assert kept == last or kept.config_version == last.config_version + 1
            only = endpoint_pb2.UpdateEndpointRequest(name="x", entities=entities_of(*both(100, 0)))
            assert stub.UpdateEndpoint(only, timeout=GUARD_S).endpoint.config_version == kept.config_version + 1
        assert answering_model(stack, "x") == "a"
        assert [each.name for each in tmp_path.iterdir()] == ["endpoints.json"]
    finally:
        assert stack.stop() == 0, stack.output

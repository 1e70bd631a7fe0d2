"""SMG's router, a real process, in front of two services: it tokenizes prompts, chooses a service, decodes answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import httpx
import pytest
from sluice.vllm import engine_pb2, engine_pb2_grpc

from tests.e2e.replicas import Replicas
from tests.e2e.stack import ROOT, free_ports
from tests.waiting import GUARD_S, wait_until

pytestmark = [pytest.mark.large, pytest.mark.timeout(600)]
CHAT: dict[str, Any] = {
    "model": "sluice-demo",
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
    "temperature": 0,
}


@pytest.fixture(scope="module")
def replicas() -> Iterator[Replicas]:
    """Two services, and a gateway with which to compare."""
    with Replicas(num_services=2, num_gateways=1) as made:
        yield made


@pytest.fixture(scope="module")
def router(replicas: Replicas) -> Iterator[httpx.Client]:
    """A client of the router, which starts with one service, and gets the other by a call."""
    with started_router(replicas, "round_robin") as (client, _):
        yield client


@contextmanager
def started_router(replicas: Replicas, policy: str) -> Iterator[tuple[httpx.Client, str]]:
    """Run a router, and yield a client of it and the URL of its metrics."""
    port, metrics_port = free_ports(2)
    command = [str(ROOT / ".venvs/smg/bin/python"), "-m", "smg.launch_router", "--host=127.0.0.1", f"--port={port}"]
    command += [f"--prometheus-port={metrics_port}", f"--policy={policy}", "--health-check-interval-secs=1"]
    first, second = (f"grpc://{replicas.address(name)}" for name in replicas.services)
    command += ["--load-monitor-interval=1", "--worker-urls", first]
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}", timeout=GUARD_S, transport=httpx.HTTPTransport(retries=100)
        ) as client,
    ):
        try:
            wait_until(lambda: client.post("/v1/chat/completions", json={**CHAT, "max_tokens": 1}).is_success)
            client.post("/workers", json={"url": second}).raise_for_status()
            wait_until(lambda: len(ready(client)) == 2)
            yield client, f"http://127.0.0.1:{metrics_port}/metrics"
        finally:
            process.terminate()


def ready(router: httpx.Client) -> list[dict[str, Any]]:
    """Return the workers that the router may choose."""
    workers: list[dict[str, Any]] = router.get("/workers").json()["workers"]
    return [each for each in workers if each["status"] == "ready" and each["is_healthy"]]


def running(replicas: Replicas, name: str) -> int:
    """Return the number of sequences that a service has."""
    with grpc.insecure_channel(replicas.address(name)) as channel:
        stub: Any = engine_pb2_grpc.VllmEngineStub(channel)
        (load,) = stub.GetLoads(engine_pb2.GetLoadsRequest(), timeout=GUARD_S).loads
    num: int = load.num_total_reqs
    return num


def text_of(response: httpx.Response) -> str:
    """Return the text of a streamed chat."""
    found = ""
    for line in response.iter_lines():
        if line.startswith("data: {"):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                found += choice["delta"].get("content") or ""
    return found


def test_router_reads_the_model_of_each_worker(router: httpx.Client) -> None:
    """Name, limits, tokens and sampling defaults are those of the services, and so is the policy of constraints."""
    for worker in ready(router):
        assert worker["runtime_type"] == "vllm"
        (model,) = worker["models"]
        assert (model["id"], model["context_length"]) == ("sluice-demo", 2048)
        assert worker["labels"]["constrained_decoding_start"] == "first_token"
        assert json.loads(worker["labels"]["default_sampling_params_json"])["temperature"] > 0


def test_answers_are_those_of_the_gateway(replicas: Replicas, router: httpx.Client) -> None:
    """The router's own template, tokenizer and decoder give the gateway's text, whole and streamed."""
    url = f"{replicas.url}/v1/chat/completions"
    expected = httpx.post(url, json=CHAT, timeout=GUARD_S).json()["choices"][0]["message"]["content"]
    whole = router.post("/v1/chat/completions", json=CHAT).json()["choices"][0]
    assert (whole["message"]["content"], whole["finish_reason"]) == (expected, "stop")
    with router.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
        assert text_of(response) == expected


def test_constraints_calls_and_choices_reach_the_service(router: httpx.Client) -> None:
    """JSON Schemas, required tool calls, several choices and log probabilities work through the router."""
    schema = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 9}}, "required": ["city"]}
    response_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    made = router.post("/v1/chat/completions", json={**CHAT, "response_format": response_format}).json()
    assert set(json.loads(made["choices"][0]["message"]["content"])) == {"city"}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    called = router.post("/v1/chat/completions", json={**CHAT, "tools": tools, "tool_choice": "required"}).json()
    assert called["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "weather"
    several = {**CHAT, "n": 2, "temperature": 1, "seed": 3, "logprobs": True, "top_logprobs": 2, "max_tokens": 4}
    choices = router.post("/v1/chat/completions", json=several).json()["choices"]
    assert [len(each["logprobs"]["content"]) for each in choices] == [4, 4]


def test_router_chooses_a_service_by_the_events_of_its_cache(replicas: Replicas) -> None:
    """It finds a repeated prompt among the reported blocks, and misses no event."""
    body = {**CHAT, "max_tokens": 4, "messages": [{"role": "user", "content": "Name a city at a river. " * 8}]}
    hit = 'smg_cache_aware_policy_branch_total{branch="event_hit"}'
    with started_router(replicas, "cache_aware") as (client, metrics_url):

        def metrics() -> dict[str, float]:
            client.post("/v1/chat/completions", json=body).raise_for_status()
            lines = httpx.get(metrics_url, timeout=GUARD_S).text.splitlines()
            pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
            return {name: float(value) for name, value in pairs}

        wait_until(lambda: metrics().get(hit, 0) >= 3)
        found = metrics()
        assert sum(value for name, value in found.items() if name.startswith("smg_kv_event_missed_batches_total")) == 0
        assert sum(value for name, value in found.items() if 'op="stored"' in name) > 0


def test_client_that_disconnects_ends_its_request(replicas: Replicas, router: httpx.Client) -> None:
    """The router reports the load of the service that has the request, and ends the request there."""
    endless = {**CHAT, "stream": True, "ignore_eos": True, "max_tokens": 1900}
    with router.stream("POST", "/v1/chat/completions", json=endless) as response:
        next(response.iter_lines())
        wait_until(lambda: sum(running(replicas, name) for name in replicas.services) == 1)
        wait_until(lambda: router.get("/loads").json()["aggregate"]["total_running_reqs"] == 1)
    wait_until(lambda: sum(running(replicas, name) for name in replicas.services) == 0)


def test_service_that_leaves_loses_no_request(replicas: Replicas, router: httpx.Client) -> None:
    """While one of two services shuts down, and afterwards, all requests are answered."""
    with ThreadPoolExecutor(1) as pool:
        stopping = pool.submit(replicas.stop, replicas.services[0])
        num_after = 0
        while num_after < 5:
            num_after += stopping.done()
            assert router.post("/v1/chat/completions", json={**CHAT, "max_tokens": 4}).is_success
    assert stopping.result() == 0

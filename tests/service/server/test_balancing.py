"""Clients without a balancer in between: gRPC's round robin over replicas, by the service config of docs/grpc.md."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from grpc import aio
from sluice.v1 import model_pb2, model_pb2_grpc

from service.interceptors.auth import SCOPES
from service.observability.health import ServingPhase
from tests.service.fakes import Running, running
from tests.waiting import GUARD_S

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "grpc.md").read_text()
CHANGING = {
    *(f"sluice.v1.EndpointService/{name}Endpoint" for name in ("Create", "Update", "Delete")),
    *(f"sluice.v1.ModelService/{name}Model" for name in ("Load", "Unload", "Sleep", "Wake")),
    *(f"sluice.v1.AdapterService/{name}Adapter" for name in ("Load", "Unload")),
}


@pytest.fixture
def config() -> dict[str, Any]:
    """The page's service config."""
    (text,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    found: dict[str, Any] = json.loads(text)
    return found


async def answered(channel: aio.Channel, replicas: tuple[Running, Running]) -> set[int]:
    """Which replicas have answered one of some calls."""
    before = [len(replica.spans.get_finished_spans()) for replica in replicas]
    for _ in range(6):
        await model_pb2_grpc.ModelServiceStub(channel).ListModels(model_pb2.ListModelsRequest(), timeout=GUARD_S)
    after = [len(replica.spans.get_finished_spans()) for replica in replicas]
    return {index for index in range(2) if after[index] > before[index]}


async def test_calls_go_round_and_leave_who_is_not_serving(config: dict[str, Any]) -> None:
    """Both replicas get calls; one that says NOT_SERVING gets none, though it would take them, and nothing fails."""
    async with running() as one, running() as other:
        replicas = (one, other)
        target = ",".join(f"127.0.0.1:{each.port}" for each in replicas)
        options = [("grpc.service_config", json.dumps(config))]
        async with aio.insecure_channel(f"ipv4:{target}", options=options) as channel:
            while await answered(channel, replicas) != {0, 1}:  # noqa: ASYNC110  gRPC connects
                await asyncio.sleep(0.01)
            await one.server.health.enter(ServingPhase.LEAVING)
            while await answered(channel, replicas) != {1}:  # noqa: ASYNC110  gRPC is told
                await asyncio.sleep(0.01)


def test_what_changes_nothing_is_retried(config: dict[str, Any]) -> None:
    """The config names every RPC of the service but those that change endpoints."""
    (methods,) = config["methodConfig"]
    names = [f"{each['service']}/{each.get('method', '')}" for each in methods["name"]]
    assert {method for method in SCOPES if any(method.startswith(name) for name in names)} == SCOPES.keys() - CHANGING


def test_clients_bring_the_same(config: dict[str, Any]) -> None:
    """Ours have it in their packages; health is asked only where there is no Envoy."""
    del config["healthCheckConfig"]
    for path in (ROOT / "clients").glob("*/src/**/service_config.json"):
        assert json.loads(path.read_text()) == config, path

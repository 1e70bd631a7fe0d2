"""gRPC's client-side round robin over replicas, with the service config in docs/grpc.md."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from sluice.v1 import conversation_pb2, conversation_pb2_grpc, model_pb2, model_pb2_grpc, rpc_pb2

from service.interceptors.rpcs import RPCS
from service.observability.health import ServingPhase
from tests.service.fakes import Running, running
from tests.waiting import GUARD_S

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "grpc.md").read_text()
OWN = {name: rpc for name, rpc in RPCS.items() if name.startswith("sluice.")}
CHANGING = {name for name, rpc in OWN.items() if rpc.kind == rpc_pb2.RPC_KIND_CHANGE}


@pytest.fixture
def config() -> dict[str, Any]:
    """Return the service config in the docs."""
    (text,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    found: dict[str, Any] = json.loads(text)
    return found


async def answered(channel: aio.Channel, replicas: tuple[Running, Running]) -> set[int]:
    """Return the replicas that answered some calls."""
    before = [len(replica.spans.get_finished_spans()) for replica in replicas]
    for _ in range(6):
        await model_pb2_grpc.ModelServiceStub(channel).ListModels(model_pb2.ListModelsRequest(), timeout=GUARD_S)
    after = [len(replica.spans.get_finished_spans()) for replica in replicas]
    return {index for index in range(2) if after[index] > before[index]}


async def test_calls_rotate_among_serving_replicas(config: dict[str, Any]) -> None:
    """Both replicas get calls; one that is NOT_SERVING gets none, although it would serve them, and no call fails."""
    async with running() as one, running() as other:
        replicas = (one, other)
        target = ",".join(f"127.0.0.1:{each.port}" for each in replicas)
        options = [("grpc.service_config", json.dumps(config))]
        async with aio.insecure_channel(f"ipv4:{target}", options=options) as channel:
            while await answered(channel, replicas) != {0, 1}:  # noqa: ASYNC110  gRPC connects
                await asyncio.sleep(0.01)
            await one.server.health.enter(ServingPhase.LEAVING)
            while await answered(channel, replicas) != {1}:  # noqa: ASYNC110  gRPC watches health
                await asyncio.sleep(0.01)


def test_service_config_retries_rpcs_without_changes(config: dict[str, Any]) -> None:
    """The config lists every RPC of the service except those that change endpoints, or store something new."""
    retried, once = config["methodConfig"]
    names = [f"{each['service']}/{each.get('method', '')}" for each in retried["name"]]
    assert {method for method in OWN if any(method.startswith(name) for name in names)} == OWN.keys() - CHANGING
    stored = {name for name, rpc in OWN.items() if rpc.kind == rpc_pb2.RPC_KIND_OWN_DATA}
    creating = {name for name in stored if name.split("/")[1].startswith(("Create", "Add", "Upload"))}
    assert {f"{each['service']}/{each['method']}" for each in once["name"]} == creating


@pytest.mark.slow
async def test_repeated_creation_is_sent_once(config: dict[str, Any]) -> None:
    """A call that stores something is not repeated by gRPC, because the first one may have had its effect."""
    received: dict[str, int] = {}

    class Refusing(aio.ServerInterceptor):
        async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
            method = handler_call_details.method.rpartition("/")[2]
            received[method] = received.get(method, 0) + 1

            async def refuse(_: Any, context: Any) -> None:
                await context.abort(grpc.StatusCode.UNAVAILABLE)

            return grpc.unary_unary_rpc_method_handler(refuse)

    server = aio.server(interceptors=[Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    options = [("grpc.service_config", json.dumps({"methodConfig": config["methodConfig"]}))]
    async with aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        stub: Any = conversation_pb2_grpc.ConversationServiceStub(channel)
        for call in (
            stub.CreateConversation(conversation_pb2.CreateConversationRequest(), timeout=GUARD_S),
            stub.GetConversation(conversation_pb2.GetConversationRequest(), timeout=GUARD_S),
        ):
            with pytest.raises(aio.AioRpcError):
                await call
    await server.stop(None)
    assert received == {"CreateConversation": 1, "GetConversation": 4}


def test_clients_contain_the_same_service_config(config: dict[str, Any]) -> None:
    """Our clients contain the same config; they check health only where no Envoy does."""
    del config["healthCheckConfig"]
    for path in (ROOT / "clients").glob("*/src/**/service_config.json"):
        assert json.loads(path.read_text()) == config, path

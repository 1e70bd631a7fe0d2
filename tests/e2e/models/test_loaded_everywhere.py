"""Models and adapters loaded at one replica behind Envoy are served by all replicas, also after a restart."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
from sluice.v1 import adapter_pb2, adapter_pb2_grpc, model_pb2, model_pb2_grpc

from tests.e2e.replicas import Replicas
from tests.engine.folders import peft_adapters
from tests.redis_server import RedisServer
from tests.waiting import GUARD_S, wait_until

DEMO = Path("demo/model").resolve()


class Fleet(NamedTuple):
    """Two services, a gateway and Envoy, with calls to them."""

    replicas: Replicas

    def at(self, address: str, stub: Callable[[grpc.Channel], Any], rpc: str, request: Any) -> Any:
        """Call an RPC at an address and return its response."""
        with grpc.insecure_channel(address) as channel:
            return getattr(stub(channel), rpc)(request, timeout=GUARD_S)

    def models(self, rpc: str, request: Any) -> Any:
        """Call an RPC of ModelService through Envoy and return its response."""
        return self.at(self.replicas.url.removeprefix("http://"), model_pb2_grpc.ModelServiceStub, rpc, request)

    def adapters(self, rpc: str, request: Any) -> Any:
        return self.at(self.replicas.url.removeprefix("http://"), adapter_pb2_grpc.AdapterServiceStub, rpc, request)

    def states(self) -> list[dict[str, bool]]:
        """Return, for each service, whether each of its models sleeps."""
        request = model_pb2.ListModelsRequest()
        answers = [
            self.at(self.replicas.address(name), model_pb2_grpc.ModelServiceStub, "ListModels", request)
            for name in self.replicas.services
        ]
        return [{model.name: model.is_asleep for model in answer.models} for answer in answers]

    def until(self, state: dict[str, bool]) -> None:
        """Return when all services have this state."""
        wait_until(lambda: self.states() == [state] * len(self.replicas.services), self.states)

    def ask(self, model: str) -> int:
        """Return the status of a request through Envoy."""
        body = {"model": model, "prompt": "Once", "max_tokens": 1}
        return httpx.post(f"{self.replicas.url}/v1/completions", json=body, timeout=GUARD_S).status_code


def never_slow(config: dict[str, Any]) -> None:
    """Let Envoy wait for the health of replicas, however busy the machine is."""
    for cluster in config["static_resources"]["clusters"]:
        for check in cluster.get("health_checks", ()):
            check["timeout"] = f"{GUARD_S:.0f}s"


@pytest.fixture
def fleet(tmp_path: Path, redis: RedisServer) -> Iterator[Fleet]:
    shutil.copytree(DEMO, tmp_path / "writer")
    peft_adapters.save_adapter(DEMO, tmp_path / "french", seed=1, std=0.13)
    options = [f"--model=demo={DEMO}", f"--models-root={tmp_path}", f"--adapters-root={tmp_path}"]
    options += [f"--store.redis-url={redis.url}", f"--store.redis-timeout-s={GUARD_S}"]
    with Replicas(num_gateways=1, options=options, change=never_slow) as replicas:
        yield Fleet(replicas)


@pytest.mark.timeout(300)
def test_model_loaded_at_one_replica_is_served_by_all(fleet: Fleet) -> None:
    """Every request succeeds once a load has returned, even while other replicas still load."""
    fleet.models("LoadModel", model_pb2.LoadModelRequest(name="writer", path="writer", cache_share=0.1))
    assert [fleet.ask("writer") for _ in range(30)] == [200] * 30
    fleet.until({"demo": False, "writer": False})
    fleet.adapters("LoadAdapter", adapter_pb2.LoadAdapterRequest(model="writer", name="french", path="french"))
    fleet.until({"demo": False, "writer": False, "writer:french": False})
    fleet.models("SleepModel", model_pb2.SleepModelRequest(model="demo"))
    fleet.until({"demo": True, "writer": False, "writer:french": False})

    assert fleet.replicas.restart("service-2") == 0
    fleet.until({"demo": True, "writer": False, "writer:french": False})
    fleet.models("WakeModel", model_pb2.WakeModelRequest(model="demo"))
    fleet.adapters("UnloadAdapter", adapter_pb2.UnloadAdapterRequest(model="writer", name="french"))
    fleet.models("UnloadModel", model_pb2.UnloadModelRequest(model="writer"))
    fleet.until({"demo": False})
    assert (fleet.ask("demo"), fleet.ask("writer")) == (200, 404)

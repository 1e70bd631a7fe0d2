"""A model that cannot be loaded fails only its own requests if the settings say so, and the whole start otherwise."""

import json
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sluice.v1 import model_pb2, model_pb2_grpc

from tests.e2e.stack import ROOT, Stack
from tests.waiting import GUARD_S

REASON = "the configuration requires [320"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """A valid model, an invalid one, and an endpoint with both."""
    bad = tmp_path / "bad"
    bad.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        (bad / name).symlink_to(ROOT / "demo" / "model" / name)
    config = json.loads((ROOT / "demo" / "model" / "config.json").read_text())
    (bad / "config.json").write_text(json.dumps(config | {"intermediate_size": 320}))
    entities = [{"name": name, "model": name, "traffic_percentage": 50} for name in ("bad", "good")]
    return {
        "SLUICE_SERVICE_MODEL": json.dumps({"bad": str(bad), "good": str(ROOT / "demo" / "model")}),
        "SLUICE_SERVICE_ENDPOINTS": json.dumps([{"name": "both", "entities": entities}]),
    }


def test_failed_model_is_not_served_and_others_are(settings: dict[str, str]) -> None:
    """Other models are served; the failed one is listed with its reason, is not healthy, and its requests get 503."""
    stack = Stack(environment=settings | {"SLUICE_SERVICE_LEAVE_OUT_FAILED_MODELS": "true"})
    try:
        stack.wait_for("sluice is ready.")
        body = {"model": "good", "prompt": "The", "max_tokens": 2}
        assert httpx.post(f"{stack.url}/v1/completions", json=body, timeout=GUARD_S).status_code == 200
        refused = httpx.post(f"{stack.url}/v1/completions", json=body | {"model": "bad"}, timeout=GUARD_S)
        assert (refused.status_code, "'bad' could not be loaded" in refused.json()["error"]["message"]) == (503, True)
        assert [each["id"] for each in httpx.get(f"{stack.url}/v1/models", timeout=GUARD_S).json()["data"]] == ["good"]
        with grpc.insecure_channel(stack.url.removeprefix("http://")) as channel:
            listed = model_pb2_grpc.ModelServiceStub(channel).ListModels(model_pb2.ListModelsRequest())
            assert [each.name for each in listed.models] == ["good"]
            (failed,) = listed.failed_models
            assert failed.name == "bad"
            assert REASON in failed.reason
            with pytest.raises(grpc.RpcError) as caught:
                model_pb2_grpc.ModelServiceStub(channel).GetModel(model_pb2.GetModelRequest(model="bad"))
            trailers: Any = caught.value
            assert ("x-sluice-reason", "MODEL_NOT_LOADED") in trailers.trailing_metadata()
        with grpc.insecure_channel(f"127.0.0.1:{stack.ports['service']}") as channel:
            health: Any = health_pb2_grpc.HealthStub(channel)
            found = [health.Check(health_pb2.HealthCheckRequest(service=each)).status for each in _HEALTH]
        assert found == list(_HEALTH.values())
    finally:
        assert stack.stop() == 0


_HEALTH = {
    "": health_pb2.HealthCheckResponse.SERVING,
    "model/good": health_pb2.HealthCheckResponse.SERVING,
    "model/bad": health_pb2.HealthCheckResponse.NOT_SERVING,
}


def test_failed_model_fails_the_start_by_default(settings: dict[str, str]) -> None:
    """The start fails with the reason, so that a rollout keeps its old replicas."""
    stack = Stack(environment=settings)
    assert stack.wait() != 0
    assert REASON in stack.output
    assert "sluice is ready." not in stack.output

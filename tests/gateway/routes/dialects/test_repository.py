"""Loading and unloading models over HTTP, in the form of Triton's and KServe's clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest
from sluice.inference import inference_pb2

from gateway.server.app import build_app
from gateway.server.listeners import ListenerAudience
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.client import ServiceClient
from tests.gateway import fakes
from tests.gateway.conftest import Gateway
from tests.gateway.routes.dialects.test_infer import FakeInferenceService

LOAD = "/v2/repository/models/org/b/load"
Parameter = inference_pb2.ModelRepositoryParameter


class FakeRepository(FakeInferenceService):
    """Records the requests to load and unload models, and rejects them with a status, if it has one."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[inference_pb2.RepositoryModelLoadRequest] = []
        self.unloads: list[inference_pb2.RepositoryModelUnloadRequest] = []

    async def RepositoryModelLoad(  # type: ignore[override]  # noqa: N802  the protocol's name
        self, request: inference_pb2.RepositoryModelLoadRequest, context: Any
    ) -> inference_pb2.RepositoryModelLoadResponse:
        self._note(context)
        self.loads.append(request)
        if self.status is not None:
            await fakes.abort(context, self.status)
        return inference_pb2.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(  # type: ignore[override]  # noqa: N802  the protocol's name
        self, request: inference_pb2.RepositoryModelUnloadRequest, context: Any
    ) -> inference_pb2.RepositoryModelUnloadResponse:
        self._note(context)
        self.unloads.append(request)
        return inference_pb2.RepositoryModelUnloadResponse()


@pytest.fixture
async def service() -> AsyncIterator[FakeRepository]:
    """Run the fake service of this module."""
    service = FakeRepository()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


async def test_models_are_loaded_and_unloaded_with_the_key_of_the_request(
    gateway: Gateway, service: FakeRepository
) -> None:
    """A body is optional. A load has an hour, since it takes minutes."""
    parameters = {"path": "folder", "cache_share": 0.25, "max_model_len": 64, "flag": True}
    key = {"authorization": "Bearer k"}
    answers = [
        await gateway.http.post(LOAD, headers=key),
        await gateway.http.post(LOAD, json={"parameters": parameters}),
        await gateway.http.post(LOAD.replace("load", "unload"), json={"parameters": {"unload_dependents": False}}),
    ]
    assert [(each.status_code, each.json()) for each in answers] == [(200, {})] * 3
    bare, full = service.loads
    assert bare == inference_pb2.RepositoryModelLoadRequest(model_name="org/b")
    assert dict(full.parameters) == {
        "path": Parameter(string_param="folder"),
        "cache_share": Parameter(string_param="0.25"),
        "max_model_len": Parameter(int64_param=64),
        "flag": Parameter(bool_param=True),
    }
    assert [each.model_name for each in service.unloads] == ["org/b"]
    assert service.metadata[0]["authorization"] == "Bearer k"
    assert 3000 < (service.time_remaining[0] or 0) <= 3602  # the clocks of both ends


async def test_errors_name_the_parameter_of_the_body(gateway: Gateway, service: FakeRepository) -> None:
    answer = await gateway.http.post(LOAD, json={"parameters": {"max_model_len": 2**63}})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith('parameters["max_model_len"]: ')
    answer = await gateway.http.post(LOAD, json={"parameter": {}})
    assert answer.status_code == 400
    assert not service.loads
    service.status = fakes.Status(
        grpc.StatusCode.PERMISSION_DENIED, "the key lacks the scope admin", fakes.error_info("SCOPE_MISSING")
    )
    answer = await gateway.http.post(LOAD)
    assert (answer.status_code, answer.json()["error"]) == (403, "the key lacks the scope admin")


@pytest.mark.parametrize(("audience", "status"), [(ListenerAudience.CALLERS, 404), (ListenerAudience.OPERATORS, 200)])
async def test_operators_with_their_own_listener_change_models_only_there(
    gateway: Gateway, audience: ListenerAudience, status: int
) -> None:
    telemetry = Telemetry(None)
    async with ServiceClient.connect(gateway.settings, telemetry) as client:
        app = build_app(gateway.settings, client, telemetry, audience=audience)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
            assert (await http.post(LOAD)).status_code == status
            assert (await http.post("/v2/repository/index")).status_code == 200
    telemetry.shutdown()

"""EndpointService on a real server: entities, names and numbers of endpoints that are rejected."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import endpoint_pb2

from service.contract.models.endpoint_json import EndpointJson
from service.contract.models.model import to_entities
from service.deployment.endpoint_changes import MAX_ENDPOINTS
from service.deployment.endpoint_document import EndpointDocument
from service.registry.description import Endpoint, Task
from tests.service.endpoint_fakes import Serving, both, serving
from tests.service.fakes import rejection_of

Code = grpc.StatusCode
Bad = tuple[str, list[tuple[str, str, int]], Code, str, str]
BAD: list[Bad] = [
    ("x", both(50, 49), Code.INVALID_ARGUMENT, "INVALID_FIELD", "entities"),
    ("x", both(50, 101), Code.INVALID_ARGUMENT, "INVALID_FIELD", "entities[1].traffic_percentage"),
    ("x", [("a", "a", 50), ("a", "b", 50)], Code.INVALID_ARGUMENT, "INVALID_FIELD", "entities"),
    ("x", [("a", "a", 50), ("e", "encoder", 50)], Code.INVALID_ARGUMENT, "INVALID_FIELD", "entities"),
    ("x", [("no spaces", "a", 100)], Code.INVALID_ARGUMENT, "INVALID_FIELD", "entities[0].name"),
    ("x", [(".", "a", 100)], Code.INVALID_ARGUMENT, "INVALID_FIELD", "entities[0].name"),
    ("x", [("a", "", 100)], Code.INVALID_ARGUMENT, "INVALID_FIELD", "entities[0].model"),
    ("x", [], Code.INVALID_ARGUMENT, "INVALID_FIELD", "entities"),
    ("x", [(f"e{i}", "a", 0) for i in range(16)] + both(0, 100), Code.INVALID_ARGUMENT, "INVALID_FIELD", "entities"),
    ("x", [("a", "nobody", 100)], Code.NOT_FOUND, "MODEL_NOT_FOUND", ""),
    ("x", [("a", "there", 100)], Code.NOT_FOUND, "MODEL_NOT_FOUND", ""),
]


@pytest.mark.parametrize("method", ["create", "update"])
@pytest.mark.parametrize("case", BAD, ids=range(len(BAD)))
async def test_bad_entities_are_rejected(case: Bad, method: str) -> None:
    """Create and Update have the same rules; existing endpoints stay unchanged."""
    name, shares, code, reason, field = case
    async with serving("a", "b") as run:
        before = await run.create("there", *both())
        target = name if method == "create" else "there"
        rejection = await rejection_of(getattr(run, method)(target, *shares))
        assert await run.get("there") == before
        assert await run.names() == ["a", "b", "encoder", "there"]
    assert (rejection.code, rejection.info.reason) == (code, reason)
    assert [violated for violated, _ in rejection.fields] == ([field] if field else [])


Act = Callable[[Serving, str], Awaitable[Any]]


def create(run: Serving, name: str) -> Awaitable[Any]:
    return run.create(name, *both())


def update(run: Serving, name: str) -> Awaitable[Any]:
    return run.update(name, *both())


def delete(run: Serving, name: str) -> Awaitable[Any]:
    call: Awaitable[Any] = run.endpoints.DeleteEndpoint(endpoint_pb2.DeleteEndpointRequest(name=name))
    return call


def get(run: Serving, name: str) -> Awaitable[Any]:
    return run.get(name)


@pytest.mark.parametrize(
    ("act", "name", "code", "reason"),
    [
        (create, "a", Code.ALREADY_EXISTS, "ENDPOINT_EXISTS"),
        (create, "fixed", Code.ALREADY_EXISTS, "ENDPOINT_EXISTS"),
        (create, "made", Code.ALREADY_EXISTS, "ENDPOINT_EXISTS"),
        (create, "no spaces", Code.INVALID_ARGUMENT, "INVALID_FIELD"),
        (create, ".", Code.INVALID_ARGUMENT, "INVALID_FIELD"),
        (create, "..", Code.INVALID_ARGUMENT, "INVALID_FIELD"),
        (update, "a", Code.FAILED_PRECONDITION, "ENDPOINT_READ_ONLY"),
        (update, "fixed", Code.FAILED_PRECONDITION, "ENDPOINT_READ_ONLY"),
        (update, "nobody", Code.NOT_FOUND, "ENDPOINT_NOT_FOUND"),
        (delete, "a", Code.FAILED_PRECONDITION, "ENDPOINT_READ_ONLY"),
        (delete, "fixed", Code.FAILED_PRECONDITION, "ENDPOINT_READ_ONLY"),
        (delete, "nobody", Code.NOT_FOUND, "ENDPOINT_NOT_FOUND"),
        (get, "nobody", Code.NOT_FOUND, "ENDPOINT_NOT_FOUND"),
        (get, "", Code.INVALID_ARGUMENT, "INVALID_FIELD"),
    ],
)
async def test_wrong_name_is_rejected(act: Act, name: str, code: Code, reason: str) -> None:
    """A name that is taken, unknown or read-only is rejected; existing endpoints stay unchanged."""
    fixed = {"name": "fixed", "entities": [{"name": "only", "model": "a", "traffic_percentage": 100}]}
    async with serving("a", "b", endpoints=[fixed]) as run:
        await run.create("made", *both())
        before = await run.endpoints.ListEndpoints(endpoint_pb2.ListEndpointsRequest())
        rejection = await rejection_of(act(run, name))
        assert await run.endpoints.ListEndpoints(endpoint_pb2.ListEndpointsRequest()) == before
    assert (rejection.code, rejection.info.reason) == (code, reason)
    if code is not Code.INVALID_ARGUMENT:
        assert rejection.info.metadata["endpoint"] == name


@pytest.mark.slow
async def test_number_of_endpoints_is_limited(tmp_path: Path) -> None:
    """An endpoint above the limit is rejected with the limit; existing ones can still be changed."""
    async with serving("a", "b") as run:
        template = await run.create("x", *both())
        entities = to_entities(template.entities)
    created = {f"x{i}": Endpoint(f"x{i}", Task.CHAT, entities, 0, 0) for i in range(MAX_ENDPOINTS)}
    path = tmp_path / "endpoints.json"
    path.write_text(EndpointJson(is_strict=True).dump(EndpointDocument(created)))
    async with serving("a", "b", endpoints_file=path) as run:
        rejection = await rejection_of(run.create("y", *both()))
        assert (await run.update("x7", ("only", "b", 100))).config_version == 2
    assert (rejection.code, rejection.info.reason) == (Code.FAILED_PRECONDITION, "TOO_MANY_ENDPOINTS")
    assert rejection.info.metadata["limit"] == str(MAX_ENDPOINTS)

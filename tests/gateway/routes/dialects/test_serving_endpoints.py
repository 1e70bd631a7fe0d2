"""Endpoints over HTTP with a real service and scripted models: list, create, use, change and delete."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import Gateway
from tests.service.endpoint_fakes import Serving, serving

ROOT = "/api/2.0/serving-endpoints"


@pytest.fixture
async def service() -> AsyncIterator[Serving]:
    """Run two models that answer with their own names, and an encoder."""
    async with serving("a", "b") as running:
        yield running


def config(first: int = 50, second: int = 50, models: str = "ab") -> dict[str, Any]:
    """Return two entities and their shares."""
    return {
        "served_entities": [{"name": f"arm-{i}", "entity_name": model} for i, model in enumerate(models)],
        "traffic_config": {
            "routes": [
                {"served_model_name": f"arm-{i}", "traffic_percentage": share}
                for i, share in enumerate((first, second))
            ]
        },
    }


def names(answer: httpx.Response) -> list[str]:
    """Return the names of the listed endpoints."""
    return [endpoint["name"] for endpoint in answer.json()["endpoints"]]


@pytest.mark.slow
async def test_life_of_an_endpoint(gateway: Gateway) -> None:
    """An endpoint is created, used by its name, changed and deleted; models are always endpoints."""
    http = gateway.http
    assert names(await http.get(ROOT)) == ["a", "b", "encoder"]
    made = await http.post(ROOT, json={"name": "ab", "config": config(0, 100)})
    assert made.status_code == 200
    assert made.json() == (await http.get(f"{ROOT}/ab")).json()
    assert names(await http.get(ROOT)) == ["a", "ab", "b", "encoder"]

    chat = {"messages": [{"role": "user", "content": "hi"}], "stream": False}
    assert (await http.post("/serving-endpoints/ab/invocations", json=chat)).json()["model"] == "b"
    changed = await http.put(f"{ROOT}/ab/config", json=config(100, 0))
    assert changed.json()["config"]["config_version"] == 2
    assert (await http.post("/serving-endpoints/ab/invocations", json=chat)).json()["model"] == "a"
    provisioned = await http.put(f"{ROOT}/pt/ab/config", json=config(50, 50))
    assert provisioned.json()["config"]["config_version"] == 3

    removed = await http.delete(f"{ROOT}/ab")
    assert (removed.status_code, removed.json()) == (200, {})
    assert (await http.get(f"{ROOT}/ab")).status_code == 404
    again = await http.post(f"{ROOT}/pt", json={"name": "ab", "config": config()})
    assert again.json()["config"]["config_version"] == 1


@pytest.mark.parametrize(
    ("method", "path", "body", "error"),
    [
        ("GET", "/nobody", None, (404, "RESOURCE_DOES_NOT_EXIST", "nobody")),
        ("DELETE", "/nobody", None, (404, "RESOURCE_DOES_NOT_EXIST", "nobody")),
        ("PUT", "/nobody/config", config(), (404, "RESOURCE_DOES_NOT_EXIST", "nobody")),
        ("DELETE", "/a", None, (400, "INVALID_STATE", "served model")),
        ("PUT", "/a/config", config(), (400, "INVALID_STATE", "served model")),
        ("POST", "", {"name": "a", "config": config()}, (409, "RESOURCE_ALREADY_EXISTS", "taken")),
        ("POST", "", {"name": "e", "config": config(models="ax")}, (404, "RESOURCE_DOES_NOT_EXIST", "'x'")),
        ("POST", "", {"name": "e", "config": config(60, 50)}, (400, "INVALID_PARAMETER_VALUE", "served_entities: ")),
        ("POST", "", {"name": "e", "config": config(101, 0)}, (400, "INVALID_PARAMETER_VALUE",
         "config.traffic_config.routes.0.traffic_percentage: ")),
        ("POST", "", {"name": "e!", "config": config()}, (400, "INVALID_PARAMETER_VALUE", "name: ")),
        ("POST", "", {"name": "e"}, (400, "INVALID_PARAMETER_VALUE", "config: required")),
        ("POST", "", "e", (400, "BAD_REQUEST", "the body must be an object")),
        ("PATCH", "/a", {}, (405, "METHOD_NOT_ALLOWED", "PATCH")),
        ("GET", "-of-others", None, (404, "ENDPOINT_NOT_FOUND", "GET")),
    ],
)  # fmt: skip
async def test_errors(gateway: Gateway, method: str, path: str, body: Any, error: tuple[int, str, str]) -> None:
    """Each error has its status, its code and the caller's name of the field."""
    status, code, words = error
    answer = await gateway.http.request(method, ROOT + path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.json()["error_code"] == code
    assert words in answer.json()["message"]


@pytest.mark.parametrize(
    ("path", "methods"),
    [("", "GET, HEAD, POST"), ("/a", "DELETE, GET, HEAD"), ("/a/config", "PUT"), ("/pt", "POST")],
)
async def test_wrong_method_gets_the_allowed_ones(gateway: Gateway, path: str, methods: str) -> None:
    """The Allow header of a path that several routes share has the methods of all of them."""
    answer = await gateway.http.patch(ROOT + path, json={})
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)


@pytest.mark.slow
async def test_change_with_an_outdated_version_is_rejected(gateway: Gateway) -> None:
    """A change for another version is rejected with the current one; `*` and no header accept any version."""
    http = gateway.http
    await http.post(ROOT, json={"name": "ab", "config": config(0, 100)})
    changed = await http.put(f"{ROOT}/ab/config", json=config(100, 0), headers={"if-match": '"1"'})
    assert changed.json()["config"]["config_version"] == 2
    late = await http.put(f"{ROOT}/ab/config", json=config(50, 50), headers={"if-match": '"1"'})
    assert (late.status_code, late.json()["error_code"]) == (409, "ABORTED")
    assert "has config_version 2, not 1" in late.json()["message"]
    assert (await http.delete(f"{ROOT}/ab", headers={"if-match": '"1"'})).status_code == 409
    assert (await http.get(f"{ROOT}/ab")).json() == changed.json()
    for wrong in ("two", '""', '"0"', 'W/"2"', '"1", "2"', "-1", "9" * 21, str(1 << 64)):
        refused = await http.delete(f"{ROOT}/ab", headers={"if-match": wrong})
        assert (refused.status_code, refused.json()["message"][:9]) == (400, "if-match:")
    assert (await http.put(f"{ROOT}/ab/config", json=config(), headers={"if-match": "*"})).status_code == 200
    assert (await http.delete(f"{ROOT}/ab", headers={"if-match": "3"})).status_code == 200

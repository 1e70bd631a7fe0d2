"""Pages of models and endpoints on a real server."""

from __future__ import annotations

from typing import Any

from sluice.v1 import endpoint_pb2, model_pb2

from tests.service.endpoint_fakes import serving
from tests.service.fakes import rejection_of


async def pages(method: Any, kind: Any, field: str) -> list[list[str]]:
    """Return the names on each page of two."""
    found: list[list[str]] = []
    token = ""
    while True:
        answer = await method(kind(page_size=2, page_token=token))
        found.append([each.name for each in getattr(answer, field)])
        if not (token := answer.next_page_token):
            return found


async def test_models_and_endpoints_are_listed_in_pages() -> None:
    """Pages have every item once, in the order of the whole list; a token is valid for its own list only."""
    async with serving("c", "a", "b") as run:
        list_models, list_endpoints = run.models.ListModels, run.endpoints.ListEndpoints
        assert await pages(list_models, model_pb2.ListModelsRequest, "models") == [["c", "a"], ["b", "encoder"]]
        await run.create("x", ("only", "a", 100))
        found = await pages(list_endpoints, endpoint_pb2.ListEndpointsRequest, "endpoints")
        assert found == [["a", "b"], ["c", "encoder"], ["x"]]
        whole = await list_endpoints(endpoint_pb2.ListEndpointsRequest())
        assert ([each.name for each in whole.endpoints], whole.next_page_token) == ([*"abc", "encoder", "x"], "")
        token = (await list_endpoints(endpoint_pb2.ListEndpointsRequest(page_size=2))).next_page_token
        rejection = await rejection_of(list_models(model_pb2.ListModelsRequest(page_token=token)))
    assert [field for field, _ in rejection.fields] == ["page_token"]


async def test_failed_models_are_on_the_first_page_only() -> None:
    """A client that collects all pages has each failed model once."""
    async with serving("a", "bad", "b", failing={"bad"}, leave_out_failed_models=True) as run:
        first = await run.models.ListModels(model_pb2.ListModelsRequest(page_size=1))
        second = await run.models.ListModels(model_pb2.ListModelsRequest(page_token=first.next_page_token))
    assert [each.name for each in first.failed_models] == ["bad"]
    assert not second.failed_models

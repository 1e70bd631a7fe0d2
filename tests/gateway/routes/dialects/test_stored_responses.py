"""Stored responses over HTTP: what is sent to the service, and the bodies of answers and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import json_format
from openai.types.responses import Response, ResponseItem
from pydantic import TypeAdapter
from sluice.v1 import content_pb2, response_item_pb2, stored_response_pb2

from tests.gateway import fakes
from tests.gateway.conftest import Gateway
from tests.gateway.response_fakes import FakeResponseService

Code = grpc.StatusCode
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseItem)
BODY: dict[str, Any] = {
    "model": "m",
    "input": "hi",
    "store": True,
    "previous_response_id": "resp_0",
    "instructions": "Be brief.",
    "temperature": 0.25,
    "user": "u",
    "tools": [{"type": "function", "name": "f", "parameters": {"b": 18446744073709551616, "a": 1.50}}],
    "text": {"verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "metadata": {"a": "b"},
}
ITEMS: list[dict[str, Any]] = [
    {"message": {"role": "ROLE_SYSTEM", "content": [{"text": "Rule."}]}},
    {
        "message": {
            "role": "ROLE_USER",
            "content": [
                {"text": "What is it?"},
                {"image_url": {"url": "https://x/y.png", "detail": "IMAGE_DETAIL_LOW"}},
                {"image": {"data": "AAEC", "media_type": "image/webp"}},
            ],
        }
    },
    {"message": {"role": "ROLE_ASSISTANT", "content": [{"text": "A cat."}]}},
    {"reasoning": {"text": "hm"}},
    {"function_call": {"call_id": "c1", "name": "f", "arguments": "{}"}},
    {"function_call_output": {"call_id": "c1", "output": "3"}},
]


class StoringService(FakeResponseService):
    """Stores the newest response, and fails with `status` if that is set."""

    def __init__(self) -> None:
        super().__init__()
        self.status: fakes.Status | None = None
        self.received: list[Any] = []
        self.stored = stored_response_pb2.GetResponseResponse()

    async def CreateResponse(self, request: Any, context: Any) -> Any:  # noqa: N802  the contract's name
        if self.status is not None:
            await fakes.abort(context, self.status)
        answer = await super().CreateResponse(request, context)
        answer.response.stored, answer.response.previous_response_id = request.store, request.previous_response_id
        self.stored = stored_response_pb2.GetResponseResponse(response=answer.response, client_data=request.client_data)
        return answer

    async def _take(self, request: Any, context: Any) -> None:
        self.received.append(request)
        if self.status is not None:
            await fakes.abort(context, self.status)

    async def GetResponse(self, request: Any, context: Any) -> Any:  # noqa: N802  the contract's name
        await self._take(request, context)
        return self.stored

    async def DeleteResponse(self, request: Any, context: Any) -> Any:  # noqa: N802  the contract's name
        await self._take(request, context)
        return stored_response_pb2.DeleteResponseResponse()

    async def ListInputItems(self, request: Any, context: Any) -> Any:  # noqa: N802  the contract's name
        await self._take(request, context)
        items = [
            stored_response_pb2.StoredInputItem(
                id=f"id_{index}", item=json_format.ParseDict(item, response_item_pb2.InputItem())
            )
            for index, item in enumerate(ITEMS)
        ]
        return stored_response_pb2.ListInputItemsResponse(items=items, has_more=True)


@pytest.fixture
async def service() -> AsyncIterator[StoringService]:
    """A service that stores responses."""
    service = StoringService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


@pytest.mark.parametrize("base", ["/v1", "/openai/v1", "/openai"])
async def test_retrieved_response_equals_the_created_one(gateway: Gateway, service: StoringService, base: str) -> None:
    """Every byte, including fields that only the gateway knows, is that of the answer at its creation."""
    created = await gateway.http.post(f"{base}/responses", json=BODY)
    Response.model_validate(created.json())
    assert (created.json()["store"], created.json()["previous_response_id"]) == (True, "resp_0")
    found = await gateway.http.get(f"{base}/responses/{created.json()['id']}")
    assert found.status_code == 200
    assert found.content == created.content
    assert service.received == [stored_response_pb2.GetResponseRequest(id=created.json()["id"].removeprefix("resp_"))]


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"given": {}, "echo": {"reasoning": 1}}', b'{"given": 1}'])
async def test_a_response_of_another_client_has_defaults(
    gateway: Gateway, service: StoringService, data: bytes
) -> None:
    """A response that was created over gRPC, whatever its client's data, is a valid one with defaults."""
    created = await gateway.http.post("/v1/responses", json={"model": "m", "input": "hi"})
    service.stored.client_data = data
    found = await gateway.http.get("/v1/responses/resp_1")
    assert found.json() == created.json()


async def test_response_without_store_is_not_kept(gateway: Gateway, service: StoringService) -> None:
    """Without `store: true` the service gets no data to keep."""
    for store in (None, False):
        await gateway.http.post("/v1/responses", json=BODY | {"store": store})
    assert [(each.store, each.client_data) for each in service.response_requests] == [(False, b"")] * 2


async def test_the_reason_for_not_storing_is_in_the_answer(gateway: Gateway, service: StoringService) -> None:
    """`store` is false, and `store_error` has the reason; clients that don't know it still read the answer."""
    await gateway.http.post("/v1/responses", json=BODY)
    service.stored.response.stored, service.stored.response.store_error = False, "full"
    body = (await gateway.http.get("/v1/responses/resp_1")).json()
    assert (body["store"], body["store_error"]) == (False, "full")
    Response.model_validate(body)


async def test_deletion_confirmation_has_the_requested_id(gateway: Gateway, service: StoringService) -> None:
    """The service gets the id without its prefix, and the confirmation has the requested one."""
    answer = await gateway.http.delete("/v1/responses/resp_0af3")
    assert (answer.status_code, answer.json()) == (
        200, {"id": "resp_0af3", "object": "response", "deleted": True},
    )  # fmt: skip
    assert service.received == [stored_response_pb2.DeleteResponseRequest(id="0af3")]


async def test_input_items_can_be_sent_again(gateway: Gateway, service: StoringService) -> None:
    """Each kind of item is one of OpenAI's types, and becomes the same item of the contract if it is sent again."""
    answer = await gateway.http.get("/v1/responses/resp_1/input_items", params={"order": "asc"})
    page = answer.json()
    assert (page["object"], page["first_id"], page["last_id"], page["has_more"]) == ("list", "id_0", "id_5", True)
    for item in page["data"]:
        ITEM.validate_python(item)
    await gateway.http.post("/v1/responses", json={"model": "m", "input": page["data"]})
    wanted = [json_format.ParseDict(item, response_item_pb2.InputItem()) for item in ITEMS]
    image = wanted[1].message.content[2]
    image.image_url.url = "data:image/webp;base64,AAEC"
    for part in wanted[1].message.content[1:]:
        if not part.image_url.detail:
            part.image_url.detail = content_pb2.IMAGE_DETAIL_AUTO  # which is the same
    assert list(service.response_requests[-1].input) == wanted


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, {"id": "1", "descending": True}),
        ({"order": "asc", "limit": "7", "after": "msg_1_in0"}, {"id": "1", "page_size": 7, "after": "msg_1_in0"}),
        ({"limit": "4294967295"}, {"id": "1", "descending": True, "page_size": 4294967295}),  # the service rejects it
    ],
)
async def test_page_query_becomes_contract_fields(
    gateway: Gateway, service: StoringService, query: dict[str, str], wanted: dict[str, Any]
) -> None:
    """The query's fields become those of the contract; the newest item is first unless `order` is `asc`."""
    await gateway.http.get("/v1/responses/resp_1/input_items", params=query)
    assert service.received == [stored_response_pb2.ListInputItemsRequest(**wanted)]


@pytest.mark.parametrize(
    ("path", "query", "param"),
    [
        ("", {"stream": "yes"}, "stream"),
        ("/input_items", {"order": "up"}, "order"),
        ("/input_items", {"limit": "many"}, "limit"),
        ("/input_items", {"limit": "99999999999999999999999"}, "limit"),
        ("/input_items", {"limit": "-1"}, "limit"),
    ],
)
async def test_invalid_query_is_rejected_with_its_field(
    gateway: Gateway, path: str, query: dict[str, str], param: str
) -> None:
    """A query that can't be served is rejected with the name of its field."""
    answer = await gateway.http.get(f"/v1/responses/resp_1{path}", params=query)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("DELETE", ""), ("GET", "/input_items")])
async def test_errors_have_the_openai_style(gateway: Gateway, service: StoringService, method: str, path: str) -> None:
    """An unknown response is 404 with the name of the path's parameter; a store that fails is 503."""

    async def ask(code: Code, reason: str, field: str | None = None) -> httpx.Response:
        details = [fakes.error_info(reason), *([] if field is None else [fakes.bad_request(**{field: "no"})])]
        service.status = fakes.Status(code, "not here", *details)
        return await gateway.http.request(method, f"/v1/responses/resp_1{path}")

    unknown = await ask(Code.NOT_FOUND, "RESPONSE_NOT_FOUND", "id")
    assert unknown.status_code == 404
    assert unknown.json()["error"] | {"message": ""} == {
        "message": "", "type": "invalid_request_error", "param": "response_id", "code": "response_not_found",
    }  # fmt: skip
    assert (await ask(Code.UNAVAILABLE, "STORE_UNAVAILABLE")).status_code == 503


async def test_unknown_previous_response_has_the_code_of_openai(gateway: Gateway, service: StoringService) -> None:
    """Clients recognize the code, and send the whole conversation instead."""
    details = [fakes.error_info("RESPONSE_NOT_FOUND"), fakes.bad_request(previous_response_id="no")]
    service.status = fakes.Status(Code.NOT_FOUND, "not here", *details)
    answer = await gateway.http.post("/v1/responses", json=BODY)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (404, "previous_response_id")
    assert error["code"] == "previous_response_not_found"

"""Conversations over HTTP: what is sent to the service, and the bodies of answers and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import openai
import pytest
from google.protobuf import json_format
from sluice.v1 import conversation_pb2, conversation_pb2_grpc, response_item_pb2, stored_response_pb2

from tests.gateway import fakes
from tests.gateway.conftest import Gateway
from tests.gateway.response_fakes import FakeResponseService

Code = grpc.StatusCode
MESSAGE = {"message": {"role": "ROLE_USER", "content": [{"text": "hi"}]}}
STORED = stored_response_pb2.StoredInputItem(
    id="msg_1", item=json_format.ParseDict(MESSAGE, response_item_pb2.InputItem())
)
CONVERSATION = conversation_pb2.Conversation(id="1", created={"seconds": 7}, metadata={"a": "b"})
WRITTEN = {"id": "conv_1", "object": "conversation", "created_at": 7, "metadata": {"a": "b"}}
ITEM = {"type": "message", "role": "user", "content": "hi"}


class ConversationService(FakeResponseService, conversation_pb2_grpc.ConversationServiceServicer):
    """Answers each call with the same conversation and item, or fails with `status` if that is set."""

    def __init__(self) -> None:
        super().__init__()
        self.status: fakes.Status | None = None
        self.received: list[Any] = []

    async def GetConversation(self, request: Any, context: Any) -> Any:  # noqa: N802  the contract's name
        """Answer a call of any kind."""
        self.received.append(request)
        if self.status is not None:
            await fakes.abort(context, self.status)
        answer = getattr(conversation_pb2, type(request).__name__.replace("Request", "Response"))
        content = {
            "conversation": CONVERSATION,
            "items": [STORED],
            "item": STORED,
            "has_more": True,
            "next_page_token": "msg_1",
        }
        return answer(**{field.name: content[field.name] for field in answer.DESCRIPTOR.fields})

    CreateConversation = UpdateConversation = DeleteConversation = AddConversationItems = GetConversation
    ListConversationItems = GetConversationItem = DeleteConversationItem = GetConversation


@pytest.fixture
async def service() -> AsyncIterator[ConversationService]:
    """A service with one conversation."""
    service = ConversationService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


CALLS: list[tuple[str, str, dict[str, Any] | None, dict[str, Any], dict[str, Any]]] = [
    # method, path, body; the contract's fields; answer
    ("POST", "", {"items": [ITEM], "metadata": {"a": "b"}}, {"items": [MESSAGE], "metadata": {"a": "b"}}, WRITTEN),
    ("POST", "", {}, {}, WRITTEN),
    ("GET", "/conv_1", None, {"id": "1"}, WRITTEN),
    ("POST", "/conv_1", {"metadata": {"c": "d"}}, {"id": "1", "metadata": {"c": "d"}}, WRITTEN),
    ("DELETE", "/conv_1", None, {"id": "1"}, {"id": "conv_1", "object": "conversation.deleted", "deleted": True}),
    ("DELETE", "/conv_1/items/msg_1", None, {"id": "1", "itemId": "msg_1"}, WRITTEN),
]


@pytest.mark.parametrize("base", ["/v1", "/openai/v1", "/openai"])
async def test_calls_become_those_of_the_contract(gateway: Gateway, service: ConversationService, base: str) -> None:
    """Each call reaches the service with its fields, and its answer has OpenAI's form."""
    for method, path, body, _, wanted in CALLS:
        got = await gateway.http.request(method, f"{base}/conversations{path}", json=body)
        assert (got.status_code, got.json()) == (200, wanted)
    assert [json_format.MessageToDict(request) for request in service.received] == [fields for *_, fields, _ in CALLS]


async def test_items_have_the_form_of_input_items(gateway: Gateway, service: ConversationService) -> None:
    """Added, listed and single items are equal; a page says whether more follow; the newest is first by default."""
    added = (await gateway.http.post("/v1/conversations/conv_1/items", json={"items": [ITEM]})).json()
    listed = (await gateway.http.get("/v1/conversations/conv_1/items", params={"limit": "7", "after": "x"})).json()
    one = (await gateway.http.get("/v1/conversations/conv_1/items/msg_1")).json()
    assert added["data"] == listed["data"] == [one]
    assert (added["has_more"], listed["has_more"]) == (False, True)
    wanted = conversation_pb2.ListConversationItemsRequest(id="1", page_size=7, after="x", descending=True)
    assert service.received[1] == wanted


async def test_openai_client_works_unchanged(gateway: Gateway, service: ConversationService) -> None:
    """OpenAI's client creates, lists and deletes, and names the conversation of a response."""
    base_url = f"http://127.0.0.1:{gateway.port}/v1"
    items: Any = [ITEM]
    async with openai.AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0) as client:
        created = await client.conversations.create(items=items)
        await client.conversations.items.create(created.id, items=items)
        page = await client.conversations.items.list(created.id)
        assert [item.type for item in page.data] == ["message"]
        assert (await client.conversations.delete(created.id)).deleted
        answer = await client.responses.create(model="m", input="hi", conversation=created.id)
    assert service.response_requests[-1].conversation == "1"
    assert answer.status == "completed"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"items": [{"role": "user"}]}, "items.0.content"),
        ({"items": [ITEM] * 1025}, "items"),
        ({"metadata": {str(number): "" for number in range(17)}}, "metadata"),
        ({"name": "x"}, "name"),
    ],
)
@pytest.mark.usefixtures("service")
async def test_invalid_body_is_rejected_by_its_field(gateway: Gateway, body: dict[str, Any], param: str) -> None:
    """An invalid body is rejected with the name of the field."""
    answer = await gateway.http.post("/v1/conversations", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_errors_of_the_service_have_the_callers_names(gateway: Gateway, service: ConversationService) -> None:
    """An unknown conversation is 404 with the path's parameter; an item's field has its place in the body."""
    for field, method, path, param in (
        ("id", "GET", "/conv_1", "conversation_id"),
        ("item_id", "GET", "/conv_1/items/msg_1", "item_id"),
        ("items[0].message.role", "POST", "/conv_1/items", "items.0.role"),
    ):
        details = [fakes.error_info("CONVERSATION_NOT_FOUND"), fakes.bad_request(**{field: "no"})]
        service.status = fakes.Status(Code.NOT_FOUND, "not here", *details)
        body = {"items": [ITEM]} if method == "POST" else None
        answer = await gateway.http.request(method, f"/v1/conversations{path}", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (404, param)
        assert answer.json()["error"]["code"] == "conversation_not_found"

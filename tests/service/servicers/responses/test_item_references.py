"""Items of a request that refer to items of stored responses, on a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import conversation_pb2, conversation_pb2_grpc, stored_response_pb2

from tests.service.auth.key_files import write
from tests.service.fakes import ScriptedRunner, rejection_of, running
from tests.service.servicers.responses.test_response import message_item, response_request, stub_of
from tests.service.servicers.responses.test_stored_responses import by, create, storing


def reference(item_id: str) -> dict[str, Any]:
    return {"reference": {"id": item_id}}


@pytest.mark.parametrize("background", [False, True])
async def test_references_are_the_items_that_they_name(tmp_path: Path, *, background: bool) -> None:
    """The model is given the input and output of a stored response, and the new response keeps the items themselves."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        first = await create(run, input=[message_item("question")])
        listed = await stub_of(run).ListInputItems(stored_response_pb2.ListInputItemsRequest(id=first.id))
        ids = [listed.items[0].id, first.output[0].id]
        items = [reference(each) for each in ids]
        second = await create(run, input=[*items, message_item("more")], background=background, stream=background)
        kept = await stub_of(run).ListInputItems(stored_response_pb2.ListInputItemsRequest(id=second.id))
        texts = [each.item.message.content[0].text for each in kept.items]
        assert texts == ["question", first.output[0].message.content[0].text, "more"]


async def test_unknown_references_are_named(tmp_path: Path) -> None:
    """Those of other keys, of no response, and of no item are alike; items of conversations can't be references."""
    keys = write(tmp_path / "keys.yaml", a={}, b={})
    async with running(ScriptedRunner("hello"), auth={"keys_file": tmp_path / "keys.yaml"}, **storing(tmp_path)) as run:
        first = await create(run, call=by(keys["a"]), input=[message_item("question")])
        for item_id in (first.output[0].id, "msg_unknown_0", f"msg_{first.id}_7", "x"):
            request = response_request(input=[message_item("a"), reference(item_id)])
            rejection = await rejection_of(stub_of(run).CreateResponse(request, **by(keys["b"])))
            assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT
            assert [field for field, _ in rejection.fields] == ["input[1].reference.id"]
        conversations = conversation_pb2_grpc.ConversationServiceStub(run.channel)
        adding = conversation_pb2.CreateConversationRequest(items=[reference("x")])
        rejection = await rejection_of(conversations.CreateConversation(adding, **by(keys["a"])))
        assert [field for field, _ in rejection.fields] == ["items[0].reference"]


async def test_references_need_a_store() -> None:
    """The error says which setting is missing."""
    async with running(ScriptedRunner("hello")) as run:
        rejection = await rejection_of(
            stub_of(run).CreateResponse(response_request(input=[message_item("a"), reference("msg_a_0")]))
        )
        assert [field for field, _ in rejection.fields] == ["input[1].reference.id"]
        assert "stored_responses.file" in rejection.text

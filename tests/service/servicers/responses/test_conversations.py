"""Conversations on a real server: items, pages, and responses that continue them, in the foreground and background."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from sluice.v1 import conversation_pb2, conversation_pb2_grpc, response_item_pb2

from tests.service.auth.key_files import write
from tests.service.background.background_calls import ended
from tests.service.fakes import Rejection, Running, ScriptedRunner, rejection_of, running
from tests.service.servicers.responses.test_response import message_item, response_request, stub_of
from tests.service.servicers.responses.test_stored_responses import by, storing

Code = grpc.StatusCode
Conversation = conversation_pb2.Conversation


def conversations(run: Running) -> Any:
    return conversation_pb2_grpc.ConversationServiceStub(run.channel)


def items_of(*texts: str) -> list[response_item_pb2.InputItem]:
    return [json_format.ParseDict(message_item(text), response_item_pb2.InputItem()) for text in texts]


def get_of(conversation_id: str) -> conversation_pb2.GetConversationRequest:
    return conversation_pb2.GetConversationRequest(id=conversation_id)


async def create(run: Running, *texts: str, **metadata: str) -> Conversation:
    request = conversation_pb2.CreateConversationRequest(items=items_of(*texts), metadata=metadata)
    conversation: Conversation = (await conversations(run).CreateConversation(request)).conversation
    return conversation


async def get(run: Running, conversation_id: str) -> Conversation:
    found: Conversation = (await conversations(run).GetConversation(get_of(conversation_id))).conversation
    return found


async def page(run: Running, conversation_id: str, **fields: Any) -> conversation_pb2.ListConversationItemsResponse:
    request = conversation_pb2.ListConversationItemsRequest(id=conversation_id, **fields)
    found: conversation_pb2.ListConversationItemsResponse = await conversations(run).ListConversationItems(request)
    return found


async def texts_in(run: Running, conversation_id: str) -> list[str]:
    found = await page(run, conversation_id, page_size=100)
    return [each.item.message.content[0].text for each in found.items]


async def test_update_with_an_outdated_etag_changes_nothing(tmp_path: Path) -> None:
    """Of two clients that have read the same metadata only one changes it; without an etag the later one holds."""
    async with running(**storing(tmp_path)) as run:
        read = await create(run, "a", topic="x")
        assert read.etag == (await get(run, read.id)).etag

        def update(topic: str, **fields: Any) -> Any:
            request = conversation_pb2.UpdateConversationRequest(id=read.id, metadata={"topic": topic}, **fields)
            return conversations(run).UpdateConversation(request)

        first = (await update("first", etag=read.etag)).conversation
        rejection = await rejection_of(update("second", etag=read.etag))
        assert (rejection.code, rejection.info.reason) == (Code.ABORTED, "CONVERSATION_CHANGED")
        assert await get(run, read.id) == first
        assert first.etag != read.etag
        assert (await update("third")).conversation.metadata["topic"] == "third"


async def test_conversation_survives_a_restart(tmp_path: Path) -> None:
    """Metadata and items are read back in order, also by another service; new metadata replaces the old."""
    async with running(**storing(tmp_path)) as run:
        created = await create(run, "a", "b", topic="x")
        request = conversation_pb2.AddConversationItemsRequest(id=created.id, items=items_of("c"))
        (added,) = (await conversations(run).AddConversationItems(request)).items
    async with running(**storing(tmp_path)) as run:
        stub = conversations(run)
        assert await get(run, created.id) == created
        assert await texts_in(run, created.id) == ["a", "b", "c"]
        one = conversation_pb2.GetConversationItemRequest(id=created.id, item_id=added.id)
        assert (await stub.GetConversationItem(one)).item == added
        await stub.UpdateConversation(
            conversation_pb2.UpdateConversationRequest(id=created.id, metadata={"topic": "y"})
        )
        assert dict((await get(run, created.id)).metadata) == {"topic": "y"}
        await stub.DeleteConversationItem(
            conversation_pb2.DeleteConversationItemRequest(id=created.id, item_id=added.id)
        )
        assert await texts_in(run, created.id) == ["a", "b"]


async def test_pages_contain_every_item_once(tmp_path: Path) -> None:
    """Pages in either order contain every item once; an unknown item is rejected."""
    async with running(**storing(tmp_path)) as run:
        created = await create(run, *"01234")
        for descending in (False, True):
            found: list[Any] = []
            while True:
                after = found[-1].id if found else ""
                got = await page(run, created.id, page_size=2, after=after, descending=descending)
                found += got.items
                if not got.has_more:
                    break
            texts = [each.item.message.content[0].text for each in found]
            assert texts == sorted("01234", reverse=descending)
        rejection = await rejection_of(page(run, created.id, after="msg_1"))
    assert [field for field, _ in rejection.fields] == ["after"]


async def test_pages_continue_with_tokens(tmp_path: Path) -> None:
    """The token of each page gives the next one, and the last page has none."""
    async with running(**storing(tmp_path)) as run:
        created = await create(run, *"01234")
        got = await page(run, created.id, page_size=2)
        found = [*got.items]
        while got.next_page_token:
            got = await page(run, created.id, page_size=2, page_token=got.next_page_token)
            found += got.items
        assert [each.item.message.content[0].text for each in found] == [*"01234"]
        for fields in ({"page_token": "msg_1"}, {"page_token": found[0].id, "after": found[0].id}):
            rejection = await rejection_of(page(run, created.id, **fields))
            assert [field for field, _ in rejection.fields] == ["page_token"]


@pytest.mark.parametrize("name", ["after", "page_token"])
async def test_pages_continue_after_deleted_items(tmp_path: Path, name: str) -> None:
    """A client that deletes each item of a page gets the next page, also after a restart of the service."""
    seen: list[str] = []
    async with running(**storing(tmp_path)) as run:
        created = await create(run, *"01234")
    after = ""
    for size in (2, 2, 1):
        async with running(**storing(tmp_path)) as run:
            got = await page(run, created.id, page_size=2, **{name: after})
            assert len(got.items) == size
            seen += [each.item.message.content[0].text for each in got.items]
            after = got.items[-1].id
            for each in got.items:
                request = conversation_pb2.DeleteConversationItemRequest(id=created.id, item_id=each.id)
                await conversations(run).DeleteConversationItem(request)
    assert seen == [*"01234"]


@pytest.mark.parametrize(("store", "background"), [(False, False), (True, False), (True, True)])
async def test_response_continues_its_conversation(tmp_path: Path, *, store: bool, background: bool) -> None:
    """Earlier items precede the input, and the input and the answer are added, once; instructions are not."""
    async with running(ScriptedRunner("one"), **storing(tmp_path)) as run:
        created = await create(run, "a")
        for text in ("b", "c"):
            request = response_request(
                input=[message_item(text)], conversation=created.id, store=store, background=background,
                instructions="Rule.",
            )  # fmt: skip
            response = (await stub_of(run).CreateResponse(request)).response
            if background:
                response = await ended(run, response.id)
        assert response.conversation == created.id
        assert response.usage.prompt_tokens == len("Rule." + "a" + "b" + "one" + "c")
        assert await texts_in(run, created.id) == ["a", "b", "one", "c", "one"]


async def test_response_until_an_item_ignores_later_ones(tmp_path: Path) -> None:
    """With `conversation_until`, only items up to that one precede the input; empty stands for none."""
    async with running(**storing(tmp_path)) as run:
        created = await create(run, "a", "bb", "ccc")
        first = (await page(run, created.id)).items[0].id
        for until, num_tokens in ((first, len("a" + "x")), ("", len("x"))):
            request = response_request(input=[message_item("x")], conversation=created.id, conversationUntil=until)
            assert (await stub_of(run).CreateResponse(request)).response.usage.prompt_tokens == num_tokens
        request = response_request(conversation=created.id, conversationUntil="msg_1")
        rejection = await rejection_of(stub_of(run).CreateResponse(request))
    assert [field for field, _ in rejection.fields] == ["conversation_until"]


async def test_failed_response_adds_nothing(tmp_path: Path) -> None:
    """A response that fails leaves its conversation unchanged."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path)) as run:
        created = await create(run, "a")
        runner.fail_with = RuntimeError("broken")
        await rejection_of(stub_of(run).CreateResponse(response_request(conversation=created.id)))
        assert await texts_in(run, created.id) == ["a"]


async def test_deleted_conversation_leaves_nothing(tmp_path: Path) -> None:
    """After the deletion no file has an item, and every call fails as for another key's conversation."""
    keys = write(tmp_path / "keys.yaml", a={}, b={})
    settings = storing(tmp_path) | {"auth": {"keys_file": tmp_path / "keys.yaml"}}

    def calls(run: Running, conversation_id: str, key: str) -> list[Any]:
        stub, item = conversations(run), {"id": conversation_id, "item_id": "i"}
        return [
            stub.GetConversation(get_of(conversation_id), **by(key)),
            stub.UpdateConversation(conversation_pb2.UpdateConversationRequest(id=conversation_id), **by(key)),
            stub.AddConversationItems(
                conversation_pb2.AddConversationItemsRequest(id=conversation_id, items=items_of("x")), **by(key)
            ),
            stub.ListConversationItems(conversation_pb2.ListConversationItemsRequest(id=conversation_id), **by(key)),
            stub.GetConversationItem(conversation_pb2.GetConversationItemRequest(**item), **by(key)),
            stub.DeleteConversationItem(conversation_pb2.DeleteConversationItemRequest(**item), **by(key)),
            stub.DeleteConversation(conversation_pb2.DeleteConversationRequest(id=conversation_id), **by(key)),
            stub_of(run).CreateResponse(response_request(conversation=conversation_id), **by(key)),
        ]

    def comparable(rejection: Rejection) -> tuple[Any, ...]:
        return rejection.code, rejection.text, rejection.info.reason, rejection.fields

    async with running(**settings) as run:
        request = conversation_pb2.CreateConversationRequest(items=items_of("Quetzalcoatl"))
        created = (await conversations(run).CreateConversation(request, **by(keys["a"]))).conversation
        foreign = [comparable(await rejection_of(call)) for call in calls(run, created.id, keys["b"])]
        deletion = conversation_pb2.DeleteConversationRequest(id=created.id)
        await conversations(run).DeleteConversation(deletion, **by(keys["a"]))
        deleted = [comparable(await rejection_of(call)) for call in calls(run, created.id, keys["a"])]
        assert not any(b"Quetzal" in path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240  tiny files
    assert foreign == deleted
    assert {(code, reason) for code, _, reason, _ in foreign} == {(Code.NOT_FOUND, "CONVERSATION_NOT_FOUND")}


async def test_conversations_count_against_the_limit(tmp_path: Path) -> None:
    """Items above the limit of a key are rejected with its value; nothing is added."""
    async with running(**storing(tmp_path, max_bytes_per_key=200)) as run:
        created = await create(run, "a")
        request = conversation_pb2.AddConversationItemsRequest(id=created.id, items=items_of("x" * 200))
        rejection = await rejection_of(conversations(run).AddConversationItems(request))
        assert rejection.code is Code.RESOURCE_EXHAUSTED
        assert "a key may store 200 (stored_responses.max_bytes_per_key)" in rejection.text
        metadata = rejection.info.metadata
        assert (metadata["limit"], metadata["setting"]) == ("200", "stored_responses.max_bytes_per_key")
        assert await texts_in(run, created.id) == ["a"]


async def test_conversations_without_a_store_are_rejected() -> None:
    """Without a file, none is created or found."""
    async with running() as run:
        for call, reason in (
            (conversations(run).CreateConversation(conversation_pb2.CreateConversationRequest()), "STORING_OFF"),
            (stub_of(run).CreateResponse(response_request(conversation="c")), "STORING_OFF"),
            (conversations(run).GetConversation(get_of("1")), "CONVERSATION_NOT_FOUND"),
        ):
            assert (await rejection_of(call)).info.reason == reason

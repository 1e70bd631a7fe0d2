"""ReplayResponse on a real server with a scripted model: equal, different, impossible, and others' responses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import conversation_pb2, conversation_pb2_grpc, stored_response_pb2

from service.receipts.signing_key import SigningKey
from tests.service.fakes import Rejection, Running, ScriptedRunner, rejection_of, running
from tests.service.servicers.responses.test_response import message_item, stub_of
from tests.service.servicers.responses.test_stored_responses import create, storing

Code = grpc.StatusCode
RECEIPT: dict[str, Any] = {"serving": {"receipt": True}}


@asynccontextmanager
async def signing(folder: Path, *texts: str, key: str = "key.pem", **settings: Any) -> AsyncIterator[Running]:
    """Run a server that stores responses and signs receipts."""
    if not (folder / key).exists():
        SigningKey.create(folder / key)
    runner = ScriptedRunner(*texts or ("hello",))
    async with running(runner, receipts={"key_file": folder / key}, **storing(folder), **settings) as run:
        yield run


def request(response_id: str) -> stored_response_pb2.ReplayResponseRequest:
    return stored_response_pb2.ReplayResponseRequest(id=response_id)


async def replay(run: Running, response_id: str) -> stored_response_pb2.ReplayResponseResponse:
    answer: stored_response_pb2.ReplayResponseResponse = await stub_of(run).ReplayResponse(request(response_id))
    return answer


async def rejection(run: Running, response_id: str, **call: Any) -> Rejection:
    return await rejection_of(stub_of(run).ReplayResponse(request(response_id), **call))


@pytest.mark.parametrize("fields", [{}, {"maxOutputTokens": 2}], ids=["whole", "cut off"])
async def test_same_answer_has_the_same_receipt(tmp_path: Path, fields: dict[str, Any]) -> None:
    """Also of a chain, streamed, and after a restart. Nothing more is stored."""
    async with signing(tmp_path) as run:
        first = await create(run, **RECEIPT)
        second = await create(run, stream=True, previousResponseId=first.id, **RECEIPT, **fields)
    async with signing(tmp_path) as run:
        for each in (first, second):
            again = await replay(run, each.id)
            assert (again.receipt, list(again.differences)) == (each.receipt, [])


async def test_other_answer_is_reported_with_its_first_other_token(tmp_path: Path) -> None:
    """The scripted model says something else, under the same fingerprint."""
    async with signing(tmp_path, "hello") as run:
        created = await create(run, **RECEIPT)
    async with signing(tmp_path, "help") as run:
        assert list((await replay(run, created.id)).differences) == ["choice 0 differs from token 3 on"]


async def test_conversation_counts_as_it_was(tmp_path: Path) -> None:
    """Items that came later are no part of the request; without those before it, it can't be computed again."""
    async with signing(tmp_path) as run:
        conversations: Any = conversation_pb2_grpc.ConversationServiceStub(run.channel)
        made = await conversations.CreateConversation(conversation_pb2.CreateConversationRequest())
        of: dict[str, Any] = {"conversation": made.conversation.id}
        for text in ("a", "b", "c"):
            created = await create(run, input=[message_item(text)], **of, **RECEIPT)
            await create(run, store=False, input=[message_item("later")], **of)
            assert not (await replay(run, created.id)).differences
        item_id = f"msg_{created.id}_in0"
        delete = conversation_pb2.DeleteConversationItemRequest(id=of["conversation"], item_id=item_id)
        await conversations.DeleteConversationItem(delete)
        found = await rejection(run, created.id)
        assert (found.code, found.info.reason) == (Code.NOT_FOUND, "CONVERSATION_NOT_FOUND")


async def test_response_that_cannot_be_verified_is_rejected(tmp_path: Path) -> None:
    """Without a receipt, or with one of another key: nothing is computed."""
    async with signing(tmp_path) as run:
        plain, signed = await create(run), await create(run, **RECEIPT)
        found = await rejection(run, plain.id)
        assert (found.info.reason, found.fields[0][0]) == ("UNSUPPORTED_FEATURE", "id")
    async with signing(tmp_path, key="other.pem") as run:
        assert "which is not among the given keys" in (await rejection(run, signed.id)).text
        assert run.runner.num_steps == 0

"""Responses that are requested again because their outcome is unknown: each is stored and added once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from sluice.v1 import response_item_pb2, response_pb2

from tests.service.fakes import Running, ScriptedRunner, rejection_of, running
from tests.service.servicers.responses.test_conversations import create, texts_in
from tests.service.servicers.responses.test_response import message_item, response_request, stub_of
from tests.service.servicers.responses.test_stored_responses import get, storing

ID: Final = "0123456789abcdef" * 2
IDS: Final = [{"responseId": ID}, {"serving": {"requestId": "r1"}}]


async def respond(run: Running, request: response_pb2.CreateResponseRequest, *, stream: bool) -> Any:
    """Return the response to a request."""
    if not stream:
        return (await stub_of(run).CreateResponse(request)).response
    *_, last = [event async for event in stub_of(run).StreamResponse(request)]
    return getattr(last, last.WhichOneof("event")).response


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("ids", IDS, ids=["response_id", "request_id"])
async def test_repeated_response_is_added_once(
    tmp_path: Path, ids: dict[str, Any], *, store: bool, stream: bool
) -> None:
    """After a restart of the service it has the same id, follows the same items, and is not added again."""
    found: list[response_item_pb2.Response] = []
    conversation_id = ""
    for _ in range(2):
        async with running(ScriptedRunner("one"), **storing(tmp_path)) as run:
            conversation_id = conversation_id or (await create(run, "a")).id
            request = response_request(input=[message_item("b")], conversation=conversation_id, store=store, **ids)
            found.append(await respond(run, request, stream=stream))
            assert await texts_in(run, conversation_id) == ["a", "b", "one"]
            if store:
                assert (await get(run, found[-1].id)).response == found[-1]
    first, second = found
    assert (first.id, first.output) == (second.id, second.output)
    assert first.usage.prompt_tokens == second.usage.prompt_tokens == len("ab")


async def test_repeated_response_draws_the_same_tokens(tmp_path: Path) -> None:
    """A request without a seed has one that follows from the id, so that what was added is what is returned."""
    seeds = []
    for _ in range(2):
        async with running(**storing(tmp_path)) as run:
            created = await create(run)
            await respond(run, response_request(conversation=created.id, responseId=ID), stream=False)
            (span,) = [each for each in run.spans.get_finished_spans() if each.name.startswith("chat ")]
        seeds.append(int(str((span.attributes or {})["gen_ai.request.seed"])))
    assert seeds[0] == seeds[1] > 1  # not the one that the preparation draws


@pytest.mark.parametrize("ids", IDS, ids=["response_id", "request_id"])
async def test_id_of_another_response_is_rejected(tmp_path: Path, ids: dict[str, Any]) -> None:
    """A request with other items than those that were added under its id changes nothing."""
    conversation_id = ""
    for text in ("b", "c"):
        async with running(ScriptedRunner("one"), **storing(tmp_path)) as run:
            conversation_id = conversation_id or (await create(run, "a")).id
            request = response_request(input=[message_item(text)], conversation=conversation_id, **ids)
            if text == "b":
                await respond(run, request, stream=False)
                continue
            rejection = await rejection_of(stub_of(run).CreateResponse(request))
            assert await texts_in(run, conversation_id) == ["a", "b", "one"]
    field = "response_id" if "responseId" in ids else "serving.request_id"
    assert [each for each, _ in rejection.fields] == [field]
    assert "is the id of another request" in rejection.text


async def test_malformed_response_id_is_rejected(tmp_path: Path) -> None:
    """An id has 32 hexadecimal digits."""
    async with running(**storing(tmp_path)) as run:
        rejection = await rejection_of(stub_of(run).CreateResponse(response_request(responseId="resp_1")))
    assert [field for field, _ in rejection.fields] == ["response_id"]

"""A stream of a conversation that is resumed after its answer was added, as if the end had not reached the client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sluice.v1 import response_event_pb2, response_pb2, resume_pb2

from tests.service.fakes import Running, ScriptedRunner, running
from tests.service.servicers.responses.test_conversations import create, texts_in
from tests.service.servicers.responses.test_response import message_item, response_request, stub_of, text_of
from tests.service.servicers.responses.test_stored_responses import storing

Event = response_event_pb2.StreamResponseResponse


async def read(run: Running, request: response_pb2.CreateResponseRequest) -> list[Event]:
    return [event async for event in stub_of(run).StreamResponse(request)]


@pytest.mark.parametrize("store", [False, True])
async def test_answer_is_added_once(tmp_path: Path, store: bool) -> None:  # noqa: FBT001  a parameter of the test
    """The rest has the same text and a stored end, and the conversation has each item once."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        conversation = await create(run, "earlier")
        fields: dict[str, Any] = {"store": store, "serving": {"separateTokens": True}}
        request = response_request(conversation=conversation.id, input=[message_item("hi")], **fields)
        events = await read(run, request)
        cut = next(number for number, event in enumerate(events) if event.HasField("output_text_delta"))
        last = events[cut]
        request.resume.CopyFrom(
            resume_pb2.ResumeOptions(
                stream=events[0].stream, position=last.position, sequence_number=last.sequence_number
            )
        )
        rest = await read(run, request)
        assert text_of(events[: cut + 1] + rest) == "hello"
        assert (rest[-1].completed.response.stored, rest[-1].completed.response.store_error) == (store, "")
        assert rest[-1].completed.response.id == events[-1].completed.response.id
        assert await texts_in(run, conversation.id) == ["earlier", "hi", "hello"]

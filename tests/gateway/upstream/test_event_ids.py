"""The ids of a stream's events, and the resumption of streams after them."""

from __future__ import annotations

import pytest
from sluice.v1 import chat_pb2, serving_pb2, usage_pb2

from gateway.dialects.openai_family.chat.encoder import ChatEncoder
from gateway.dialects.openai_family.parameters.stream_options import StreamedUsage
from gateway.dialects.seam.failure import Failure
from gateway.http.event_id import EventId, EventMarks
from tests.gateway import fakes
from tests.gateway.conftest import Gateway, chat_body

STARTED = chat_pb2.ChatStarted(id="1", created=fakes.CREATED, model="m")


def messages() -> list[chat_pb2.StreamChatResponse]:
    """Return a stream of the service, each message from a separate output."""
    ends = chat_pb2.ChoiceFinished(finish_reason=chat_pb2.FINISH_REASON_STOP)
    events = [
        chat_pb2.StreamChatResponse(started=STARTED, stream=b"who"),
        chat_pb2.StreamChatResponse(content_delta=chat_pb2.ContentDelta(text="Hel\n\n")),
        chat_pb2.StreamChatResponse(content_delta=chat_pb2.ContentDelta(text="lo")),
        chat_pb2.StreamChatResponse(choice_finished=ends),
        chat_pb2.StreamChatResponse(usage=usage_pb2.Usage(prompt_tokens=1)),
        chat_pb2.StreamChatResponse(completed=chat_pb2.ChatCompleted()),
    ]
    for number, event in enumerate(events):
        event.sequence_number, event.position = number, b"at%d" % number
    return events


ASKED = {"x-sluice-event-ids": "true"}


def sent(headers: dict[str, str], sent_messages: list[chat_pb2.StreamChatResponse]) -> bytes:
    marks, encoder = EventMarks(headers), ChatEncoder(usage=StreamedUsage.LAST)
    return b"".join(marks.put(encoder.chunk(message), message) for message in sent_messages)


def ids_of(stream: bytes) -> list[str]:
    return [line[4:] for line in stream.decode().split("\n") if line.startswith("id: ")]


def test_every_event_has_its_own_id() -> None:
    """Each event has its own id, including the role, which is sent with the first text."""
    stream = sent(ASKED, messages())
    assert stream.count(b"\n\n") == len(ids_of(stream)) == len(set(ids_of(stream))) == 6
    assert stream.startswith(b"id: ")


@pytest.mark.parametrize("index", [1, 2])
def test_stream_resumes_after_the_progress_of_a_prompt(index: int) -> None:
    """A chunk with progress has the position before it; resumed streams have none, and lack nothing else."""
    plain = messages()
    progress = chat_pb2.StreamChatResponse(prompt_progress=serving_pb2.PromptProgress(total_tokens=9))
    progress.sequence_number, progress.position = plain[index - 1].sequence_number, plain[index - 1].position
    stream = sent(ASKED, [*plain[:index], progress, *plain[index:]])
    before, chunk, rest = stream.partition(next(each for each in stream.split(b"\n\n") if b"prompt_progress" in each))
    assert before + rest.removeprefix(b"\n\n") == sent(ASKED, plain)
    assert sent({"last-event-id": ids_of(chunk + b"\n")[0]}, plain) == rest.removeprefix(b"\n\n")


def test_stream_resumes_after_any_event_id() -> None:
    """Replayed events are dropped up to the last event that was sent."""
    stream = sent(ASKED, messages())
    for place, event_id in enumerate(ids_of(stream), 1):
        parts = stream.split(b"\n\n")
        rest = sent({"last-event-id": event_id}, messages())
        assert b"\n\n".join(parts[:place]) + b"\n\n" + rest == stream


def test_last_event_id_selects_the_position_after_its_event() -> None:
    last = EventId.from_headers({"last-event-id": ids_of(sent(ASKED, messages()))[2]})
    assert last == EventId(b"who", b"at2", 2)
    request = chat_pb2.ChatRequest()
    last.set_resume_options(request)
    assert (request.resume.stream, request.resume.position, request.resume.sequence_number) == (b"who", b"at2", 2)
    assert request.resume.replay


def test_stream_without_positions_has_no_event_ids() -> None:
    sent_messages = messages()
    for message in sent_messages:
        message.ClearField("stream")
    assert not ids_of(sent(ASKED, sent_messages))


@pytest.mark.parametrize(("switch", "has_ids"), [("true", True), ("false", False), ("", False)])
def test_event_ids_are_switched_by_a_request_header(switch: str, has_ids: bool) -> None:  # noqa: FBT001  a row
    marks = EventMarks({"x-sluice-event-ids": switch})
    encoder = ChatEncoder()
    stream = b"".join(marks.put(encoder.chunk(message), message) for message in messages())
    assert bool(ids_of(stream)) is has_ids


@pytest.mark.parametrize(
    "headers",
    [
        {"last-event-id": "1"},
        {"last-event-id": "d2hv.1.0.!"},
        {"last-event-id": "a.1.0.a"},
        {"last-event-id": "d2hv.-1.0.d2hv"},
        {"last-event-id": f"d2hv.{'9' * 20}.0.d2hv"},
        {"last-event-id": "d2hv.18446744073709551616.0.d2hv"},
        {"x-sluice-event-ids": "1"},
    ],
)
def test_malformed_headers_are_rejected_by_name(headers: dict[str, str]) -> None:
    with pytest.raises(Failure) as caught:
        EventMarks(headers)
    assert (caught.value.status, caught.value.field) == (400, *headers)


async def test_malformed_event_id_is_rejected_in_the_dialects_format(gateway: Gateway) -> None:
    answer = await gateway.http.post(
        "/v1/chat/completions", json=chat_body(stream=True), headers={"last-event-id": "1"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "last-event-id"

"""Answers that survive a service that dies and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import grpc
import pytest
from opentelemetry.trace import SpanKind
from sluice.v1 import chat_pb2, usage_pb2

from tests.gateway import fakes
from tests.gateway.conftest import Gateway, chat_body, until
from tests.waiting import GUARD_S

ENGINE_FAILED = fakes.Status(grpc.StatusCode.INTERNAL, "internal error", fakes.error_info("ENGINE_FAILED"))
STARTING = fakes.Status(grpc.StatusCode.UNAVAILABLE, "the service is starting", fakes.error_info("STARTING"))
DRAINING = fakes.Status(grpc.StatusCode.UNAVAILABLE, "the engine was stopped", fakes.error_info("DRAINING"))
LOST = fakes.Status(grpc.StatusCode.UNAVAILABLE, "Socket closed")
REFUSED = fakes.Status(grpc.StatusCode.FAILED_PRECONDITION, "another request", fakes.error_info("CANNOT_RESUME"))
Try = Callable[[chat_pb2.ChatRequest], AsyncIterator[chat_pb2.StreamChatResponse]]


def events() -> list[chat_pb2.StreamChatResponse]:
    """Return a stream that can be resumed."""
    started = chat_pb2.ChatStarted(id="1", created=fakes.CREATED, model="m")
    finished = chat_pb2.ChoiceFinished(finish_reason=chat_pb2.FINISH_REASON_STOP)
    texts = [chat_pb2.StreamChatResponse(content_delta=chat_pb2.ContentDelta(text=text)) for text in "abcde"]
    made = [
        chat_pb2.StreamChatResponse(started=started, stream=b"who"),
        *texts,
        chat_pb2.StreamChatResponse(choice_finished=finished),
        chat_pb2.StreamChatResponse(usage=usage_pb2.Usage(prompt_tokens=1, completion_tokens=5)),
        chat_pb2.StreamChatResponse(completed=chat_pb2.ChatCompleted()),
    ]
    for number, event in enumerate(made):
        event.sequence_number, event.position = number, b"at%d" % number
    return made


def dies_after(count: int, status: fakes.Status = LOST, *, cost: bool = False) -> Try:
    """Return a script that sends this number of events, then optionally the usage, and ends with the status."""

    async def tell(request: chat_pb2.ChatRequest) -> AsyncIterator[chat_pb2.StreamChatResponse]:
        begin = request.resume.sequence_number + 1 if request.HasField("resume") else 0
        for event in events()[begin : begin + count]:
            yield event
        if cost:
            yield chat_pb2.StreamChatResponse(usage=usage_pb2.Usage(completion_tokens=count), sequence_number=count)
        if begin + count < len(events()):
            raise status

    return tell


def script(service: fakes.FakeService, *tries: Try) -> None:
    """Play one script for each call in turn; the last one repeats."""
    left = list(tries)

    def play(request: chat_pb2.ChatRequest) -> AsyncIterator[chat_pb2.StreamChatResponse]:
        return (left.pop(0) if len(left) > 1 else left[0])(request)

    service.script = play


async def stream(gateway: Gateway) -> str:
    body = chat_body(stream=True, stream_options={"include_usage": True})
    answer = await gateway.http.post("/v1/chat/completions", json=body, headers={"x-sluice-event-ids": "true"})
    assert answer.status_code == 200
    return answer.text


@pytest.fixture
async def unbroken(gateway: Gateway) -> str:
    script(gateway.service, dies_after(99))
    return await stream(gateway)


@pytest.mark.slow
@pytest.mark.parametrize("count", range(1, 9))
async def test_stream_is_resumed_after_its_service_died(gateway: Gateway, unbroken: str, count: int) -> None:
    """The caller gets the same bytes; the service is asked to resume after the last event."""
    script(gateway.service, dies_after(count), dies_after(0, STARTING), dies_after(99))
    assert await stream(gateway) == unbroken
    resume = gateway.service.requests[-1].resume
    assert (resume.stream, resume.position, resume.sequence_number) == (b"who", b"at%d" % (count - 1), count - 1)
    assert not resume.replay


async def test_stream_cancelled_by_a_drain_timeout_is_resumed(gateway: Gateway, unbroken: str) -> None:
    """A stream that the service admitted, but cancelled when its drain timed out, is resumed."""
    script(gateway.service, dies_after(3, DRAINING, cost=True), dies_after(0, DRAINING), dies_after(99))
    assert await stream(gateway) == unbroken


async def test_usage_before_a_failure_is_not_sent(gateway: Gateway, unbroken: str) -> None:
    """The usage of an interrupted stream is dropped, since the final usage follows."""
    script(gateway.service, dies_after(3, ENGINE_FAILED, cost=True), dies_after(99))
    assert await stream(gateway) == unbroken


async def test_stream_without_events_is_restarted(gateway: Gateway, unbroken: str) -> None:
    script(gateway.service, dies_after(0), dies_after(99))
    assert await stream(gateway) == unbroken
    assert not gateway.service.requests[-1].HasField("resume")


async def test_unstreamed_answer_is_restarted(gateway: Gateway) -> None:
    script(gateway.service, dies_after(0, ENGINE_FAILED), dies_after(0, STARTING), dies_after(99))
    answer = await gateway.chat()
    assert answer.status_code == 200
    assert len(gateway.service.requests) == 3


@pytest.mark.parametrize("status", [STARTING, DRAINING, REFUSED])
async def test_rejected_request_is_not_retried(gateway: Gateway, status: fakes.Status) -> None:
    """A rejected request is not retried, since no admitted answer was lost."""
    script(gateway.service, dies_after(0, status))
    assert (await gateway.chat(stream=True)).status_code in {400, 503}
    assert len(gateway.service.requests) == 1


async def test_stream_that_cannot_be_resumed_ends_with_the_original_error(gateway: Gateway) -> None:
    """A stream that can't be resumed ends with the error that interrupted it, not with the rejection."""
    script(gateway.service, dies_after(2), dies_after(0, REFUSED))
    text = (await gateway.chat(stream=True)).text
    assert "the service is not available" in text
    assert "another request" not in text


async def test_request_that_crashes_five_services_fails(gateway: Gateway) -> None:
    """After five crashes the answer ends with an error, however short each attempt was."""
    script(gateway.service, dies_after(1))
    text = (await gateway.chat(stream=True)).text
    assert "the service is not available" in text
    assert len(gateway.service.requests) == 5


async def test_stream_without_positions_is_not_retried(gateway: Gateway) -> None:
    """A stream without positions is not retried, since another attempt would produce another answer."""

    async def tell(request: chat_pb2.ChatRequest) -> AsyncIterator[chat_pb2.StreamChatResponse]:
        for event in events()[:3]:
            event.ClearField("stream")
            event.ClearField("position")
            yield event
        raise LOST

    script(gateway.service, tell)
    assert "the service is not available" in (await gateway.chat(stream=True)).text
    assert len(gateway.service.requests) == 1


async def test_events_are_sent_once_if_the_replay_is_interrupted(gateway: Gateway, unbroken: str) -> None:
    """Replayed events are sent once, even if the replay is interrupted."""
    ids = [line[4:] for line in unbroken.split("\n") if line.startswith("id: ")]

    def again(count: int) -> Try:
        async def tell(request: chat_pb2.ChatRequest) -> AsyncIterator[chat_pb2.StreamChatResponse]:
            assert request.resume.replay
            replayed = events()
            merged = chat_pb2.StreamChatResponse(content_delta=chat_pb2.ContentDelta(text="abc"), sequence_number=1)
            for event in [replayed[0], merged, *replayed[4:]][:count]:
                yield event
            if count < 9:
                raise LOST

        return tell

    script(gateway.service, again(2), again(1), again(9))
    answer = await gateway.http.post(
        "/v1/chat/completions",
        json=chat_body(stream=True, stream_options={"include_usage": True}),
        headers={"last-event-id": ids[3]},
    )
    rest = unbroken.split("\n\n")
    assert answer.text == "\n\n".join(rest[4:])


@pytest.mark.parametrize("flags", [["--resume-timeout-s", "0"]])
async def test_no_retry_after_the_deadline(gateway: Gateway, flags: list[str]) -> None:
    script(gateway.service, dies_after(2))
    assert "the service is not available" in (await gateway.chat(stream=True)).text
    assert len(gateway.service.requests) == 1


@pytest.mark.slow
async def test_client_disconnect_ends_the_retries(gateway: Gateway) -> None:
    """A caller that disconnects ends the retries while the service is unavailable."""
    script(gateway.service, dies_after(2), dies_after(0, STARTING))
    async with gateway.http.stream("POST", "/v1/chat/completions", json=chat_body(stream=True)):
        await until(lambda: len(gateway.service.requests) > 1)
    await until(lambda: any(span.kind is SpanKind.SERVER for span in gateway.spans.get_finished_spans()))
    count = -1
    async with asyncio.timeout(GUARD_S):
        while count != len(gateway.service.requests):  # one more may have been on its way
            count = len(gateway.service.requests)
            await asyncio.sleep(1.2)  # longer than the longest pause between two tries

"""The spans of a call: their hierarchy and their statuses."""

import asyncio
import logging
from typing import Any

import pytest
from grpc_health.v1 import health_pb2
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from service.generation.errors import EngineClosed
from tests.engine.fakes import until
from tests.service.deadlines import rejection_at_deadline
from tests.service.fakes import ENDLESS, MODEL, ScriptedRunner, rejection_of, request, running

TRACE_ID, CALLER_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = (("traceparent", f"00-{TRACE_ID}-{CALLER_ID}-01"),)
STREAM, WHOLE, CHAT = "sluice.v1.ChatService/StreamChat", "sluice.v1.ChatService/Chat", f"chat {MODEL}"


def parent(span: ReadableSpan) -> str:
    assert span.parent is not None
    return format_span_id(span.parent.span_id)


def own_id(span: ReadableSpan) -> str:
    assert span.context is not None
    return format_span_id(span.context.span_id)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_spans_of_a_stream_are_one_trace() -> None:
    """Client → server span → chat → queue, prefill and decode are one trace, and the stages are consecutive."""
    async with running() as run:
        async for _ in run.chat.StreamChat(request(), metadata=TRACEPARENT):
            pass
        spans = await run.ended_spans(5)
    assert set(spans) == {STREAM, CHAT, "queue", "prefill", "decode"}
    assert {format_trace_id(span.context.trace_id) for span in spans.values() if span.context} == {TRACE_ID}
    assert parent(spans[STREAM]) == CALLER_ID
    assert parent(spans[CHAT]) == own_id(spans[STREAM])
    assert {parent(spans[name]) for name in ("queue", "prefill", "decode")} == {own_id(spans[CHAT])}
    assert spans[STREAM].kind is SpanKind.SERVER
    assert spans[CHAT].kind is SpanKind.INTERNAL
    assert spans["queue"].end_time == spans["prefill"].start_time
    assert spans["prefill"].end_time == spans["decode"].start_time
    chat = spans[CHAT]
    assert chat.start_time is not None
    assert chat.end_time is not None
    for name in ("queue", "prefill", "decode"):
        began, ended = spans[name].start_time, spans[name].end_time
        assert began is not None
        assert ended is not None
        assert chat.start_time <= began <= ended <= chat.end_time


async def test_server_span_of_a_successful_call() -> None:
    """The attributes of the server span follow the conventions, and its status is not an error."""
    async with running() as run:
        await run.chat.Chat(request(), metadata=(("x-request-id", "request-7"),))
        span = (await run.ended_spans(5))[WHOLE]
    assert attributes(span) == {
        "rpc.system.name": "grpc",
        "rpc.method": WHOLE,
        "rpc.response.status_code": "OK",
        "sluice.request_id": "request-7",
    }
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(
    ("error", "code"), [(ValueError("secret"), "INTERNAL"), (EngineClosed("secret"), "UNAVAILABLE")]
)
async def test_server_span_of_a_failed_call(error: Exception, code: str) -> None:
    """The span has the status that the client receives, also for an exception, but not the exception's text."""
    async with running() as run:
        run.preparation.fail_with = error
        await rejection_of(run.chat.StreamChat(request()))
        spans = await run.ended_spans(2)
    assert attributes(spans[STREAM])["rpc.response.status_code"] == code
    assert spans[STREAM].status.status_code is StatusCode.ERROR
    assert attributes(spans[CHAT])["error.type"] == type(error).__name__
    assert spans[CHAT].status.status_code is StatusCode.ERROR
    assert "secret" not in "".join(span.to_json() for span in spans.values())


async def test_server_span_of_a_rejected_call_is_not_an_error() -> None:
    """A client's mistake is not an error of the server."""
    async with running() as run:
        await rejection_of(run.chat.Chat(request(model="nobody")))
        span = (await run.ended_spans(1))[WHOLE]
    assert attributes(span)["rpc.response.status_code"] == "NOT_FOUND"
    assert span.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("method", [STREAM, WHOLE])
async def test_spans_of_a_cancelled_call_are_ended_and_marked(method: str) -> None:
    """Both spans of a cancelled call end, are marked as cancelled, and are not errors."""
    runner = ScriptedRunner("on and ", end=False)
    async with running(runner, engine=ENDLESS) as run:
        # Steps take some time, as with a real model; otherwise the event loop would get no turn.
        runner.delay_s = 0.002
        call = getattr(run.chat, method.partition("/")[2])(request(), metadata=TRACEPARENT)
        reading = asyncio.create_task(_wait(call))
        await until(lambda: run.engine.stats().num_generated_tokens > 0)
        call.cancel()
        spans = await run.ended_spans(2)
        await asyncio.gather(reading, return_exceptions=True)
    assert parent(spans[method]) == CALLER_ID
    assert attributes(spans[method])["rpc.response.status_code"] == "CANCELLED"
    assert attributes(spans[CHAT])["error.type"] == "Cancelled"
    assert "gen_ai.usage.output_tokens" in attributes(spans[CHAT])
    assert {span.status.status_code for span in spans.values()} == {StatusCode.UNSET}


async def test_spans_of_a_call_cancelled_before_its_first_message(caplog: pytest.LogCaptureFixture) -> None:
    """A call whose client disconnects after the preparation is cancelled and no server error."""
    async with running(ScriptedRunner("on and ", end=False), engine=ENDLESS) as run:
        call = run.chat.StreamChat(request())
        run.preparation.after_preparing = call.cancel
        reading = asyncio.create_task(_wait(call))
        spans = await run.ended_spans(2)
        await asyncio.gather(reading, return_exceptions=True)
    assert attributes(spans[STREAM])["rpc.response.status_code"] == "CANCELLED"
    assert attributes(spans[CHAT])["error.type"] == "Cancelled"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_span_of_a_call_that_fails_after_its_cancellation() -> None:
    """An error after the client has disconnected leaves the call cancelled."""
    async with running() as run:
        run.preparation.fail_after_leaving = EngineClosed("too late to report")
        call = run.chat.Chat(request())
        await until(run.preparation.entered.is_set)
        call.cancel()
        spans = await run.ended_spans(2)
    assert attributes(spans[WHOLE])["rpc.response.status_code"] == "CANCELLED"


async def test_spans_of_an_expired_call_have_deadline_exceeded() -> None:
    """A call that its deadline ended is distinguished from one that its client cancelled."""
    async with running(ScriptedRunner("on and ", end=False), engine=ENDLESS) as run:

        def call(left_s: float) -> Any:
            run.spans.clear()
            return run.chat.StreamChat(request(), timeout=left_s)

        await rejection_at_deadline(call, run.runner.entered.is_set)
        spans = await run.ended_spans(2)
    assert attributes(spans[STREAM])["rpc.response.status_code"] == "DEADLINE_EXCEEDED"
    assert attributes(spans[CHAT])["error.type"] == "DeadlineExceeded"
    assert spans[STREAM].status.status_code is StatusCode.ERROR


async def test_health_checks_make_no_spans() -> None:
    """Health checks are too frequent to be traced."""
    async with running() as run:
        await run.health.Check(health_pb2.HealthCheckRequest())
        await run.chat.Chat(request())
        assert "grpc.health.v1.Health/Check" not in await run.ended_spans(5)


async def _wait(call: Any) -> None:
    if hasattr(call, "read"):
        async for _ in call:
            pass
    else:
        await call

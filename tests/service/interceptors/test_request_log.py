"""The identity of a call and its line in the log."""

import json
import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest
from opentelemetry.trace import format_trace_id
from sluice.v1 import load_pb2, model_pb2

from process.logs.logs import JsonFormatter
from service.interceptors.request_log import waited_s
from service.observability.logs import call_context
from tests.service.fakes import MODEL, rejection_of, request, running

STREAM = "sluice.v1.ChatService/StreamChat"


@pytest.fixture
def lines() -> Iterator[list[dict[str, object]]]:
    """Collect the lines of the log as objects, in order."""
    written: list[dict[str, object]] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.append(json.loads(JsonFormatter(call_context).format(record)))

    keeper, root = Keeper(), logging.getLogger()
    before = root.level
    root.addHandler(keeper)
    root.setLevel(logging.INFO)
    yield written
    root.removeHandler(keeper)
    root.setLevel(before)


async def test_log_line_has_the_outcome_of_a_call(lines: list[dict[str, object]]) -> None:
    """Each call has one log line with ids, method, status, time, model and tokens, but without any content."""
    async with running() as run:
        async for _ in run.chat.StreamChat(request("tulip"), metadata=(("x-request-id", "request-7"),)):
            pass
        span = (await run.ended_spans(5))[STREAM]
    (line,) = [line for line in lines if line["logger"] == "sluice.access"]
    assert span.context is not None
    assert line["trace_id"] == format_trace_id(span.context.trace_id)
    assert line["request_id"] == "request-7"
    assert (line["method"], line["status"], line["model"]) == (STREAM, "OK", MODEL)
    assert (line["prompt_tokens"], line["completion_tokens"]) == (len("tulip"), len("hello") + 1)
    assert isinstance(line["duration_s"], float)
    assert "tulip" not in json.dumps(lines)
    assert "hello" not in json.dumps(lines)


@pytest.mark.parametrize(
    ("timeout", "remaining_s", "waited"),
    [
        ("600S", 597.5, 2.5),
        ("1500m", 1.25, 0.25),
        ("1H", 3600.0, 0.0),
        ("10S", 10.5, 0.0),  # rounded in transit
        ("10S", None, None),
        (None, 10.0, None),
        ("soon", 10.0, None),
        ("-10S", 10.0, None),
        ("123456789S", 10.0, None),
    ],
)
def test_wait_is_the_timeout_minus_the_remaining_time(
    timeout: str | None, remaining_s: float | None, waited: float | None
) -> None:
    """The wait is the timeout minus the remaining time; None if one is missing or the timeout is malformed."""

    class Context:
        def time_remaining(self) -> float | None:
            return remaining_s

        def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
            return (("x-sluice-timeout", timeout),) if timeout is not None else ()

    assert waited_s(cast("Any", Context())) == waited


async def test_successful_load_polls_are_not_logged(lines: list[dict[str, object]]) -> None:
    """Successful calls of GetLoad are not logged."""
    async with running() as run:
        await run.models.GetLoad(load_pb2.GetLoadRequest())
        await run.models.ListModels(model_pb2.ListModelsRequest())
    assert [line["method"] for line in lines if line["logger"] == "sluice.access"] == [
        "sluice.v1.ModelService/ListModels"
    ]


async def test_unexpected_exception_is_logged_with_its_traceback(lines: list[dict[str, object]]) -> None:
    """An unexpected exception is logged with its traceback and the request id that the client got."""
    async with running() as run:
        run.preparation.fail_with = ValueError("inner")
        rejection = await rejection_of(run.chat.Chat(request()))
    (line,) = [line for line in lines if line["level"] == "error"]
    assert "ValueError: inner" in str(line["exception"])
    assert line["request_id"] == rejection.request_id
    (access,) = [line for line in lines if line["logger"] == "sluice.access"]
    assert access["status"] == "INTERNAL"


@pytest.mark.parametrize("good", ["request-7", "00-ab.c/d+e=", "x" * 128])
async def test_request_id_is_returned_in_the_initial_metadata(good: str) -> None:
    """The client's request id is in the initial metadata of successful calls, streamed or not."""
    async with running() as run:
        metadata = (("x-request-id", good),)
        whole = run.chat.Chat(request(), metadata=metadata)
        await whole
        stream = run.chat.StreamChat(request(), metadata=metadata)
        assert [event async for event in stream]
        for call in (whole, stream):
            assert dict(await call.initial_metadata())["x-request-id"] == good


@pytest.mark.parametrize("bad", ["", "x" * 129, "two words", 'quo"te'])
async def test_malformed_request_id_is_replaced(bad: str) -> None:
    """An id that could break a log or a header is replaced by a new one; a call without an id gets one."""
    async with running() as run:
        call = run.chat.Chat(request(), metadata=(("x-request-id", bad),))
        await call
        made = dict(await call.initial_metadata())["x-request-id"]
    assert len(made) == 32
    assert made != bad


async def test_rejected_call_has_trailers_only() -> None:
    """Proxies read its status from the headers, to decide on retries; the request id is there, too."""
    async with running() as run:
        call = run.chat.StreamChat(request(model="nobody"))
        rejection = await rejection_of(call)
        assert not dict(await call.initial_metadata())
    assert rejection.request_id

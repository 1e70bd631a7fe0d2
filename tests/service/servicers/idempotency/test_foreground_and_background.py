"""One id for a response and for one in the background: these are two requests, of which the later one is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.service.background.background_calls import COMPLETED, create, ended, get, in_background, storing
from tests.service.fakes import Running, ScriptedRunner, rejection_of, rest_of, running
from tests.service.servicers.idempotency.test_idempotent_forms import ID, num_generated
from tests.service.servicers.responses.test_response import message_item, response_request, stub_of


def in_foreground(**fields: Any) -> Any:
    return response_request(input=[message_item("hi")], serving=ID, **fields)


def begun(run: Running, request: Any, *, stream: bool) -> Any:
    return stub_of(run).StreamResponse(request) if stream else stub_of(run).CreateResponse(request)


async def assert_rejected(call: Any) -> None:
    rejection = await rejection_of(call)
    assert [field for field, _ in rejection.fields] == ["serving.request_id"]
    assert "is the id of another request" in rejection.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
async def test_foreground_after_background(tmp_path: Path, *, stream: bool, store: bool, restarts: bool) -> None:
    """Nothing more is generated, also after a restart of the service; the first response stays."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        first = await create(run, input=[message_item("hi")], serving=ID)
        ending = await ended(run, first.id)
        if not restarts:
            await assert_rejected(begun(run, in_foreground(store=store), stream=stream))
            assert num_generated(run) == 1
            assert await get(run, first.id) == ending
            return
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        await assert_rejected(begun(run, in_foreground(store=store), stream=stream))
        assert num_generated(run) == 0
        assert await get(run, first.id) == ending


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("store", [False, True])
async def test_background_after_foreground(tmp_path: Path, *, stream: bool, store: bool) -> None:
    """It is rejected while the first call runs, and later."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path)) as run:
        background = in_background(input=[message_item("hi")], serving=ID)
        with runner.paused(after=1):
            first = stub_of(run).StreamResponse(in_foreground(store=store))
            await first.read()
            await assert_rejected(begun(run, background, stream=stream))
        events: list[Any] = [event async for event in rest_of(first)]
        assert events[-1].completed.response.status == COMPLETED
        await assert_rejected(begun(run, background, stream=stream))
        assert num_generated(run) == 1


async def test_background_after_a_stored_response_of_an_earlier_process(tmp_path: Path) -> None:
    """The stored response stays as it is."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        first = (await stub_of(run).CreateResponse(in_foreground(store=True))).response
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        await assert_rejected(begun(run, in_background(input=[message_item("hi")], serving=ID), stream=False))
        assert await get(run, first.id) == first


async def test_failed_call_leaves_its_id(tmp_path: Path) -> None:
    """The id of a call that was rejected can be that of one in the background, and the other way round."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        other = {"requestId": "r2"}
        for first, second in (
            (in_foreground(model="unknown"), in_background(serving=ID)),
            (in_background(model="unknown", serving=other), response_request(serving=other)),
        ):
            assert (await rejection_of(stub_of(run).CreateResponse(first))).info.reason == "MODEL_NOT_FOUND"
            await stub_of(run).CreateResponse(second)

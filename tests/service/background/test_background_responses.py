"""Responses in the background on a real server: queued, followed, cancelled, and continued by another service."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import error_pb2, response_event_pb2, response_item_pb2, stored_response_pb2

from tests.engine.fakes import until
from tests.service.auth.key_files import write
from tests.service.fakes import ENDLESS, Running, ScriptedRunner, rejection_of, running
from tests.service.servicers.test_response import message_item, response_request, stub_of
from tests.waiting import GUARD_S

Code = grpc.StatusCode
Event = response_event_pb2.StreamResponseResponse
Response = response_item_pb2.Response
QUEUED = response_item_pb2.RESPONSE_STATUS_QUEUED
IN_PROGRESS = response_item_pb2.RESPONSE_STATUS_IN_PROGRESS
COMPLETED = response_item_pb2.RESPONSE_STATUS_COMPLETED
FAILED = response_item_pb2.RESPONSE_STATUS_FAILED
CANCELLED = response_item_pb2.RESPONSE_STATUS_CANCELLED


def storing(folder: Path, **settings: Any) -> dict[str, Any]:
    """Return settings of a service that stores responses in a folder, and takes over jobs quickly."""
    chosen = {"file": folder / "responses.sqlite3", "timeout_s": GUARD_S, "lease_s": 0.3, **settings}
    return {"stored_responses": chosen}


def in_background(**fields: Any) -> Any:
    return response_request(**{"store": True, "background": True, **fields})


async def get(run: Running, response_id: str) -> Response:
    found = await stub_of(run).GetResponse(stored_response_pb2.GetResponseRequest(id=response_id))
    response: Response = found.response
    return response


async def ended(run: Running, response_id: str) -> Response:
    """Return a response as soon as it has ended."""
    async with asyncio.timeout(GUARD_S):
        while (response := await get(run, response_id)).status in {QUEUED, IN_PROGRESS}:  # noqa: ASYNC110  as clients do
            await asyncio.sleep(0.01)  # a client polls
    return response


async def follow(run: Running, response_id: str, after: int | None = None) -> list[Event]:
    request = stored_response_pb2.FollowResponseRequest(id=response_id, starting_after=after)
    return [event async for event in stub_of(run).FollowResponse(request)]


async def create(run: Running, **fields: Any) -> Response:
    response: Response = (await stub_of(run).CreateResponse(in_background(**fields))).response
    return response


async def cancel(run: Running, response_id: str) -> Response:
    answer = await stub_of(run).CancelResponse(stored_response_pb2.CancelResponseRequest(id=response_id))
    response: Response = answer.response
    return response


def text_of(response: Response) -> str:
    return response.output[0].message.content[0].text


def kinds_of(events: list[Event]) -> list[str]:
    return [event.WhichOneof("event") or "" for event in events]


def comparable(events: list[Event]) -> list[str]:
    """Return events without what two answers to one request differ in: ids, times, and tokens found in the cache."""
    texts = []
    for event in events:
        response_id = events[0].created.response.id
        text = re.sub(r"\s*((created|completed) \{(\s+(seconds|nanos): \d+)+\s+\}|cached_tokens: \d+)", "", str(event))
        texts.append(text.replace(response_id, "ID"))
    return texts


async def test_response_is_queued_then_completed(tmp_path: Path) -> None:
    """The call returns the queued response; later it is in progress, then complete, with the same id."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path)) as run:
        with runner.paused():
            created = await create(run, clientData="e30=", metadata={"a": "b"})
            assert (created.status, created.background, created.stored) == (QUEUED, True, True)
            assert (dict(created.metadata), created.sampling.seed) == ({"a": "b"}, 1)
        done = await ended(run, created.id)
    assert (done.status, done.id, text_of(done)) == (COMPLETED, created.id, "hello")
    assert (done.created, done.sampling) == (created.created, created.sampling)
    assert done.HasField("completed")


async def test_every_stream_has_the_same_events(tmp_path: Path) -> None:
    """The stream at the creation, one of the running response, and one after its end are equal, from any event on."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path)) as run:
        with runner.paused(after=1):
            call = stub_of(run).StreamResponse(in_background(clientData="e30="))
            first = await call.read()
            late = asyncio.create_task(follow(run, first.created.response.id, 1))
        events = [first, *[event async for event in _rest(call)]]
        assert kinds_of(events[:3]) == ["created", "queued", "in_progress"]
        assert kinds_of(events)[-1] == "completed"
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert "".join(event.output_text_delta.delta for event in events) == "hello"
        assert events[0].client_data == b"{}"
        events[0].client_data = b""
        for after, found in [(1, await late), (None, await follow(run, first.created.response.id))]:
            assert found[0].client_data == b"{}"
            found[0].client_data = b""
            assert found == events[0 if after is None else after + 1 :]
        for after in (len(events) - 2, len(events) - 1):
            assert kinds_of(await follow(run, first.created.response.id, after)) == ["completed"]


async def _rest(call: Any) -> Any:
    while (event := await call.read()) is not grpc.aio.EOF:
        yield event


async def test_leaving_a_stream_does_not_stop_the_response(tmp_path: Path) -> None:
    """A client that disconnects finds the complete response later."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path)) as run:
        with runner.paused(after=1):
            call = stub_of(run).StreamResponse(in_background())
            first = await call.read()
            call.cancel()
        assert text_of(await ended(run, first.created.response.id)) == "hello"


async def test_stopped_service_leaves_the_rest_to_the_next_one(tmp_path: Path) -> None:
    """A response that a service has begun is completed by the next one, with the same events and the same numbers."""
    runner = ScriptedRunner("a long answer")
    async with running(runner, **storing(tmp_path)) as run:
        created = await create(run)
        expected = await follow(run, created.id)
    runner = ScriptedRunner("a long answer")
    async with running(runner, **storing(tmp_path)) as run:
        with runner.paused(after=3):
            call = stub_of(run).StreamResponse(in_background())
            received = [await call.read() for _ in range(6)]
            call.cancel()
            await run.server.drain(0)
    interrupted = received[0].created.response
    async with running(ScriptedRunner("a long answer"), **storing(tmp_path)) as run:
        rest = await follow(run, interrupted.id, received[-1].sequence_number)
    assert comparable([*received, *rest]) == comparable(expected)


async def test_two_services_complete_each_response_once(tmp_path: Path) -> None:
    """Two services on one file share the responses: each is generated by one of them, and both can read it."""
    one, two = ScriptedRunner("hello"), ScriptedRunner("hello")
    async with running(one, **storing(tmp_path)) as first, running(two, **storing(tmp_path)) as second:
        created = [await create(run) for _ in range(3) for run in (first, second)]
        done = [await ended(first, each.id) for each in created]
        assert done == [await ended(second, each.id) for each in created]
        assert await follow(first, created[0].id) == await follow(second, created[0].id)
    assert {each.status for each in done} == {COMPLETED}
    assert one.num_steps + two.num_steps <= len(created) * (len("hello") + 1)


async def test_cancelled_response_stays_cancelled(tmp_path: Path) -> None:
    """Cancelling stops the generation and ends the streams; a second time changes nothing; a complete one stays so."""
    runner = ScriptedRunner("hello", end=False)
    async with running(runner, engine=ENDLESS, **storing(tmp_path)) as run:
        call = stub_of(run).StreamResponse(in_background())
        received = [await call.read() for _ in range(8)]
        response_id = received[0].created.response.id
        stopped = await cancel(run, response_id)
        events = [*received, *[event async for event in _rest(call)]]
        assert stopped.status == CANCELLED
        assert kinds_of(events)[-1] == "cancelled"
        await run.until_idle()
        assert await cancel(run, response_id) == await get(run, response_id) == stopped
        assert kinds_of(await follow(run, response_id)) == kinds_of(events)
        rejection = await rejection_of(stub_of(run).CreateResponse(response_request(previousResponseId=response_id)))
        assert [field for field, _ in rejection.fields] == ["previous_response_id"]


async def test_deleted_response_is_not_generated(tmp_path: Path) -> None:
    """Deleting a running response stops it and leaves nothing."""
    runner = ScriptedRunner("hello", end=False)
    async with running(runner, engine=ENDLESS, **storing(tmp_path)) as run:
        created = await create(run)
        await stub_of(run).DeleteResponse(stored_response_pb2.DeleteResponseRequest(id=created.id))
        await run.until_idle()
        rejection = await rejection_of(
            stub_of(run).CancelResponse(stored_response_pb2.CancelResponseRequest(id=created.id))
        )
    assert rejection.info.reason == "RESPONSE_NOT_FOUND"
    assert not any(created.id.encode() in path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240  tiny files


async def test_response_survives_a_failed_engine(tmp_path: Path) -> None:
    """An error of the engine does not end the response; one of the request does, with its reason."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path)) as run:
        runner.fail_with = RuntimeError("broken")
        created = await create(run)
        await until(run.engine.failed.done)
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        assert text_of(await ended(run, created.id)) == "hello"


async def test_failed_response_has_the_reason(tmp_path: Path) -> None:
    """A response that would have other tokens than it began with, since the model has changed, ends with the reason."""
    async with running(ScriptedRunner("hello", end=False), engine=ENDLESS, **storing(tmp_path)) as run:
        created = await create(run)
        await run.server.drain(0)
    async with running(supports_resume=False, **storing(tmp_path)) as run:
        response = await ended(run, created.id)
        events = await follow(run, created.id)
    assert (response.status, response.error.reason) == (FAILED, error_pb2.ERROR_REASON_CANNOT_RESUME)
    assert kinds_of(events) == ["created", "queued", "failed"]


async def test_request_with_the_same_id_gets_the_same_response(tmp_path: Path) -> None:
    """A request that is sent again is not answered twice, and an id can't be used for another request."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path)) as run:
        named = {"serving": {"requestId": "r1"}}
        first = await create(run, **named)
        again = await create(run, **named)
        done = await ended(run, first.id)
        assert (again.id, await create(run, **named)) == (first.id, done)
        rejection = await rejection_of(stub_of(run).CreateResponse(in_background(input=[message_item("x")], **named)))
        assert [field for field, _ in rejection.fields] == ["serving.request_id"]
        assert (await create(run)).id != first.id


async def test_unfinished_responses_are_limited(tmp_path: Path) -> None:
    """A key has at most its number of unfinished responses; the rejection names the limit."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path, max_background_per_key=2)) as run:
        with runner.paused():
            created = [await create(run) for _ in range(2)]
            rejection = await rejection_of(stub_of(run).CreateResponse(in_background()))
            assert (rejection.code, rejection.info.metadata["limit"]) == (Code.RESOURCE_EXHAUSTED, "2")
            assert "the limit is 2" in rejection.text
        for each in created:
            await ended(run, each.id)
        assert (await create(run)).status == QUEUED
        outcomes = {
            each.labels["sluice_outcome"]: each.value
            for each in run.telemetry.samples()
            if each.name == "sluice_store_responses_total"
        }
    assert outcomes == {"stored": 3, "refused": 1}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"store": False}, "INVALID_FIELD"),
        ({"input": [message_item("long " * 100)]}, "PROMPT_TOO_LONG"),
        ({"model": "unknown"}, "MODEL_NOT_FOUND"),
        ({"previousResponseId": "1"}, "RESPONSE_NOT_FOUND"),
    ],
)
async def test_invalid_request_is_rejected_immediately(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    """A request that would be rejected in the foreground is not queued."""
    async with running(**storing(tmp_path)) as run:
        rejection = await rejection_of(stub_of(run).CreateResponse(in_background(**fields)))
    assert rejection.info.reason == reason


async def test_model_without_reproducible_tokens_is_rejected(tmp_path: Path) -> None:
    """A response that could not be generated again is not accepted."""
    async with running(supports_resume=False, **storing(tmp_path)) as run:
        rejection = await rejection_of(stub_of(run).CreateResponse(in_background()))
    assert (rejection.code, rejection.info.reason) == (Code.INVALID_ARGUMENT, "UNSUPPORTED_FEATURE")


async def test_responses_of_the_foreground_are_not_followed(tmp_path: Path) -> None:
    """A stored response that was not created in the background has no events, and can't be cancelled."""
    async with running(**storing(tmp_path)) as run:
        created = await create(run, background=False)
        for call in (
            stub_of(run).FollowResponse(stored_response_pb2.FollowResponseRequest(id=created.id)),
            stub_of(run).CancelResponse(stored_response_pb2.CancelResponseRequest(id=created.id)),
        ):
            rejection = await rejection_of(call)
            assert (rejection.code, [field for field, _ in rejection.fields]) == (Code.INVALID_ARGUMENT, ["id"])


async def test_another_key_finds_no_response(tmp_path: Path) -> None:
    """Another key neither follows nor cancels a response."""
    keys = write(tmp_path / "keys.yaml", a={}, b={})
    settings = storing(tmp_path) | {"auth": {"keys_file": tmp_path / "keys.yaml"}}
    calls = {key: {"metadata": (("authorization", f"Bearer {secret}"),)} for key, secret in keys.items()}
    async with running(**settings) as run:
        created = (await stub_of(run).CreateResponse(in_background(), **calls["a"])).response
        for call in (
            stub_of(run).FollowResponse(stored_response_pb2.FollowResponseRequest(id=created.id), **calls["b"]),
            stub_of(run).CancelResponse(stored_response_pb2.CancelResponseRequest(id=created.id), **calls["b"]),
        ):
            assert (await rejection_of(call)).info.reason == "RESPONSE_NOT_FOUND"
        request = stored_response_pb2.FollowResponseRequest(id=created.id)
        *_, last = [event async for event in stub_of(run).FollowResponse(request, **calls["a"])]
    assert text_of(last.completed.response) == "hello"

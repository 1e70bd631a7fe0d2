"""Stored responses on a real server: kept, continued, listed and deleted, each key's own; and a store that fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import response_item_pb2, response_pb2, stored_response_pb2

from service.contract.responses.stored_response import to_record
from tests.service.auth.key_files import write
from tests.service.fakes import Rejection, Running, ScriptedRunner, rejection_of, running
from tests.service.servicers.responses.test_response import message_item, response_request, stub_of
from tests.waiting import GUARD_S

Code = grpc.StatusCode
Response = response_item_pb2.Response


def storing(folder: Path, **settings: Any) -> dict[str, Any]:
    """Return settings of a service that stores responses in a folder."""
    return {"stored_responses": {"file": folder / "responses.sqlite3", "timeout_s": GUARD_S, **settings}}


def by(key: str) -> dict[str, Any]:
    return {"metadata": (("authorization", f"Bearer {key}"),)}


async def create(run: Running, *, stream: bool = False, call: Any = None, **fields: Any) -> Response:
    """Return a response that is to be stored."""
    request = response_request(**{"store": True, **fields})
    if not stream:
        whole: Response = (await stub_of(run).CreateResponse(request, **call or {})).response
        return whole
    *_, last = [event async for event in stub_of(run).StreamResponse(request, **call or {})]
    ended: Response = getattr(last, last.WhichOneof("event")).response
    return ended


async def get(run: Running, response_id: str) -> stored_response_pb2.GetResponseResponse:
    found: stored_response_pb2.GetResponseResponse = await stub_of(run).GetResponse(
        stored_response_pb2.GetResponseRequest(id=response_id)
    )
    return found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("limit", [None, 2])
async def test_retrieved_response_equals_the_created_one(tmp_path: Path, *, stream: bool, limit: int | None) -> None:
    """A stored response equals the answer to its client, streamed or not, complete or cut off, also after a restart."""
    fields: dict[str, Any] = {"clientData": "e30=", "metadata": {"a": "b"}}
    if limit is not None:
        fields["maxOutputTokens"] = limit
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        created = await create(run, stream=stream, **fields)
    assert created.stored
    async with running(**storing(tmp_path)) as run:
        found = await get(run, created.id)
    assert (found.response, found.client_data) == (created, b"{}")


async def test_unstored_and_failed_requests_leave_no_data(tmp_path: Path) -> None:
    """Neither a request without `store`, nor one that fails, leaves anything in the store's files."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path)) as run:
        created = await create(run, store=False, input=[message_item("secret-1")])
        runner.fail_with = RuntimeError("broken")
        await rejection_of(stub_of(run).StreamResponse(response_request(store=True, input=[message_item("secret-2")])))
        rejection = await rejection_of(stub_of(run).GetResponse(stored_response_pb2.GetResponseRequest(id=created.id)))
    assert not created.stored
    assert (rejection.code, rejection.info.reason) == (Code.NOT_FOUND, "RESPONSE_NOT_FOUND")
    assert not any(b"secret" in path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240  tiny files


async def test_a_response_continues_others(tmp_path: Path) -> None:
    """Input and output of the chain precede the new input; instructions don't."""
    async with running(ScriptedRunner("one", "two"), **storing(tmp_path)) as run:
        first = await create(run, input=[message_item("a")], instructions="Rule.")
        second = await create(run, stream=True, input=[message_item("b")], previousResponseId=first.id)
        request = response_request(input=[message_item("c")], previousResponseId=second.id, instructions="New.")
        third = (await stub_of(run).CreateResponse(request)).response
    assert (second.previous_response_id, third.previous_response_id) == (first.id, second.id)
    assert second.usage.prompt_tokens == len("a" + "one" + "b")
    assert third.usage.prompt_tokens == len("New." + "a" + "one" + "b" + "one" + "c")
    assert not third.stored


async def test_a_broken_chain_is_not_continued(tmp_path: Path) -> None:
    """If an earlier response was deleted, later ones remain, but can't be continued."""
    async with running(**storing(tmp_path)) as run:
        first = await create(run)
        second = await create(run, previousResponseId=first.id)
        await stub_of(run).DeleteResponse(stored_response_pb2.DeleteResponseRequest(id=first.id))
        assert (await get(run, second.id)).response == second
        rejection = await rejection_of(stub_of(run).CreateResponse(response_request(previousResponseId=second.id)))
    assert (rejection.code, rejection.info.reason) == (Code.NOT_FOUND, "RESPONSE_NOT_FOUND")
    assert [field for field, _ in rejection.fields] == ["previous_response_id"]
    assert "or one that it continues was deleted" in rejection.text


async def test_error_names_the_new_item_or_the_previous_response(tmp_path: Path) -> None:
    """An error of a new item has its index among the new ones; too many items are one of `previous_response_id`."""
    async with running(**storing(tmp_path)) as run:
        first = await create(run)
        late = await rejection_of(
            stub_of(run).CreateResponse(
                response_request(input=[message_item("x"), {"reference": {"id": "y"}}], previousResponseId=first.id)
            )
        )
        long = await rejection_of(
            stub_of(run).CreateResponse(response_request(input=[message_item("x")] * 4095, previousResponseId=first.id))
        )
    assert [field for field, _ in late.fields] == ["input[1].reference.id"]
    assert [field for field, _ in long.fields] == ["previous_response_id"]
    assert "the limit is 4096" in long.text


async def test_pages_contain_every_input_item_once(tmp_path: Path) -> None:
    """Pages in either order contain every item once, and each item has an id."""
    async with running(**storing(tmp_path)) as run:
        created = await create(run, input=[message_item(str(number)) for number in range(5)])

        async def page(**fields: Any) -> stored_response_pb2.ListInputItemsResponse:
            listed: stored_response_pb2.ListInputItemsResponse = await stub_of(run).ListInputItems(
                stored_response_pb2.ListInputItemsRequest(id=created.id, **fields)
            )
            return listed

        for descending in (False, True):
            found: list[stored_response_pb2.StoredInputItem] = []
            while True:
                got = await page(page_size=2, after=found[-1].id if found else "", descending=descending)
                found += got.items
                if not got.has_more:
                    break
            texts = [each.item.message.content[0].text for each in found]
            assert texts == sorted(["0", "1", "2", "3", "4"], reverse=descending)
        first = await page(page_size=3)
        second = await page(page_size=3, page_token=first.next_page_token)
        assert [each.item.message.content[0].text for each in (*first.items, *second.items)] == [*"01234"]
        assert second.next_page_token == ""
        assert len({each.id for each in found}) == 5
        assert len((await page()).items) == 5
        unknown = await rejection_of(page(after="msg_1"))
    assert [field for field, _ in unknown.fields] == ["after"]


def reading(stub: Any, response_id: str) -> list[Callable[[str], Any]]:
    """Return the calls that need a stored response."""
    return [
        lambda key: stub.GetResponse(stored_response_pb2.GetResponseRequest(id=response_id), **by(key)),
        lambda key: stub.ReplayResponse(stored_response_pb2.ReplayResponseRequest(id=response_id), **by(key)),
        lambda key: stub.ListInputItems(stored_response_pb2.ListInputItemsRequest(id=response_id), **by(key)),
        lambda key: stub.DeleteResponse(stored_response_pb2.DeleteResponseRequest(id=response_id), **by(key)),
        lambda key: stub.CreateResponse(response_request(previousResponseId=response_id), **by(key)),
        lambda key: stub.StreamResponse(response_request(previousResponseId=response_id), **by(key)),
    ]


async def test_another_keys_response_is_like_a_deleted_one(tmp_path: Path) -> None:
    """Every call with a foreign id fails with the same status and details as with a deleted one."""
    keys = write(tmp_path / "keys.yaml", a={}, b={})
    settings = storing(tmp_path) | {"auth": {"keys_file": tmp_path / "keys.yaml"}}

    def comparable(rejection: Rejection) -> tuple[Any, ...]:
        return rejection.code, rejection.text, rejection.info.reason, rejection.fields

    async with running(**settings) as run:
        stub = stub_of(run)
        created = await create(run, call=by(keys["a"]))
        foreign = [comparable(await rejection_of(call(keys["b"]))) for call in reading(stub, created.id)]
        await stub.GetResponse(stored_response_pb2.GetResponseRequest(id=created.id), **by(keys["a"]))
        await stub.DeleteResponse(stored_response_pb2.DeleteResponseRequest(id=created.id), **by(keys["a"]))
        deleted = [comparable(await rejection_of(call(keys["a"]))) for call in reading(stub, created.id)]
    assert foreign == deleted
    assert {code for code, *_ in foreign} == {Code.NOT_FOUND}
    assert not any(created.id.encode() in path.read_bytes() for path in tmp_path.iterdir())  # noqa: ASYNC240  tiny files


async def test_storing_without_a_file_is_rejected() -> None:
    """Without a file, requests that need the store are rejected with a reason, and no response is found."""
    async with running() as run:
        for fields, name in (({"store": True}, "store"), ({"previousResponseId": "1"}, "previous_response_id")):
            for call in (stub_of(run).CreateResponse, stub_of(run).StreamResponse):
                rejection = await rejection_of(call(response_request(**fields)))
                assert (rejection.code, rejection.info.reason) == (Code.FAILED_PRECONDITION, "STORING_OFF")
                assert [field for field, _ in rejection.fields] == [name]
        rejection = await rejection_of(stub_of(run).GetResponse(stored_response_pb2.GetResponseRequest(id="1")))
    assert (rejection.code, rejection.info.reason) == (Code.NOT_FOUND, "RESPONSE_NOT_FOUND")


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
async def test_a_store_that_hangs_delays_no_answer(tmp_path: Path, *, stream: bool) -> None:
    """The answer comes complete, with the reason why it isn't stored; a deletion is rejected as unavailable."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path, timeout_s=0.5)) as run:
        before = await create(run)
        writer = sqlite3.connect(tmp_path / "responses.sqlite3", isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")  # no other can write
        created = await create(run, stream=stream)
        assert created.output[0].message.content[0].text == "hello"
        assert (created.stored, created.store_error) == (False, "the store of responses is not available")
        deletion = stub_of(run).DeleteResponse(stored_response_pb2.DeleteResponseRequest(id=before.id))
        rejection = await rejection_of(deletion)
        assert (rejection.code, rejection.info.reason) == (Code.UNAVAILABLE, "STORE_UNAVAILABLE")
        writer.close()


async def test_a_response_above_a_limit_is_returned_without_being_stored(tmp_path: Path) -> None:
    """The reason names the limit."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path, max_bytes_per_key=10)) as run:
        created = await create(run)
    assert created.output[0].message.content[0].text == "hello"
    assert not created.stored
    assert "a key may store 10 (stored_responses.max_bytes_per_key)" in created.store_error


async def test_a_response_is_stored_only_after_its_start(tmp_path: Path) -> None:
    """The first event of a stream says that the response will be stored."""
    async with running(**storing(tmp_path)) as run:
        events = [event async for event in stub_of(run).StreamResponse(response_request(store=True))]
    assert events[0].created.response.stored


def test_record_has_no_resume_position() -> None:
    """The record of a response has no position of a broken stream."""
    request = response_pb2.CreateResponseRequest(client_data=b"x", resume={"stream": b"s"})
    record = to_record("a", request, Response(id="1"))
    assert record.request == b""
    assert record.client_data == b"x"

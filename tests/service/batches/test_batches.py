"""Batches on a real server: answered exactly once, cancelled, continued by another service, and limited."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import batch_pb2, completion_pb2, error_pb2, file_pb2, file_pb2_grpc, response_pb2

from tests.engine.fakes import until
from tests.service.auth.key_files import write
from tests.service.background.background_calls import storing
from tests.service.batches.batch_calls import (
    CANCELLED,
    COMPLETED,
    Line,
    chat_line,
    create,
    ended,
    get,
    messages,
    results,
    stub_of,
    text_of,
)
from tests.service.fakes import MODEL, Running, ScriptedRunner, rejection_of, request, running
from tests.service.observability.test_observation import samples
from tests.service.servicers.responses.test_response import response_request
from tests.waiting import GUARD_S

Code = grpc.StatusCode


def limited(folder: Path, **limits: int) -> dict[str, Any]:
    return {**storing(folder), "batches": limits}


async def test_each_request_has_its_answer_or_its_error(tmp_path: Path) -> None:
    """Requests of several kinds are answered, invalid ones have the errors of their calls, in the batch's order."""
    completion = completion_pb2.CompleteRequest(model=MODEL, prompts=[{"text": "hi"}])
    lines = [
        chat_line("chat"),
        chat_line("hot", sampling={"temperature": 9}),
        Line(custom_id="completion", completion=completion),
        chat_line("unknown", model="nobody"),
        Line(custom_id="response", response=response_request()),
        Line(custom_id="stored", response=response_request(store=True)),
        Line(custom_id="rejected", rejected={"reason": error_pb2.ERROR_REASON_INVALID_FIELD, "message": "no"}),
    ]
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        created = await create(run, lines, metadata={"a": "b"}, client_data=b"d")
        assert (created.num_requests, dict(created.description.metadata)) == (7, {"a": "b"})
        batch = await ended(run, created.id)
        assert (batch.status, batch.num_succeeded, batch.num_failed) == (COMPLETED, 3, 4)
        found = await results(run, batch.id)
        assert [(each.index, each.custom_id) for each in found] == [(i, line.custom_id) for i, line in enumerate(lines)]
        assert (text_of(found[0]), found[0].client_data) == ("hello", b"chat")
        assert found[2].completion.choices[0].text == "hello"
        assert found[4].response.response.output[0].message.content[0].text == "hello"
        errors = {each.custom_id: (each.error.reason, each.error.field) for each in found if each.HasField("error")}
        assert errors == {
            "hot": (error_pb2.ERROR_REASON_INVALID_FIELD, "sampling.temperature"),
            "unknown": (error_pb2.ERROR_REASON_MODEL_NOT_FOUND, ""),
            "stored": (error_pb2.ERROR_REASON_INVALID_FIELD, "store"),
            "rejected": (error_pb2.ERROR_REASON_INVALID_FIELD, ""),
        }
        failed = await results(run, batch.id, file_pb2.BATCH_OUTCOME_FAILED)
        assert [each.custom_id for each in failed] == ["hot", "unknown", "stored", "rejected"]
        assert len(await results(run, batch.id, file_pb2.BATCH_OUTCOME_SUCCEEDED)) == 3


async def test_batch_of_the_same_request_id_is_created_once(tmp_path: Path) -> None:
    """A repeated call returns the existing batch; other content under its id is rejected."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        first = await create(run, [chat_line("a"), chat_line("b")], request_id="r1")
        again = await create(run, [chat_line("a"), chat_line("b")], request_id="r1")
        assert (again.id, again.created) == (first.id, first.created)
        call = stub_of(run).CreateBatch(iter(messages([chat_line("a"), chat_line("c")], request_id="r1")))
        assert (await rejection_of(call)).info.metadata["field"] == "description.request_id"
        listed = await stub_of(run).ListBatches(batch_pb2.ListBatchesRequest())
        assert [each.id for each in listed.batches] == [first.id]


async def test_cancelled_batch_keeps_the_results_so_far(tmp_path: Path) -> None:
    """Requests that run are stopped, those that wait never begin, and no result follows."""
    runner = ScriptedRunner("hello")
    async with running(runner, **limited(tmp_path, max_running=1)) as run:
        lines = [chat_line("bad", model="nobody"), *(chat_line(str(n)) for n in range(3))]
        with runner.paused():
            created = await create(run, lines)
            async with asyncio.timeout(GUARD_S):
                while (await get(run, created.id)).num_failed < 1:  # noqa: ASYNC110  as clients do
                    await asyncio.sleep(0.01)  # until the next one may run
            request = batch_pb2.CancelBatchRequest(id=created.id)
            cancelled = (await stub_of(run).CancelBatch(request)).batch
        assert (cancelled.status, cancelled.num_failed, cancelled.num_succeeded) == (CANCELLED, 1, 0)
        assert (await stub_of(run).CancelBatch(request)).batch == cancelled
        assert [each.custom_id for each in await results(run, created.id)] == ["bad"]
        assert (cancelled.output_file_id, cancelled.error_file_id) == ("", f"{created.id}-errors")


async def test_another_service_continues_a_batch(tmp_path: Path) -> None:
    """A service that stops releases its requests, and another one with the same file answers them."""
    stuck = ScriptedRunner("hello")
    async with running(stuck, **storing(tmp_path)) as run:
        with stuck.paused():
            created = await create(run, [chat_line(str(n)) for n in range(5)])
            async with running(ScriptedRunner("hello"), **storing(tmp_path)) as other:
                draining = asyncio.create_task(run.server.drain(0))
                assert (await ended(other, created.id)).num_succeeded == 5
                assert [text_of(each) for each in await results(other, created.id)] == ["hello"] * 5
        await draining


async def test_unknown_and_deleted_ids_are_alike(tmp_path: Path) -> None:
    """Every call about a deleted batch or file has the details of one that never existed."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        stub: Any = stub_of(run)
        files: Any = file_pb2_grpc.FileServiceStub(run.channel)
        batch = await ended(run, (await create(run, [chat_line("a")])).id)
        assert (await files.GetFile(file_pb2.GetFileRequest(id=batch.output_file_id))).file.batch_id == batch.id
        await stub.DeleteBatch(batch_pb2.DeleteBatchRequest(id=batch.id))
        calls: list[tuple[Any, Any]] = [
            (stub.GetBatch, batch_pb2.GetBatchRequest),
            (stub.CancelBatch, batch_pb2.CancelBatchRequest),
            (stub.DeleteBatch, batch_pb2.DeleteBatchRequest),
            (stub.StreamBatchResults, batch_pb2.StreamBatchResultsRequest),
        ]
        for call, kind in calls:
            deleted, unknown = [(await rejection_of(call(kind(id=name)))).error for name in (batch.id, "x")]
            assert (deleted.code(), deleted.details()) == (unknown.code(), unknown.details())
            assert deleted.code() is Code.NOT_FOUND
        calls = [
            (files.GetFile, file_pb2.GetFileRequest),
            (files.DeleteFile, file_pb2.DeleteFileRequest),
            (files.DownloadFile, file_pb2.DownloadFileRequest),
        ]
        for call, kind in calls:
            for name in (batch.output_file_id, "x"):
                rejection = await rejection_of(call(kind(id=name)))
                assert (rejection.code, rejection.info.reason) == (Code.NOT_FOUND, "FILE_NOT_FOUND")


async def upload(run: Running, content: bytes, parts: int = 1) -> file_pb2.File:
    """Return a new file with the content, sent in parts."""
    description = file_pb2.FileDescription(filename="a.jsonl", purpose=file_pb2.FILE_PURPOSE_BATCH)
    size = -(-len(content) // parts)
    sent = [file_pb2.UploadFileRequest(description=description)]
    sent += [file_pb2.UploadFileRequest(content=content[at : at + size]) for at in range(0, len(content), size)]
    file: file_pb2.File = (await file_pb2_grpc.FileServiceStub(run.channel).UploadFile(iter(sent))).file
    return file


async def test_file_is_downloaded_as_it_was_uploaded(tmp_path: Path) -> None:
    """Content of more than one part is stored, listed by its purpose, and returned unchanged."""
    async with running(**storing(tmp_path)) as run:
        content = bytes(range(256)) * 10_000
        file = await upload(run, content, 3)
        assert (file.num_bytes, file.filename) == (len(content), "a.jsonl")
        stub = file_pb2_grpc.FileServiceStub(run.channel)
        pieces = [each.content async for each in stub.DownloadFile(file_pb2.DownloadFileRequest(id=file.id))]
        assert b"".join(pieces) == content
        for purpose, found in (("BATCH", [file.id]), ("BATCH_OUTPUT", []), ("UNSPECIFIED", [file.id])):
            listed = await stub.ListFiles(file_pb2.ListFilesRequest(purpose=f"FILE_PURPOSE_{purpose}"))
            assert [each.id for each in listed.files] == found


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ([chat_line("a"), chat_line("a")], "requests[1].custom_id"),
        ([chat_line("")], "requests[0].custom_id"),
        ([Line(custom_id="a")], "requests[0]"),
        ([], "requests"),
    ],
)
async def test_batch_that_is_none_is_rejected(tmp_path: Path, lines: list[Line], field: str) -> None:
    """Each line needs an id of its own and a request; a rejected batch is not stored."""
    async with running(**storing(tmp_path)) as run:
        rejection = await rejection_of(stub_of(run).CreateBatch(iter(messages(lines))))
        assert (rejection.code, rejection.info.metadata["field"]) == (Code.INVALID_ARGUMENT, field)
        assert not (await stub_of(run).ListBatches(batch_pb2.ListBatchesRequest())).batches


async def test_limits_are_named(tmp_path: Path) -> None:
    """What exceeds a limit is rejected with the limit in the text, and leaves nothing."""
    runner = ScriptedRunner("hello")
    limits = {"max_requests": 2, "max_batches_per_key": 1, "max_files_per_key": 1, "max_file_bytes": 1000}
    async with running(runner, **limited(tmp_path, **limits, max_bytes_per_key=1500)) as run:
        lines = [chat_line(str(n)) for n in range(3)]
        rejection = await rejection_of(stub_of(run).CreateBatch(iter(messages(lines))))
        assert rejection.code is Code.INVALID_ARGUMENT
        assert "may have 2 requests (batches.max_requests)" in rejection.text
        with pytest.raises(grpc.aio.AioRpcError, match=r"may have 1000 bytes \(batches.max_file_bytes\)"):
            await upload(run, b"x" * 1001)
        await upload(run, b"x" * 1000)
        with pytest.raises(grpc.aio.AioRpcError, match=r"a key may store 1 \(batches.max_files_per_key\)"):
            await upload(run, b"x")
        with runner.paused():
            batch = await create(run, lines[:2])
            rejection = await rejection_of(stub_of(run).CreateBatch(iter(messages(lines[:1]))))
            assert rejection.code is Code.RESOURCE_EXHAUSTED
            assert rejection.info.metadata["setting"] == "batches.max_batches_per_key"
        await ended(run, batch.id)
        big = [chat_line("a", "x" * 600)]
        rejection = await rejection_of(stub_of(run).CreateBatch(iter(messages(big))))
        assert rejection.code is Code.RESOURCE_EXHAUSTED
        metadata = rejection.info.metadata
        assert (metadata["limit"], metadata["setting"]) == ("1500", "batches.max_bytes_per_key")


async def test_rejection_reaches_a_client_that_still_writes(tmp_path: Path) -> None:
    """The status is that of the service at whichever message it comes, and no error of the client's library."""
    async with running(**limited(tmp_path, max_files_per_key=1, max_file_bytes=1000)) as run:
        stub: Any = file_pb2_grpc.FileServiceStub(run.channel)
        description = file_pb2.FileDescription(filename="a.jsonl", purpose=file_pb2.FILE_PURPOSE_BATCH)
        found = set()
        for number in range(200):
            if number == 100:
                await upload(run, b"x")  # from now on the description is rejected, before the content
            call = stub.UploadFile()
            try:
                await call.write(file_pb2.UploadFileRequest(description=description))
                for _ in range(3):
                    await call.write(file_pb2.UploadFileRequest(content=b"x" * 1001))
                await call.done_writing()
            except asyncio.InvalidStateError:  # it has ended
                pass
            except grpc.aio.AioRpcError as error:
                found.add(error.code())
                continue
            found.add(await call.code())
        assert found == {Code.INVALID_ARGUMENT, Code.RESOURCE_EXHAUSTED}


async def test_without_a_store_nothing_is_accepted() -> None:
    """A server without a file has no batches and no files, and says how to allow them."""
    async with running() as run:
        rejection = await rejection_of(stub_of(run).CreateBatch(iter(messages([chat_line("a")]))))
        assert rejection.info.reason == "STORING_OFF"
        assert not (await stub_of(run).ListBatches(batch_pb2.ListBatchesRequest())).batches
        rejection = await rejection_of(stub_of(run).GetBatch(batch_pb2.GetBatchRequest(id="x")))
        assert rejection.info.reason == "BATCH_NOT_FOUND"


async def test_line_of_a_conversation_is_rejected(tmp_path: Path) -> None:
    """A line may have no effects but its result: it can't run in the background or change a conversation."""
    request = response_pb2.CreateResponseRequest()
    request.CopyFrom(response_request(background=True, store=True))
    async with running(**storing(tmp_path)) as run:
        batch = await ended(run, (await create(run, [Line(custom_id="a", response=request)])).id)
        assert (batch.num_failed, batch.num_requests) == (1, 1)
        (result,) = await results(run, batch.id)
    assert (result.error.field, result.error.message) == ("background", "is not possible in a batch")


async def test_batch_leaves_the_slots_of_its_key_free(tmp_path: Path) -> None:
    """A batch does not use up its key's concurrent requests, and its times are in no metric of clients' times."""
    runner = ScriptedRunner("hello")
    keys = write(tmp_path / "keys.yaml", team={"limits": {"concurrent_requests": 1}})
    team = [("authorization", f"Bearer {keys['team']}")]
    async with running(runner, auth={"keys_file": tmp_path / "keys.yaml"}, **storing(tmp_path)) as run:
        with runner.paused():
            await stub_of(run).CreateBatch(iter(messages([chat_line("a"), chat_line("b")])), metadata=team)
            await until(runner.entered.is_set)
            calls = [asyncio.ensure_future(run.chat.Chat(request(), metadata=team)) for _ in range(2)]
            (rejected,), (admitted,) = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            assert "the limit of this key is 1 request" in str(rejected.exception())
        assert (await admitted).usage.completion_tokens
        await run.until_idle()
        ((_, count),) = samples(run, "gen_ai_server_time_to_first_token_seconds_count").items()
        assert count == 1

"""The sizes of files with results of batches: counted by the first call that needs them, and stored by the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import orjson
import pytest
from sluice.v1 import batch_pb2, batch_pb2_grpc, chat_pb2, file_pb2, file_pb2_grpc

from tests.gateway import fakes
from tests.gateway.conftest import Gateway
from tests.waiting import GUARD_S

NUM_LINES = 3
BODY = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})


class FakeBatchService(fakes.FakeService, file_pb2_grpc.FileServiceServicer, batch_pb2_grpc.BatchServiceServicer):
    """Has one file with results of a batch, and counts the streams of these."""

    # The RPCs that these tests don't call.
    UploadFile = DeleteFile = DownloadFile = None  # type: ignore[assignment]
    CreateBatch = ListBatches = CancelBatch = DeleteBatch = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        purpose, outcome = file_pb2.FILE_PURPOSE_BATCH_OUTPUT, file_pb2.BATCH_OUTCOME_SUCCEEDED
        self.file = file_pb2.File(id="b-output", batch_id="b", filename="o", purpose=purpose, outcome=outcome)
        self.client_data = orjson.dumps(["/v1/chat/completions", "f", "24h"])
        self.num_streams = 0
        self.records_sizes = True
        self.are_deleted = False
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def GetFile(self, request: Any, context: Any) -> file_pb2.GetFileResponse:  # noqa: N802
        return file_pb2.GetFileResponse(file=self.file)

    async def ListFiles(self, request: Any, context: Any) -> file_pb2.ListFilesResponse:  # noqa: N802
        return file_pb2.ListFilesResponse(files=[self.file])

    async def RecordFileSize(self, request: Any, context: Any) -> file_pb2.RecordFileSizeResponse:  # noqa: N802
        if not self.records_sizes:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
        assert request.id == self.file.id
        self.file.num_bytes = request.num_bytes
        return file_pb2.RecordFileSizeResponse()

    async def GetBatch(self, request: Any, context: Any) -> batch_pb2.GetBatchResponse:  # noqa: N802
        description = batch_pb2.BatchDescription(client_data=self.client_data)
        return batch_pb2.GetBatchResponse(batch=batch_pb2.Batch(id=request.id, description=description))

    async def StreamBatchResults(  # noqa: N802
        self,
        request: Any,
        context: Any,
    ) -> AsyncIterator[batch_pb2.StreamBatchResultsResponse]:
        self.num_streams += 1
        for index in range(NUM_LINES):
            yield batch_pb2.StreamBatchResultsResponse(
                index=index, custom_id=str(index), client_data=BODY, chat=chat_pb2.ChatResponse(id="c", model="m")
            )
        await self.may_end.wait()
        if self.are_deleted:
            status = fakes.Status(grpc.StatusCode.NOT_FOUND, "deleted", fakes.error_info("FILE_NOT_FOUND"))
            await fakes.abort(context, status)


@pytest.fixture
async def service() -> AsyncIterator[FakeBatchService]:
    """Run the fake service of this module."""
    service = FakeBatchService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


async def listed(gateway: Gateway) -> int:
    """Return the size of the file in a list."""
    (file,) = (await gateway.http.get("/v1/files")).json()["data"]
    size: int = file["bytes"]
    return size


async def test_size_is_counted_once(gateway: Gateway, service: FakeBatchService) -> None:
    """The first list counts the bytes of all lines, and stores their number; others find it."""
    size = await listed(gateway)
    assert (service.num_streams, service.file.num_bytes) == (1, size)
    content = (await gateway.http.get("/v1/files/file-b-output/content")).content
    assert (len(content.splitlines()), len(content)) == (NUM_LINES, size)
    service.num_streams = 0
    assert await listed(gateway) == size
    assert (await gateway.http.get("/v1/files/file-b-output")).json()["bytes"] == size
    assert service.num_streams == 0


async def test_long_count_goes_on_without_its_client(gateway: Gateway, service: FakeBatchService) -> None:
    """A client doesn't wait long for the size of many results; one count is enough for all that ask meanwhile."""
    service.may_end.clear()
    assert await asyncio.gather(*(listed(gateway) for _ in range(3))) == [0, 0, 0]
    impatient = asyncio.create_task(listed(gateway))
    await asyncio.sleep(0)
    impatient.cancel()
    assert service.num_streams == 1
    service.may_end.set()
    async with asyncio.timeout(GUARD_S):
        while not (size := await listed(gateway)):  # noqa: ASYNC110  as clients do
            await asyncio.sleep(0.01)
    assert (service.num_streams, service.file.num_bytes) == (1, size)


async def test_download_stores_the_size(gateway: Gateway, service: FakeBatchService) -> None:
    """A list after the first download streams nothing, and a size that another release has stored is replaced."""
    for stored in (0, 7):
        service.file.num_bytes, service.num_streams = stored, 0
        content = (await gateway.http.get("/v1/files/file-b-output/content")).content
        assert await listed(gateway) == service.file.num_bytes == len(content)
        assert service.num_streams == 1


async def test_size_is_counted_again_if_it_is_not_stored(gateway: Gateway, service: FakeBatchService) -> None:
    """A service of an earlier release does not know the method."""
    service.records_sizes = False
    first = await listed(gateway)
    assert (first > 0, await listed(gateway), service.num_streams) == (True, first, 2)


async def test_results_of_a_batch_over_grpc_have_no_size(gateway: Gateway, service: FakeBatchService) -> None:
    """They have no form as a file."""
    service.client_data = b""
    assert (await listed(gateway), service.num_streams) == (0, 0)


async def test_results_that_are_deleted_during_a_download_are_not_taken_for_all(
    gateway: Gateway, service: FakeBatchService
) -> None:
    """The client sees that the answer is incomplete, and its size is not stored. A list is complete all the same."""
    service.are_deleted = True
    assert await listed(gateway) == 0
    with pytest.raises(httpx.RemoteProtocolError):
        await gateway.http.get("/v1/files/b-output/content")
    assert not service.file.num_bytes

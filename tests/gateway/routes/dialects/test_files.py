"""Uploads of files that the service rejects, forms whose fields are wrong, downloads, and batches of large files."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import orjson
import pytest
from sluice.v1 import batch_pb2, batch_pb2_grpc, file_pb2, file_pb2_grpc

from gateway.routes.dialects.stored import batches
from tests.gateway import fakes
from tests.gateway.conftest import Gateway, soon

PATH = "/v1/files"
PURPOSE = {"purpose": "batch"}


class FakeFileService(fakes.FakeService, file_pb2_grpc.FileServiceServicer, batch_pb2_grpc.BatchServiceServicer):
    """Rejects each upload after its first message, has one file, and takes batches."""

    # The RPCs that these tests don't call.
    ListFiles = DeleteFile = RecordFileSize = None  # type: ignore[assignment]
    GetBatch = ListBatches = CancelBatch = DeleteBatch = StreamBatchResults = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.descriptions: list[file_pb2.FileDescription] = []
        self.status = fakes.Status(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", fakes.error_info("STORE_FULL"))
        self.content = [b"content"]
        self.may_end = asyncio.Event()
        self.has_ended = asyncio.Event()
        self.time_left_s = 0.0
        self.lines: list[batch_pb2.BatchLine] = []

    async def UploadFile(  # noqa: N802  the contract's name
        self, request_iterator: AsyncIterator[file_pb2.UploadFileRequest], context: Any
    ) -> file_pb2.UploadFileResponse:
        first = await anext(aiter(request_iterator))
        self.descriptions.append(first.description)
        await fakes.abort(context, self.status)
        raise AssertionError

    async def GetFile(self, request: Any, context: Any) -> file_pb2.GetFileResponse:  # noqa: N802
        return file_pb2.GetFileResponse(file=file_pb2.File(id=request.id))

    async def DownloadFile(  # noqa: N802
        self, request: Any, context: Any
    ) -> AsyncIterator[file_pb2.DownloadFileResponse]:
        try:
            for content in self.content:
                yield file_pb2.DownloadFileResponse(content=content)
            await self.may_end.wait()
        finally:
            self.time_left_s = context.time_remaining()
            self.has_ended.set()

    async def CreateBatch(  # noqa: N802
        self, request_iterator: AsyncIterator[batch_pb2.CreateBatchRequest], context: Any
    ) -> batch_pb2.CreateBatchResponse:
        async for request in request_iterator:
            self.lines += request.requests.lines
        return batch_pb2.CreateBatchResponse(batch=batch_pb2.Batch(id="b", status=batch_pb2.BATCH_STATUS_IN_PROGRESS))


@pytest.fixture
async def service() -> AsyncIterator[FakeFileService]:
    """Run the fake service of this module."""
    service = FakeFileService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


@pytest.mark.parametrize("size", [0, 10, 3_000_000])
async def test_an_upload_that_the_service_rejects_has_its_error(gateway: Gateway, size: int) -> None:
    """It does whether the service's status arrives before, during or after the writes of the content."""
    for _ in range(4):
        answer = await gateway.http.post(PATH, data=PURPOSE, files={"file": ("a.jsonl", b"x" * size)})
        assert answer.json()["error"]["message"] == "full"


async def test_an_error_of_the_description_names_the_file(gateway: Gateway, service: FakeFileService) -> None:
    violation = fakes.bad_request(description="this server stores nothing")
    service.status = fakes.Status(grpc.StatusCode.INVALID_ARGUMENT, "", fakes.error_info("INVALID_FIELD"), violation)
    answer = await gateway.http.post(PATH, data=PURPOSE, files={"file": ("a.jsonl", b"x")})
    assert answer.json()["error"]["message"] == "file: this server stores nothing"


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("a" * 257, {}, "file: must have 1 to 256 characters"),
        ("a", {"expires_after[seconds]": "1"}, "expires_after[seconds]: must be at least 3600 and at most 2592000"),
        ("a", {"expires_after[seconds]": "99999999999"}, "expires_after[seconds]: must be from 3600 to 2592000"),
    ],
)
async def test_a_wrong_field_is_rejected_before_the_upload(
    gateway: Gateway, service: FakeFileService, name: str, fields: dict[str, str], message: str
) -> None:
    answer = await gateway.http.post(PATH, data={**PURPOSE, **fields}, files={"file": (name, b"x")})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, message)
    assert not service.descriptions


async def test_a_form_with_two_files_is_rejected(gateway: Gateway) -> None:
    files = [("file", ("a", b"x")), ("file", ("b", b"x"))]
    answer = await gateway.http.post(PATH, data=PURPOSE, files=files)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "file: must occur once")


async def test_download_ends_when_its_client_leaves(gateway: Gateway, service: FakeFileService) -> None:
    """The rest of the file is not read from the service."""
    async with gateway.http.stream("GET", f"{PATH}/file-f/content") as answer:
        assert await anext(answer.aiter_bytes()) == b"content"
        assert not service.has_ended.is_set()
    await soon(service.has_ended.wait())
    assert service.time_left_s > 0, "the call's deadline has ended it"


async def test_blank_lines_of_a_batch_cost_little(
    gateway: Gateway, service: FakeFileService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are neither kept nor converted, and lines have their numbers in the file."""
    sizes: list[int] = []

    async def offload(num_bytes: int, work: Callable[[], Any]) -> Any:
        sizes.append(num_bytes)
        return work()

    monkeypatch.setattr(batches, "offload", offload)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    line = orjson.dumps({"custom_id": "c", "method": "POST", "url": "/v1/chat/completions", "body": body})
    blank = b"\n" * 200_000 + b" \r\n"
    service.content = [codecs.BOM_UTF8 + blank, blank, line[:9], line[9:] + b"\r\n", blank, b"{"]
    service.may_end.set()
    wanted = {"input_file_id": "file-f", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    answer = await gateway.http.post("/v1/batches", json=wanted)
    assert "line 600005" in answer.json()["error"]["message"]
    service.content[-1] = line.replace(b'"c"', b'"d"')
    assert (await gateway.http.post("/v1/batches", json=wanted)).status_code == 200
    assert [each.custom_id for each in service.lines] == ["c", "d"]
    assert set(sizes) <= {len(line) + 1 + 1, 2 * len(line) + 1}, "the sizes of what is not blank"

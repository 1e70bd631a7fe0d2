"""Uploads of files that the service rejects, and forms whose fields are wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from sluice.v1 import file_pb2, file_pb2_grpc

from tests.gateway import fakes
from tests.gateway.conftest import Gateway

PATH = "/v1/files"
PURPOSE = {"purpose": "batch"}


class FakeFileService(fakes.FakeService, file_pb2_grpc.FileServiceServicer):
    """Rejects each upload after its first message."""

    # The RPCs that these tests don't call.
    GetFile = ListFiles = DeleteFile = DownloadFile = RecordFileSize = None  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.descriptions: list[file_pb2.FileDescription] = []
        self.status = fakes.Status(grpc.StatusCode.RESOURCE_EXHAUSTED, "full", fakes.error_info("STORE_FULL"))

    async def UploadFile(  # noqa: N802  the contract's name
        self, request_iterator: AsyncIterator[file_pb2.UploadFileRequest], context: Any
    ) -> file_pb2.UploadFileResponse:
        first = await anext(aiter(request_iterator))
        self.descriptions.append(first.description)
        await fakes.abort(context, self.status)
        raise AssertionError


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

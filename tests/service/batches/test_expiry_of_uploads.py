"""The expiry of a file, which may follow its content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from sluice.v1 import file_pb2, file_pb2_grpc

from tests.service.background.background_calls import storing
from tests.service.fakes import Running, rejection_of, running

Request = file_pb2.UploadFileRequest
CONTENT = Request(content=b"x")


def description(**fields: Any) -> Request:
    given = file_pb2.FileDescription(filename="a.jsonl", purpose=file_pb2.FILE_PURPOSE_BATCH, **fields)
    return Request(description=given)


def upload(run: Running, *messages: Request) -> Any:
    stub: Any = file_pb2_grpc.FileServiceStub(run.channel)
    return stub.UploadFile(iter(messages))


async def test_last_message_has_the_expiry(tmp_path: Path) -> None:
    """It replaces that of the first one; a last description without one changes nothing."""
    async with running(**storing(tmp_path)) as run:
        for first, last, seconds in [(None, 3600, 3600), (7200, 3600, 3600), (7200, None, 7200)]:
            sent = [description(expires_after_seconds=first), CONTENT, description(expires_after_seconds=last)]
            file: file_pb2.File = (await upload(run, *sent)).file
            assert file.expires.seconds - file.created.seconds == seconds


@pytest.mark.parametrize(
    "rest",
    [
        [description(), CONTENT],
        [description(), description()],
        [Request()],
        [description(expires_after_seconds=5)],
    ],
)
async def test_other_messages_are_rejected(tmp_path: Path, rest: list[Request]) -> None:
    """Only the last message may be a second description, and it must be valid; otherwise nothing is stored."""
    async with running(**storing(tmp_path)) as run:
        rejection = await rejection_of(upload(run, description(), CONTENT, *rest))
        assert rejection.code is grpc.StatusCode.INVALID_ARGUMENT
        stub: Any = file_pb2_grpc.FileServiceStub(run.channel)
        assert not (await stub.ListFiles(file_pb2.ListFilesRequest())).files

"""The size of a file with results, which a client stores: it is the file's, and counts against no limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sluice.v1 import file_pb2, file_pb2_grpc

from tests.service.auth.key_files import write
from tests.service.background.background_calls import Code, storing
from tests.service.batches.batch_calls import chat_line, create, ended
from tests.service.batches.test_batches import upload
from tests.service.fakes import Running, ScriptedRunner, rejection_of, running

LARGE = 1 << 50  # more than the limits of a key


def files(run: Running) -> Any:
    return file_pb2_grpc.FileServiceStub(run.channel)


def size_of(file_id: str, num_bytes: int = LARGE) -> file_pb2.RecordFileSizeRequest:
    return file_pb2.RecordFileSizeRequest(id=file_id, num_bytes=num_bytes)


async def test_stored_size_is_that_of_the_file(tmp_path: Path) -> None:
    """It survives a restart of the service, and can be replaced; more can still be uploaded."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        file_id = (await ended(run, (await create(run, [chat_line("a")])).id)).output_file_id
        request = file_pb2.GetFileRequest(id=file_id)
        assert (await files(run).GetFile(request)).file.num_bytes == 0
        for num_bytes in (7, LARGE):
            await files(run).RecordFileSize(size_of(file_id, num_bytes))
            assert (await files(run).GetFile(request)).file.num_bytes == num_bytes
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        (listed,) = (await files(run).ListFiles(file_pb2.ListFilesRequest())).files
        assert (listed.id, listed.num_bytes) == (file_id, LARGE)
        assert (await upload(run, b"abc")).num_bytes == 3


async def test_other_files_keep_their_sizes(tmp_path: Path) -> None:
    """An uploaded file has its own size; a foreign, an unknown and a too large one are rejected."""
    keys = write(tmp_path / "keys.yaml", a={}, b={})
    settings = storing(tmp_path) | {"auth": {"keys_file": tmp_path / "keys.yaml"}}
    calls = {key: {"metadata": (("authorization", f"Bearer {secret}"),)} for key, secret in keys.items()}
    description = file_pb2.FileDescription(filename="a", purpose=file_pb2.FILE_PURPOSE_BATCH)
    sent = [file_pb2.UploadFileRequest(description=description), file_pb2.UploadFileRequest(content=b"abc")]
    async with running(ScriptedRunner("hello"), **settings) as run:
        file_id = (await files(run).UploadFile(iter(sent), **calls["a"])).file.id
        own = await rejection_of(files(run).RecordFileSize(size_of(file_id), **calls["a"]))
        assert (own.code, [field for field, _ in own.fields]) == (Code.INVALID_ARGUMENT, ["id"])
        for request, key in ((size_of(file_id), "b"), (size_of("unknown-output"), "a")):
            rejection = await rejection_of(files(run).RecordFileSize(request, **calls[key]))
            assert rejection.info.reason == "FILE_NOT_FOUND"
        large = await rejection_of(files(run).RecordFileSize(size_of(file_id, LARGE + 1), **calls["a"]))
        assert [field for field, _ in large.fields] == ["num_bytes"]
        described = file_pb2.GetFileRequest(id=file_id)
        assert (await files(run).GetFile(described, **calls["a"])).file.num_bytes == 3

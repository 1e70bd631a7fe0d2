"""Pages of files and batches continue with tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sluice.v1 import batch_pb2, file_pb2, file_pb2_grpc

from tests.service.background.background_calls import storing
from tests.service.batches.batch_calls import chat_line, create, stub_of
from tests.service.batches.test_batches import upload
from tests.service.fakes import ScriptedRunner, rejection_of, running


async def pages(method: Any, kind: Any, field: str) -> list[list[str]]:
    """Return the ids on each page of two."""
    found: list[list[str]] = []
    token = ""
    while True:
        answer = await method(kind(page_size=2, page_token=token))
        found.append([each.id for each in getattr(answer, field)])
        if not (token := answer.next_page_token):
            return found


async def test_files_and_batches_are_listed_in_pages(tmp_path: Path) -> None:
    """The token of each page gives the next one, and the last page has none; an unknown token is rejected."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:
        files = [(await upload(run, b"x")).id for _ in range(3)]
        with run.runner.paused():  # files of results would be listed too
            batches = [(await create(run, [chat_line("a")])).id for _ in range(3)]
            list_files = file_pb2_grpc.FileServiceStub(run.channel).ListFiles
            assert await pages(list_files, file_pb2.ListFilesRequest, "files") == [files[:2], files[2:]]
            list_batches = stub_of(run).ListBatches
            newest = batches[::-1]
            assert await pages(list_batches, batch_pb2.ListBatchesRequest, "batches") == [newest[:2], newest[2:]]
        unknown: dict[str, Any] = {"page_token": "x"}
        for call in (
            list_files(file_pb2.ListFilesRequest(**unknown)),
            list_batches(batch_pb2.ListBatchesRequest(**unknown)),
        ):
            assert [field for field, _ in (await rejection_of(call)).fields] == ["page_token"]

"""Uploads over gRPC whose client is killed: the connection ends between two messages, and nothing is created."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from grpc import aio
from sluice.v1 import batch_pb2_grpc, file_pb2, file_pb2_grpc

from tests.e2e.relay import Relay
from tests.engine.fakes import until
from tests.service.background.background_calls import storing
from tests.service.batches.batch_calls import chat_line, messages
from tests.service.batches.test_broken_streams import FILE
from tests.service.fakes import ScriptedRunner, running

NUM_CUTS: Final = 10  # of each kind
TABLES: Final = {"batch": "batches", "file": "files"}


def states(path: Path, kind: str) -> list[tuple[int, int]]:
    """Return the number of bytes of each batch or file, and whether it is complete."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(f"SELECT num_bytes, is_complete FROM {TABLES[kind]}").fetchall()  # noqa: S608  constants


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("kind", ["batch", "file"])
async def test_cut_connection_creates_nothing(tmp_path: Path, kind: str, *, reset: bool) -> None:
    """The service deletes what it has received, and the same upload on another connection creates all of it."""
    partial: list[Any] = messages([chat_line("a")], request_id="r1") if kind == "batch" else FILE
    whole: list[Any] = messages([chat_line("a"), chat_line("b")], request_id="r1") if kind == "batch" else FILE
    if kind == "file":  # a part is stored when it is full
        partial = [FILE[0], file_pb2.UploadFileRequest(content=bytes(1 << 20))]
    async with running(ScriptedRunner("hello"), **storing(tmp_path)) as run:

        def upload(channel: aio.Channel) -> Any:
            if kind == "batch":
                return batch_pb2_grpc.BatchServiceStub(channel).CreateBatch
            return file_pb2_grpc.FileServiceStub(channel).UploadFile

        path = tmp_path / "responses.sqlite3"
        for _ in range(NUM_CUTS):
            async with Relay.to(run.port) as relay, aio.insecure_channel(f"127.0.0.1:{relay.port}") as channel:
                call = upload(channel)()
                for message in partial:
                    await call.write(message)
                await until(lambda: any(num_bytes for num_bytes, _ in states(path, kind)))
                relay.cut(reset=reset)
                assert await call.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
                await until(lambda: all(is_complete for _, is_complete in states(path, kind)))
                assert states(path, kind) == []
        await upload(run.channel)(iter(whole))
        assert len(states(path, kind)) == 1

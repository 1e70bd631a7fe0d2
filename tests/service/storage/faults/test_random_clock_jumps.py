"""Two services with one store, whose clocks are set by hours at random instants: nothing is lost, doubled or changed.

CLOCK_JUMPS is the number of instants; `make fuzz` tries 200.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sluice.v1 import file_pb2, file_pb2_grpc

from service.storage.responses.postgres import database
from tests.postgres_server import PASSWORD, USER, PostgresServer
from tests.service.background import background_calls as background
from tests.service.batches import batch_calls as batches
from tests.service.fakes import Running, running
from tests.service.storage.faults.test_postgres_faults import CountingRunner

JUMPS = int(os.environ.get("CLOCK_JUMPS", "4"))
TEXT = "a long answer " * 3
HOUR_S = 3600
NUM_LINES, NUM_RESPONSES = 6, 2
LONG = {"max_model_len": 512, "num_blocks": 256}

pytestmark = pytest.mark.timeout(300 + 20 * JUMPS)


def set_server_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets the clock of the database's server ahead or back, as all replicas see it."""
    begin, total = database._BEGIN, [0]  # noqa: SLF001  the server's clock can't be set

    def jump(change_ns: int) -> None:
        total[0] += change_ns
        changed = begin.replace(database._CLOCK, f"({database._CLOCK} + {total[0]})::bigint")  # noqa: SLF001
        monkeypatch.setattr(database, "_BEGIN", changed)

    return jump


def set_service_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets the clock of the services' machine ahead or back."""
    real, total = time.time_ns, [0]
    monkeypatch.setattr(time, "time_ns", lambda: real() + total[0])

    def jump(change_ns: int) -> None:
        total[0] += change_ns

    return jump


async def upload(run: Running, content: bytes) -> str:
    """Return the id of a new file that expires after an hour, uploaded in two messages."""
    stub: Any = file_pb2_grpc.FileServiceStub(run.channel)
    purpose = file_pb2.FILE_PURPOSE_BATCH
    description = file_pb2.FileDescription(filename="f", purpose=purpose, expires_after_seconds=HOUR_S)
    parts = [file_pb2.UploadFileRequest(content=part) for part in (content[:3], content[3:])]
    sent = [file_pb2.UploadFileRequest(description=description), *parts]
    file: file_pb2.File = (await stub.UploadFile(iter(sent))).file
    return file.id


async def content_of(run: Running, file_id: str) -> bytes:
    stub: Any = file_pb2_grpc.FileServiceStub(run.channel)
    return b"".join([each.content async for each in stub.DownloadFile(file_pb2.DownloadFileRequest(id=file_id))])


async def purge(run: Running) -> int:
    """Purge the store now, as a service does every ten minutes; return the number of deleted rows."""
    thread = run.server._responses  # noqa: SLF001
    assert thread is not None
    return await thread.run(lambda store: store.purge())


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def test_jumps_lose_and_double_nothing(
    store: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Responses, batches of an hour and files of an hour survive jumps of up to twelve hours, with the same bytes."""
    draw = random.Random(5)
    settings = background.storing(tmp_path, lease_s=30, max_age_s=24 * HOUR_S)
    jumps = [set_service_clock(monkeypatch)]
    if store == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = f"postgresql://{USER}@127.0.0.1:{server.port}/postgres?password={PASSWORD}"
        settings["stored_responses"] |= {"file": None, "postgres_url": url}
        jumps.append(set_server_clock(monkeypatch))
    one, two = CountingRunner(TEXT), CountingRunner(TEXT)
    async with running(one, engine=LONG, **settings) as first, running(two, engine=LONG, **settings) as second:
        services = [first, second]
        whole = background.comparable(await background.follow(first, (await background.create(first)).id))
        num_each = one.num_tokens + two.num_tokens
        kept: dict[str, background.Response] = {}
        files: dict[str, bytes] = {}
        batch_ids: list[str] = []
        for number in range(JUMPS):
            creating = [asyncio.create_task(background.create(draw.choice(services))) for _ in range(NUM_RESPONSES)]
            lines = [batches.chat_line(f"{number} {index}") for index in range(NUM_LINES)]
            batching = asyncio.create_task(
                batches.create(draw.choice(services), lines, completion_window_seconds=HOUR_S)
            )
            uploading = asyncio.create_task(upload(draw.choice(services), f"content {number}".encode()))
            await asyncio.sleep(draw.random() * 0.05)
            draw.choice(jumps)(draw.choice([-1, 1]) * draw.randrange(1, 13) * HOUR_S * 10**9)
            assert await purge(draw.choice(services)) == 0
            files[await uploading] = f"content {number}".encode()
            batch_ids.append((await batching).id)
            for each in await asyncio.gather(*creating):
                kept[each.id] = await background.ended(draw.choice(services), each.id)
                assert background.comparable(await background.follow(draw.choice(services), each.id)) == whole
            batch = await batches.ended(draw.choice(services), batch_ids[-1])
            assert (batch.status, batch.num_succeeded) == (batches.COMPLETED, NUM_LINES)
        for response_id, response in kept.items():
            assert await background.get(draw.choice(services), response_id) == response
        for batch_id in batch_ids:
            results = await batches.results(draw.choice(services), batch_id)
            assert [(each.index, batches.text_of(each)) for each in results] == [(n, TEXT) for n in range(NUM_LINES)]
        for file_id, content in files.items():
            assert await content_of(draw.choice(services), file_id) == content
        if store == "sqlite":  # a database's leases end if its server's clock is set, and work may begin again
            num_answers = 1 + len(kept) + NUM_LINES * len(batch_ids)
            assert one.num_tokens + two.num_tokens == num_answers * num_each
    assert len(kept) == NUM_RESPONSES * JUMPS

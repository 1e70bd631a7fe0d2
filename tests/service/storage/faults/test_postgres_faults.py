"""Services with a PostgreSQL database whose disk is full, or which hangs, and services that find interrupted work."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import psycopg
import pytest
from sluice.v1 import stored_response_pb2

from service.engine.core.engine_core import SampledToken
from service.engine.core.step import Step
from service.generation.errors import SequenceError
from service.storage.responses.port import ResponseRecord, StoreLimits, StoreUnavailable
from service.storage.responses.postgres.postgres_store import PostgresStore
from service.storage.responses.seal import Seal
from tests.engine.fakes import until
from tests.postgres_server import PASSWORD, USER, PostgresServer
from tests.service.background import background_calls as background
from tests.service.batches import batch_calls as batches
from tests.service.fakes import Running, ScriptedRunner, rejection_of, running
from tests.service.servicers.responses.test_response import stub_of
from tests.service.servicers.responses.test_stored_responses import create
from tests.waiting import GUARD_S

LONG = {"max_model_len": 2048, "num_blocks": 1024}
TEXT = "a long answer " * 5
LEFT = "SELECT (SELECT count(*) FROM sluice.jobs), (SELECT count(*) FROM sluice.batch_lines WHERE state = 0)"
NOT_STORED = (False, "the store of responses is not available")
UNAVAILABLE = (grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE")
UNKNOWN = (grpc.StatusCode.NOT_FOUND, "RESPONSE_NOT_FOUND")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """Return the file of a key: encrypted values can't be compressed, so that they need space."""
    path = tmp_path / "key"
    path.write_bytes(base64.b64encode(bytes(32)))
    return path


def settings_of(postgres: PostgresServer, key: Path, **others: Any) -> dict[str, Any]:
    url = f"postgresql://{USER}@127.0.0.1:{postgres.port}/postgres?password={PASSWORD}"
    chosen = {"postgres_url": url, "encryption_key_file": key, "timeout_s": GUARD_S, "lease_s": 0.3, **others}
    return {"stored_responses": chosen}


async def outcome_of(call: Any) -> tuple[grpc.StatusCode, str]:
    rejection = await rejection_of(call)
    return rejection.code, rejection.info.reason


def get(run: Running, response_id: str) -> Any:
    return stub_of(run).GetResponse(stored_response_pb2.GetResponseRequest(id=response_id))


def check_rows(postgres: PostgresServer, ids: set[str]) -> None:
    """Assert that these responses are stored and no others, each whole and counted once, and no work is left."""
    assert {response_id for (response_id,) in postgres.execute("SELECT id FROM sluice.responses")} == ids
    used = "SELECT CAST(sum(num_bytes) AS BIGINT) FROM sluice.{}"
    assert postgres.execute(used.format("usage")) == postgres.execute(used.format("responses"))
    assert postgres.execute(LEFT) == [(0, 0)]


def fill(store: PostgresStore) -> set[str]:
    """Store responses until there is no space, and return the ids of those that were stored."""
    draw = random.Random(5)
    for number in range(20):
        try:
            store.put(ResponseRecord("other", f"filling {number}", 1 << 62, "", draw.randbytes(100_000), b""))
        except StoreUnavailable:
            assert store.get("other", f"filling {number}") is None
            return {f"filling {earlier}" for earlier in range(number)}
    pytest.fail("the disk was never full")


async def test_full_disk_ends_no_answer_and_loses_nothing(
    postgres: PostgresServer, key: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What doesn't fit is refused, with the reason; what was accepted is completed when there is space again."""
    text = random.Random(3).randbytes(400).hex()  # whose events don't fit into what is left
    runner = ScriptedRunner(text)
    large = base64.b64encode(bytes(20_000)).decode()
    limits = StoreLimits(1e6, 1 << 30, 1 << 30)
    with contextlib.closing(PostgresStore(postgres.url, limits, seal=Seal.from_file(key))) as store:
        async with running(runner, engine=LONG, **settings_of(postgres, key)) as run:
            before = await create(run)
            with runner.paused():
                accepted = await background.create(run)
                with postgres.full_disk():
                    filling = await asyncio.to_thread(fill, store)
                    runner.gate.set()
                    created = await create(run, clientData=large)
                    assert background.text_of(created) == text
                    assert (created.stored, created.store_error) == NOT_STORED
                    refused = background.in_background(clientData=large)
                    assert await outcome_of(stub_of(run).CreateResponse(refused)) == UNAVAILABLE
                    requests = batches.messages([batches.chat_line(str(number), large * 3) for number in range(16)])
                    assert await outcome_of(batches.stub_of(run).CreateBatch(iter(requests))) == UNAVAILABLE
                    assert (await get(run, before.id)).response == before
                    assert await asyncio.to_thread(store.delete, "other", filling.pop())
                    await until(lambda: "a background response can't be stored yet" in caplog.text)
                    assert (await background.get(run, accepted.id)).status == background.IN_PROGRESS
            done = await background.ended(run, accepted.id)
            assert (done.status, background.text_of(done)) == (background.COMPLETED, text)
            again = await create(run, clientData=large)
            assert again.stored
            assert await outcome_of(get(run, created.id)) == UNKNOWN
    check_rows(postgres, {before.id, accepted.id, again.id, *filling})


@contextlib.contextmanager
def hanging(postgres: PostgresServer, fault: str) -> Iterator[None]:
    """Let the server accept no write until the end of the block: suspended, locked, or without space for its log."""
    if fault == "log is full":
        with postgres.full_log():
            yield
        return
    if fault == "suspended":
        postgres.pause()
        try:
            yield
        finally:
            postgres.resume()
        return
    with psycopg.connect(postgres.url) as connection:
        connection.execute("SELECT pg_advisory_xact_lock(CAST(x'736C75696365' AS BIGINT))")
        yield


@pytest.mark.parametrize("fault", ["suspended", "locked", "log is full"])
async def test_server_that_hangs_delays_no_answer_and_loses_nothing(
    postgres: PostgresServer, key: Path, fault: str
) -> None:
    """Answers come with the reason, calls for the store are rejected; later work ends, and nothing rejected is stored.

    If nothing can be read, a call with the id of another one is answered, too, and does not replace its response.
    """
    stopped, runner = ScriptedRunner(TEXT), ScriptedRunner(TEXT)
    async with running(stopped, **settings_of(postgres, key)) as run:
        before = await create(run, serving={"requestId": "r1"})
        with stopped.paused():
            accepted = await background.create(run)
            batch = await batches.create(run, [batches.chat_line(str(number)) for number in range(3)])
            await run.server.drain(0)
    with runner.paused():
        async with running(runner, **settings_of(postgres, key, timeout_s=0.5)) as run:
            await until(runner.entered.is_set)
            with hanging(postgres, fault):
                runner.gate.set()
                other: dict[str, Any] = {"serving": {"requestId": "r1"}, "metadata": {"other": "1"}}
                if fault == "locked":  # the other response may be read, after which the call is rejected
                    other = {}
                for fields in (other, {"serving": {"requestId": "r2"}}, {}):
                    created = await create(run, **fields)
                    assert background.text_of(created) == TEXT
                    assert (created.stored, created.store_error) == NOT_STORED
                assert await outcome_of(stub_of(run).CreateResponse(background.in_background())) == UNAVAILABLE
                requests = batches.messages([batches.chat_line("refused")])
                assert await outcome_of(batches.stub_of(run).CreateBatch(iter(requests))) == UNAVAILABLE
                assert await outcome_of(get(run, before.id)) == UNAVAILABLE
            await until(lambda: postgres.execute(LEFT) == [(0, 0)])
    async with running(ScriptedRunner(), **settings_of(postgres, key)) as run:
        assert (await get(run, before.id)).response == before
        assert background.text_of(await background.ended(run, accepted.id)) == TEXT
        results = await batches.results(run, batch.id)
        assert [(each.index, batches.text_of(each)) for each in results] == [(number, TEXT) for number in range(3)]
    check_rows(postgres, {before.id, accepted.id})


class CountingRunner(ScriptedRunner):
    """A runner that counts the tokens that it samples."""

    num_tokens = 0

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        self.num_tokens += sum(item.samples for item in step.items)
        return super().run(step)


async def test_interrupted_work_is_continued_by_one_of_two_services(postgres: PostgresServer, key: Path) -> None:
    """Responses and requests of batches whose service is gone are generated once, though two others claim them."""
    settings = settings_of(postgres, key, lease_s=30, max_background=2) | {"batches": {"max_running": 2}}
    lines = [batches.chat_line(str(number)) for number in range(8)]
    gone = CountingRunner("hello")
    async with running(gone, **settings) as run:
        expected = background.comparable(await background.follow(run, (await background.create(run)).id))
        num_each = gone.num_tokens
        with gone.paused(after=2):
            created = [await background.create(run) for _ in range(6)]
            batch = await batches.create(run, lines)
            await run.server.drain(0)
    for table in ("jobs", "batch_lines"):  # as a killed one leaves them
        postgres.execute(f"UPDATE sluice.{table} SET holder = 'killed', lease_ns = 1")  # noqa: S608  constants
    one, two = CountingRunner("hello"), CountingRunner("hello")
    with one.paused(), two.paused():
        async with running(one, **settings) as first, running(two, **settings) as second:
            await until(lambda: one.entered.is_set() and two.entered.is_set())
            one.gate.set()
            two.gate.set()
            for each in created:
                assert (await background.ended(first, each.id)).status == background.COMPLETED
                assert background.comparable(await background.follow(second, each.id)) == expected
            assert (await batches.ended(second, batch.id)).num_succeeded == len(lines)
    assert one.num_tokens + two.num_tokens == (len(created) + len(lines)) * num_each

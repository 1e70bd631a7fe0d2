"""The store on PostgreSQL: lost connections, commits without an answer, a server that hangs, and other replicas."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from service.storage.responses.port import (
    Job,
    ResponseRecord,
    StoreFailed,
    StoreLimits,
    StoreUnavailable,
    TooManyJobs,
)
from service.storage.responses.postgres.connection import Connection
from service.storage.responses.postgres.database import PostgresDatabase
from service.storage.responses.postgres.postgres_store import PostgresStore
from service.storage.responses.store_thread import StoreThread
from tests.postgres_server import PASSWORD, USER, PostgresServer
from tests.service.background.background_calls import COMPLETED, create, ended, follow, get
from tests.service.fakes import ScriptedRunner, running
from tests.service.servicers.responses.test_response import response_request, stub_of
from tests.waiting import GUARD_S, wait_until

LIMITS = StoreLimits(3600, 1 << 20, 1 << 20)


def record(response_id: str, owner: str = "a", content: bytes = b"question") -> ResponseRecord:
    return ResponseRecord(owner, response_id, time.time_ns(), "", content, b"answer")


@pytest.fixture
def store(postgres: PostgresServer) -> Iterator[PostgresStore]:
    store = PostgresStore(postgres.url, LIMITS)
    yield store
    store.close()


def test_restarted_server_is_found_again(store: PostgresStore, postgres: PostgresServer) -> None:
    """A call without a server fails; after a restart, calls succeed, and find what was stored before the kill."""
    store.put(record("r1"))
    postgres.kill()
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=rf"PostgreSQL 127\.0\.0\.1:{postgres.port}") as caught:
            store.put(record("r2"))
        assert PASSWORD not in str(caught.value)
    postgres.start()
    store.put(record("r3"))
    assert [store.get("a", name) is not None for name in ("r1", "r2", "r3")] == [True, False, True]


def test_idle_connection_is_replaced_unnoticed(store: PostgresStore, postgres: PostgresServer) -> None:
    """Neither a read nor a write fails because the server closed the connection since the last one."""
    store.put(record("r1"))
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'"
    for _ in range(2):
        postgres.execute(end)
        assert store.get("a", "r1") is not None
        postgres.execute(end)
        store.put(record("r1"))


class CommitProxy:
    """A proxy that breaks the connection at a commit: before the server has it, or before the client has its answer."""

    def __init__(self, port: int, *, is_forwarded: bool) -> None:
        self._server = ("127.0.0.1", port)
        self._is_forwarded = is_forwarded
        self.is_armed = False
        self._stack = contextlib.ExitStack()
        self._listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop the proxy, whose clients have closed their connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(GUARD_S)
        self._stack.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._stack.enter_context(self._listener.accept()[0])
                server = self._stack.enter_context(socket.create_connection(self._server))
                for source, target in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._copy, args=(source, target, source is client)))
                    self._threads[-1].start()

    def _copy(self, source: socket.socket, target: socket.socket, is_request: bool) -> None:  # noqa: FBT001
        """Copy what one side sends to the other one, until one of them closes the connection."""
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if is_request and self.is_armed and b"COMMIT" in data:
                    self.is_armed = False
                    source.shutdown(socket.SHUT_RDWR)  # the client never reads the answer
                    if not self._is_forwarded:
                        break
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("is_forwarded", [True, False])
def test_outcome_of_an_interrupted_commit_is_found_out(postgres: PostgresServer, is_forwarded: bool) -> None:  # noqa: FBT001
    """A change that the server has made succeeds although the connection was lost; one that it hasn't made fails."""
    proxy = CommitProxy(postgres.port, is_forwarded=is_forwarded)
    store = PostgresStore(f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{proxy.port}/postgres", LIMITS)
    proxy.is_armed = True
    if is_forwarded:
        store.put(record("r1"))
    else:
        with pytest.raises(StoreFailed):
            store.put(record("r1"))
    assert not proxy.is_armed
    assert (store.get("a", "r1") is not None) == is_forwarded
    store.close()
    proxy.close()


async def test_server_that_hangs_delays_nothing(store: PostgresStore, postgres: PostgresServer) -> None:
    """A call fails after the time limit, the next one at once, and what was given up is not stored later."""
    thread = StoreThread(lambda: store, 0.2)
    postgres.pause()
    with pytest.raises(StoreFailed, match="within"):
        await thread.put(record("r1"))
    with pytest.raises(StoreFailed, match="does not answer"):
        await thread.put(record("r2"))
    postgres.resume()
    async with asyncio.timeout(GUARD_S):
        while True:
            try:
                assert await thread.run(lambda store: store.get("a", "r1")) is None
            except StoreFailed:
                await asyncio.sleep(0.02)  # as long as the server has something to do from before
            else:
                break
    await thread.close()


async def test_service_starts_without_the_server(postgres: PostgresServer) -> None:
    """The store is opened by the first call after the server has come back."""
    postgres.kill()
    thread = StoreThread(lambda: PostgresStore(postgres.url, LIMITS), GUARD_S)
    with pytest.raises(StoreFailed, match="refused"):
        await thread.put(record("r1"))
    postgres.start()
    await thread.put(record("r1"))
    await thread.close()


def test_replicas_claim_each_job_once_within_the_limits(postgres: PostgresServer) -> None:
    """Replicas that start, store, create and claim at the same time neither share a job nor exceed a limit."""

    def replica(number: int) -> list[str]:
        store = PostgresStore(postgres.url, StoreLimits(3600, 200, 10_000))
        outcomes = []
        for index in range(4):
            name = f"r{number}-{index}"
            try:
                store.jobs.add(Job(record(name, content=bytes(10)), b"", b""), max_jobs=7)
                outcomes.append("added")
            except TooManyJobs:
                outcomes.append("too many")
            store.put(record(name, "b", bytes(40)))
        while (job := store.jobs.claim(str(number), 60)) is not None:
            outcomes.append(job.record.id)
        store.close()
        return outcomes

    with ThreadPoolExecutor(3) as pool:
        counts = Counter(each for outcomes in pool.map(replica, range(3)) for each in outcomes)
    assert (counts.pop("added"), counts.pop("too many")) == (7, 5)
    assert sorted(counts.values()) == [1] * 7
    used = "SELECT owner, CAST(sum(num_bytes) AS BIGINT) FROM sluice.{} GROUP BY owner ORDER BY owner"
    assert postgres.execute(used.format("usage")) == postgres.execute(used.format("responses"))
    assert postgres.execute("SELECT count(*) FROM sluice.responses WHERE owner = 'b'") == [(200 // 46,)]


def test_writer_waits_for_another_transaction(store: PostgresStore, postgres: PostgresServer) -> None:
    """A write begins when the other one has ended; reads don't wait."""
    store.put(record("r1"))
    database = PostgresDatabase(Connection(postgres.url, None, GUARD_S), None)
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    reader = PostgresStore(postgres.url, LIMITS)
    with ThreadPoolExecutor(1) as pool:
        with database.transaction() as execute:
            execute("UPDATE responses SET previous_id = ?", ("r0",))
            write = pool.submit(store.delete, "a", "r1")
            wait_until(lambda: postgres.execute(waiting) == [(1,)])
            assert reader.get("a", "r1") is not None
            assert not write.done()
        assert write.result(GUARD_S)
    assert reader.get("a", "r1") is None
    reader.close()
    database.close()


def test_lock_that_is_not_released_fails_one_write_only(postgres: PostgresServer) -> None:
    """A write that waits for too long fails, and the next one succeeds."""
    store = PostgresStore(f"{postgres.url}?options=-c%20lock_timeout%3D50ms", LIMITS)
    database = PostgresDatabase(Connection(postgres.url, None, GUARD_S), None)
    with database.transaction():
        for _ in range(2):
            with pytest.raises(StoreFailed, match="lock timeout"):
                store.put(record("r1"))
    store.put(record("r1"))
    store.close()
    database.close()


def test_password_is_read_from_its_file_at_each_connection(postgres: PostgresServer, tmp_path: Path) -> None:
    """A password that was changed in the file is used by the next connection; no error has it."""
    url = f"postgresql://{USER}@127.0.0.1:{postgres.port}/postgres"
    file = tmp_path / "password"
    with pytest.raises(StoreUnavailable, match="No such file"):
        PostgresStore(url, LIMITS, password_file=file)
    file.write_text("another-secret")
    with pytest.raises(StoreUnavailable, match="password authentication failed") as caught:
        PostgresStore(url, LIMITS, password_file=file)
    assert "another-secret" not in str(caught.value)
    file.write_text(PASSWORD + "\n")
    PostgresStore(url, LIMITS, password_file=file).close()


async def test_replicas_share_responses(postgres: PostgresServer) -> None:
    """A response is read, continued and generated in the background at any of two services on one database."""
    settings: dict[str, Any] = {
        "stored_responses": {
            "postgres_url": f"postgresql://{USER}@127.0.0.1:{postgres.port}/postgres?password={PASSWORD}",
            "timeout_s": GUARD_S,
        }
    }
    one, two = ScriptedRunner("hello"), ScriptedRunner("hello")
    async with running(one, **settings) as first, running(two, **settings) as second:
        response = (await stub_of(first).CreateResponse(response_request(store=True))).response
        assert (await get(second, response.id)) == response
        request = response_request(store=True, previousResponseId=response.id)
        assert (await stub_of(second).CreateResponse(request)).response.stored
        created = [await create(run) for _ in range(2) for run in (first, second)]
        done = [await ended(first, each.id) for each in created]
        assert done == [await ended(second, each.id) for each in created]
        assert await follow(first, created[0].id) == await follow(second, created[0].id)
    assert {each.status for each in done} == {COMPLETED}
    assert one.num_steps + two.num_steps <= (len(created) + 2) * (len("hello") + 1)

"""The rows that PostgreSQL reads for a claim: those of the batch's answered requests aren't among them."""

from __future__ import annotations

from contextlib import closing

import pytest

from service.storage.responses.batch_port import BatchRecord, NewLine
from service.storage.responses.port import StoreLimits
from service.storage.responses.postgres.postgres_store import PostgresStore
from tests.postgres_server import PostgresServer
from tests.waiting import wait_until

LIMITS = StoreLimits(3600, 1 << 30, 1 << 30)
HOUR_NS = 3_600_000_000_000
NUM_LINES, NUM_ANSWERED, NUM_CLAIMS = 2_000, 1_000, 10
READ = """
    SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'batch_lines'
"""
OTHERS = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid != pg_backend_pid()"


def num_read(postgres: PostgresServer) -> int:
    """Return the number of rows of lines that all sessions have read, which they report when they end."""
    wait_until(lambda: not postgres.execute(OTHERS))
    ((number,),) = postgres.execute(READ)
    return int(str(number))


@pytest.mark.parametrize("is_analyzed", [False, True])
def test_claims_read_no_answered_requests(postgres: PostgresServer, *, is_analyzed: bool) -> None:
    """Neither with fresh statistics of the tables nor with none."""
    with closing(PostgresStore(postgres.url, LIMITS)) as store:
        now_ns = store.now_ns()
        store.batches.begin(BatchRecord("owner", "a", now_ns, now_ns + HOUR_NS, b"", b"", b"upload"))
        store.batches.append("owner", "a", [NewLine(b"request")] * NUM_LINES, upload=b"upload")
        store.batches.complete("owner", "a", b"digest", upload=b"upload")
    if is_analyzed:  # while no request is answered
        postgres.execute("ANALYZE sluice.batches")
        postgres.execute("ANALYZE sluice.batch_lines")
    postgres.execute(f"UPDATE sluice.batch_lines SET state = 1 WHERE position < {NUM_ANSWERED}")  # noqa: S608  a constant
    postgres.execute("CLUSTER sluice.batch_lines USING batch_lines_pkey")  # the answered ones are read first
    before = num_read(postgres)
    with closing(PostgresStore(postgres.url, LIMITS)) as store:
        for _ in range(NUM_CLAIMS):
            assert len(store.batches.claim("holder", 10, 1)) == 1
    assert num_read(postgres) - before < NUM_ANSWERED  # those that are held are read

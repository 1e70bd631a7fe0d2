"""The jobs in an SQL database."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from service.storage.responses.port import (
    MAX_LEASE_S,
    Job,
    JobKey,
    JobStore,
    ResponseRecord,
    TooManyJobs,
)
from service.storage.responses.sql.conversations import SqlConversations
from service.storage.responses.sql.database import SqlDatabase
from service.storage.responses.sql.records import SqlRecords

# A lease that ends too late was dated by a clock that was set back, or before the machine was started again.
_HELD: Final = "lease_ns > :now AND lease_ns <= :latest"
_NEXT: Final = f"""
    SELECT owner, id, caller, stream, num_claims FROM jobs WHERE NOT ({_HELD})
    ORDER BY (SELECT count(*) FROM jobs AS other WHERE other.owner = jobs.owner AND other.holder != '' AND {_HELD}),
             created_ns, id
    LIMIT 1
"""  # noqa: S608  constants


class SqlJobs(JobStore):
    """A `JobStore` in a database."""

    def __init__(
        self,
        database: SqlDatabase,
        records: SqlRecords,
        conversations: SqlConversations,
        now_ns: Callable[[], int],
    ) -> None:
        self._database = database
        self._records = records
        self._conversations = conversations
        self._now_ns = now_ns

    def add(self, job: Job, max_jobs: int) -> ResponseRecord | None:
        owner, response_id = job.key
        with self._database.transaction() as execute:
            if (existing := self._records.read(owner, response_id)) is not None:
                return existing
            self._records.delete_expired(execute, owner, response_id)
            (num_jobs,) = execute("SELECT count(*) FROM jobs WHERE owner = ?", (owner,)).fetchone()
            if num_jobs >= max_jobs:
                raise TooManyJobs(
                    f"{num_jobs} responses in the background are unfinished; the limit is {max_jobs} "
                    "(stored_responses.max_background_per_key)"
                )
            self._records.insert(execute, job.record)
            context = f"{owner}\0{response_id}\0"
            execute(
                "INSERT INTO jobs (owner, id, created_ns, caller, stream) VALUES (?, ?, ?, ?, ?)",
                (
                    owner, response_id, job.record.created_ns,
                    self._database.sealed(job.caller, context + "caller"),
                    self._database.sealed(job.stream, context + "stream"),
                ),
            )  # fmt: skip
        return None

    def claim(self, holder: str, lease_s: float) -> Job | None:
        while self._database.row(_NEXT, self._instants()) is not None:  # without a lock; mostly none
            with self._database.transaction() as execute:
                instants = self._instants()
                if (found := execute(_NEXT, instants).fetchone()) is None:
                    return None
                owner, response_id, caller, stream, num_claims = found
                record = self._records.read(owner, response_id)
                if record is None:  # it has expired
                    execute("DELETE FROM jobs WHERE owner = ? AND id = ?", (owner, response_id))
                    continue
                execute(
                    "UPDATE jobs SET holder = ?, lease_ns = ?, num_claims = num_claims + 1 WHERE owner = ? AND id = ?",
                    (holder, instants["now"] + round(lease_s * 1e9), owner, response_id),
                )
                context = f"{owner}\0{response_id}\0"
                return Job(
                    record,
                    self._database.opened(caller, context + "caller"),
                    self._database.opened(stream, context + "stream"),
                    num_claims + 1,
                )
        return None

    def _instants(self) -> dict[str, int]:
        """Return the values of the query for the next job."""
        now_ns = self._now_ns()
        return {"now": now_ns, "latest": now_ns + round(MAX_LEASE_S * 1e9)}

    def renew(self, holder: str, keys: Collection[JobKey], lease_s: float) -> Collection[JobKey]:
        lease_ns = self._now_ns() + round(lease_s * 1e9)
        with self._database.transaction() as execute:
            return {
                key
                for key in keys
                if execute(
                    "UPDATE jobs SET lease_ns = ? WHERE owner = ? AND id = ? AND holder = ?", (lease_ns, *key, holder)
                ).rowcount
            }

    def release(self, holder: str, key: JobKey, delay_s: float, *, is_counted: bool) -> None:
        with self._database.transaction() as execute:
            execute(
                "UPDATE jobs SET holder = '', lease_ns = ?, num_claims = num_claims - ? "
                "WHERE owner = ? AND id = ? AND holder = ?",
                (self._now_ns() + round(min(delay_s, MAX_LEASE_S) * 1e9), int(not is_counted), *key, holder),
            )

    def update(self, record: ResponseRecord, holder: str) -> bool:
        return self._change(record, holder, ends=False)

    def finish(self, record: ResponseRecord, holder: str | None = None) -> bool:
        return self._change(record, holder, ends=True)

    def _change(self, record: ResponseRecord, holder: str | None, *, ends: bool) -> bool:
        """Replace the response of a job, and end the job if it `ends`. Return False if it isn't the holder's."""
        key = (record.owner, record.id)
        with self._database.transaction() as execute:
            row = execute("SELECT holder FROM jobs WHERE owner = ? AND id = ?", key).fetchone()
            if row is None or (holder is not None and row[0] != holder):
                return False
            self._records.change(execute, record)
            if record.addition is not None:
                self._conversations.append(execute, record.owner, record.addition, record.id)
            if ends:
                execute("DELETE FROM jobs WHERE owner = ? AND id = ?", key)
        return True

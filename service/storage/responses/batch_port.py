"""The port of the store of files and batches: records, limits, and what the store does. Its methods block.

A batch has lines, each a request and later its result. A process holds the lines that it answers by leases, as jobs are
held; the line of a process that died is claimed by another one.
"""

from __future__ import annotations

import enum
import re
import secrets
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, Self, TypeAlias

_FILE_ID: Final = re.compile(r"([0-7][0-9a-f]{15})-[0-9a-f]{16}")


class BatchStatus(enum.IntEnum):
    """The state of a batch."""

    IN_PROGRESS = 1
    COMPLETED = 2
    EXPIRED = 3
    CANCELLED = 4


class LineState(enum.IntEnum):
    """The state of a line."""

    WAITING = 0
    SUCCEEDED = 1
    FAILED = 2
    EXPIRED = 3


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of an owner, and of all owners together. Sizes are in bytes of content."""

    max_files: int
    max_batches: int
    max_lines: int
    max_file_bytes: int
    max_bytes_per_owner: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file without its content. `expires_ns` is 0 if it expires with age only.

    A file with the results of a batch has its id and their states, and no content: `results_bytes` is the size of its
    results in the form of a client, which counts against no limit, or 0 if it is not known.
    """

    owner: str
    id: str
    created_ns: int
    filename: str
    num_bytes: int = 0
    expires_ns: int = 0
    batch_id: str = ""
    is_of_errors: bool = False
    results_bytes: int = 0


def new_file_id(created_ns: int) -> str:
    """Return the id of a new file, which has the time of its creation."""
    return f"{created_ns:016x}-{secrets.token_hex(8)}"


def creation_of(file_id: str) -> int | None:
    """Return the time that the id of a file has; None if it isn't one that `new_file_id` returns."""
    found = _FILE_ID.fullmatch(file_id)
    return None if found is None else int(found[1], 16)


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch without its lines. `description` and `caller` are bytes that the store does not interpret.

    `digest` is that of its requests; that of a batch which is begun identifies the upload. Its results expire
    `results_lifetime_s` after its end; with 0, they are kept as long as the batch.
    """

    owner: str
    id: str
    created_ns: int
    expires_ns: int
    description: bytes
    caller: bytes
    digest: bytes = b""
    status: BatchStatus = BatchStatus.IN_PROGRESS
    ended_ns: int = 0
    num_lines: int = 0
    num_succeeded: int = 0
    num_failed: int = 0
    results_lifetime_s: int = 0

    @property
    def results_expire_ns(self) -> int:
        """The time at which its results expire; 0 if they don't, or if it has not ended."""
        return (
            self.ended_ns + self.results_lifetime_s * 1_000_000_000 if self.ended_ns and self.results_lifetime_s else 0
        )

    def dated(self, now_ns: int) -> Self:
        """Return the batch as one that is created at another instant."""
        return replace(self, created_ns=now_ns, expires_ns=self.expires_ns - self.created_ns + now_ns)

    def results_file(self, *, is_of_errors: bool) -> str:
        """Return the id of the file with results of the batch; empty if it has none, or has not ended."""
        number = self.num_failed if is_of_errors else self.num_succeeded
        if self.status == BatchStatus.IN_PROGRESS or not number:
            return ""
        return f"{self.id}-{'errors' if is_of_errors else 'output'}"


@dataclass(frozen=True, slots=True)
class NewLine:
    """A line to add. One that has an error already has a result."""

    request: bytes
    error: bytes = b""


LineKey: TypeAlias = tuple[str, str, int]
"""The owner, the id of the batch, and the index of the line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A claimed line. `num_claims` is the number of times that it was claimed and not released."""

    key: LineKey
    request: bytes
    caller: bytes
    num_claims: int


@dataclass(frozen=True, slots=True)
class LineResult:
    """The result of a line. If it doesn't fit into the owner's limit, the `fallback`, an error, is stored instead."""

    key: LineKey
    state: LineState
    result: bytes
    fallback: bytes


@dataclass(frozen=True, slots=True)
class EndedLine:
    """A line that has ended; an expired one has no result."""

    index: int
    request: bytes
    state: LineState
    result: bytes


class FileStore(Protocol):
    """The files of a store. Each method raises StoreFailed, and is one transaction except `delete`.

    A file belongs to its owner: to others it does not exist, nor does one that is expired or not complete.
    """

    def begin(self, file: FileRecord) -> None:
        """Begin a file without content. Raise StoreLimit."""

    def append(self, owner: str, file_id: str, data: bytes) -> None:
        """Add content to a file that is not complete. Raise StoreLimit, or TooLarge for the file."""

    def complete(self, owner: str, file_id: str, lifetime_s: int | None = None) -> FileRecord:
        """Complete a file, and return it. `lifetime_s` is the time until it expires, if it has another one now."""

    def get(self, owner: str, file_id: str) -> FileRecord | None:
        """Return a file, or None."""

    def list(
        self, owner: str, max_files: int, after: str = "", *, descending: bool = False, results: bool | None = None
    ) -> Sequence[FileRecord]:
        """Return the first files, or those after one, which may have been deleted meanwhile. Raise UnknownItem.

        With `results`, only files that have results of batches, or only those that have none.
        """

    def record_size(self, owner: str, file_id: str, results_bytes: int) -> None:
        """Store the size of the results that a file has, if there is one."""

    def part(self, owner: str, file_id: str, index: int) -> bytes | None:
        """Return a part of the content by its index, or None after the last one."""

    def delete(self, owner: str, file_id: str) -> bool:
        """Delete a file, and leave nothing of it in the store's files. Return whether there was one.

        The lines whose results it has are deleted, and no longer count against the limits.
        """

    def delete_steps(self, owner: str, file_id: str) -> Iterator[bool]:
        """Do what `delete` does in short steps, each a call of the iterator, which yields whether there was one.

        The file does not exist after the first step. A purge deletes what is left if the others are not made.
        """


class BatchStore(Protocol):
    """The batches of a store, and its `files`.

    Each method raises StoreFailed, and is one transaction except `cancel`, `delete` and `abandon`.

    A batch belongs to its owner: to others it does not exist. `holder` names a process uniquely.
    """

    files: FileStore

    def now_ns(self) -> int:
        """Return the time of the store, by which new files and batches are dated."""

    def begin(self, batch: BatchRecord) -> BatchRecord | None:
        """Begin a batch without lines, and return None. Raise StoreLimit.

        If the owner has a batch of the same id, return that one, and change nothing. An upload of the same id that is
        not complete is replaced: what follows of it fails.
        """

    def append(self, owner: str, batch_id: str, lines: Sequence[NewLine], *, upload: bytes = b"") -> None:
        """Add lines to a batch that is not complete. Raise StoreLimit, or TooLarge for the batch.

        `upload` is the digest with which it was begun.
        """

    def complete(self, owner: str, batch_id: str, digest: bytes, *, upload: bytes = b"") -> BatchRecord:
        """Complete a batch, whose lines can be claimed from then on, and return it."""

    def abandon(self, owner: str, batch_id: str, upload: bytes) -> Iterator[bool]:
        """Delete a batch that is not complete, unless another upload has replaced this one, in steps as those below."""

    def get(self, owner: str, batch_id: str) -> BatchRecord | None:
        """Return a batch, or None."""

    def list(self, owner: str, max_batches: int, after: str = "") -> Sequence[BatchRecord]:
        """Return the newest batches, or those before one, which may have been deleted meanwhile. Raise UnknownItem."""

    def results(
        self, owner: str, batch_id: str, after: int, states: Collection[LineState], max_lines: int
    ) -> Sequence[EndedLine]:
        """Return lines of these states after an index, in order; none after the results have expired."""

    def cancel(self, owner: str, batch_id: str) -> BatchRecord | None:
        """End a batch, unless it has ended, and return it; None if there is none.

        The lines without a result are deleted, and no longer count against the limits.
        """

    def cancel_steps(self, owner: str, batch_id: str) -> Iterator[BatchRecord | None]:
        """Do what `cancel` does in short steps, each a call of the iterator, which yields the batch.

        The batch has ended after the first step. A purge deletes what is left if the others are not made.
        """

    def delete(self, owner: str, batch_id: str) -> bool:
        """Delete a batch, and leave nothing of it in the store's files. Return whether there was one."""

    def delete_steps(self, owner: str, batch_id: str) -> Iterator[bool]:
        """Do what `delete` does in short steps, each a call of the iterator, which yields whether there was one.

        The batch does not exist after the first step. A purge deletes what is left if the others are not made.
        """

    def claim(self, holder: str, lease_s: float, most: int) -> Sequence[Line]:
        """Return the next lines that no process holds, which are the holder's then.

        Owners with fewer held lines are first, then earlier batches.
        """

    def renew(self, holder: str, lease_s: float) -> Collection[LineKey]:
        """Renew the leases of all lines that the holder has, and return their keys."""

    def release(self, holder: str, key: LineKey, delay_s: float, *, is_counted: bool) -> None:
        """Give up a line that the holder has: any process can claim it after `delay_s`, at most MAX_LEASE_S.

        If the claim `is_counted`, it stays in `num_claims`.
        """

    def finish(self, holder: str, results: Sequence[LineResult]) -> None:
        """Store results, durably, of the lines that the holder still has, and end batches that have all of theirs."""

    def expire(self) -> int:
        """End the batches whose time has passed, and return their number."""

"""The port of the store of responses: records, jobs, limits, errors, and what a store does. Its methods block.

A job is a response that the service generates in the background. A process holds it by a lease, which it renews; if it
dies, the lease ends, and another process claims the job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, Self, TypeAlias

from service.storage.responses.batch_port import BatchStore


class StoreFailed(Exception):  # noqa: N818  the name says what happened
    """The store can't be used now; the text has the cause."""


class StoreUnavailable(StoreFailed):
    """The disk fails or is full, or the database can't be reached: the store can be used again when that is over."""


class StoreLimit(Exception):  # noqa: N818  the name says what happened
    """A record exceeds a limit of the store; the text names it.

    `setting` is the setting of the limit, empty if it has none, and `limit` is its value.
    """

    def __init__(self, text: str, setting: str = "", limit: int = 0) -> None:
        super().__init__(f"{text} ({setting})" if setting else text)
        self.setting = setting
        self.limit = limit


class TooLarge(StoreLimit):
    """One file or batch exceeds its own limit: it is never stored; the text names the limit."""


class ChainTooLong(Exception):  # noqa: N818  the name says what happened
    """A response continues too many others; the text names the limit."""


class TooManyJobs(Exception):  # noqa: N818  the name says what happened
    """The owner has its maximum number of unfinished jobs; the text names it."""


class UnknownItem(Exception):  # noqa: N818  the name says what happened
    """A conversation has no item of that id."""


class MetadataChanged(Exception):  # noqa: N818  the name says what happened
    """A conversation has other metadata than expected."""


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """One item of a conversation, as bytes, which the store does not interpret."""

    id: str
    item: bytes

    @property
    def num_bytes(self) -> int:
        """The size that counts against the limits."""
        return len(self.id) + len(self.item)


@dataclass(frozen=True, slots=True)
class Addition:
    """Items to add to a conversation."""

    conversation_id: str
    items: Sequence[ItemRecord]


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """One conversation without its items."""

    owner: str
    id: str
    created_ns: int
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """One stored response: its owner, and the messages as bytes, which the store does not interpret.

    `previous_id` is the id of the response that it continues, or empty. `events` are those of a response that was
    generated in the background, once it has ended. `addition` is added to a conversation, if that exists, in the
    transaction that stores the response, and is not a part of the stored one.
    """

    owner: str
    id: str
    created_ns: int
    previous_id: str
    request: bytes
    response: bytes
    client_data: bytes = b""
    events: bytes = b""
    addition: Addition | None = None

    @property
    def num_bytes(self) -> int:
        """The size that counts against the limits."""
        return len(self.request) + len(self.response) + len(self.client_data) + len(self.events)


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """The limits of a store. Ages are in seconds, sizes in bytes of content."""

    max_age_s: float
    max_bytes_per_owner: int
    max_bytes: int


JobKey: TypeAlias = tuple[str, str]
"""The owner and the id of a response."""

MAX_LEASE_S: Final = 60.0  # a longer one was dated by a clock that was set back, or before a start of the machine


@dataclass(frozen=True, slots=True)
class Job:
    """A response to generate. `record` has its request, and the response in its current state.

    `caller` and `stream` are bytes that the store does not interpret: the caller's rights and limits, and the identity
    of the answer, with which it can be generated again. `num_claims` is the number of times that it was claimed and
    not released.
    """

    record: ResponseRecord
    caller: bytes
    stream: bytes
    num_claims: int = 0

    @property
    def key(self) -> JobKey:
        """The owner and the id."""
        return self.record.owner, self.record.id

    def dated(self, now_ns: int) -> Self:
        """Return the job of a record that is created at another instant."""
        return replace(self, record=replace(self.record, created_ns=now_ns))


class JobStore(Protocol):
    """The jobs of a store. Each method is one transaction, and raises StoreFailed.

    `holder` names a process uniquely. Leases are in seconds, at most MAX_LEASE_S.
    """

    def add(self, job: Job, max_jobs: int) -> ResponseRecord | None:
        """Store a job with its record, durably, and return None.

        If the owner has a record of the same id, return that one, and change nothing. Raise TooManyJobs if the owner
        has `max_jobs` unfinished ones, and StoreLimit like `ResponseStore.put`.
        """

    def claim(self, holder: str, lease_s: float) -> Job | None:
        """Return the next job that no process holds, which is the holder's then; None if there is none.

        Owners with fewer held jobs are first, then earlier jobs.
        """

    def renew(self, holder: str, keys: Collection[JobKey], lease_s: float) -> Collection[JobKey]:
        """Renew the leases of those of the jobs that the holder still has, and return their keys."""

    def release(self, holder: str, key: JobKey, delay_s: float, *, is_counted: bool) -> None:
        """Give up a job that the holder has: any process can claim it after `delay_s`, at most MAX_LEASE_S.

        If the claim `is_counted`, it stays in `num_claims`.
        """

    def update(self, record: ResponseRecord, holder: str) -> bool:
        """Replace the response of a job that the holder has. Return False if it no longer has it."""

    def finish(self, record: ResponseRecord, holder: str | None = None) -> bool:
        """End a job with its final response and events, durably.

        Return False, and change nothing, if there is no such job, or if it isn't that of the `holder`. Raise StoreLimit
        like `ResponseStore.put`.
        """


class ConversationStore(Protocol):
    """The conversations of a store. Each method raises StoreFailed, and is one transaction except `delete`.

    A conversation belongs to its owner: to others it does not exist. Conversations that were not changed for
    `max_age_s` do not exist for anyone.
    """

    def create(self, conversation: ConversationRecord, items: Sequence[ItemRecord]) -> None:
        """Store a new conversation, durably. Raise StoreLimit."""

    def get(self, owner: str, conversation_id: str) -> ConversationRecord | None:
        """Return a conversation, or None."""

    def update(self, conversation: ConversationRecord, known: bytes | None = None) -> bool:
        """Replace the metadata. Return False if there is no such conversation.

        Raise StoreLimit, and MetadataChanged if `known` is given and the stored metadata is another.
        """

    def delete(self, owner: str, conversation_id: str) -> bool:
        """Delete a conversation and leave nothing of it in the store's files. Return whether there was one."""

    def delete_steps(self, owner: str, conversation_id: str) -> Iterator[bool]:
        """Do what `delete` does in short steps, each a call of the iterator, which yields whether there was one.

        The conversation does not exist after the first step. A purge deletes what is left if the others are not made.
        """

    def add(self, owner: str, addition: Addition) -> bool:
        """Add items to the end, except those that it has. Return False if there is no such conversation.

        Raise StoreLimit.
        """

    def items(
        self,
        owner: str,
        conversation_id: str,
        max_items: int,
        after: str = "",
        *,
        descending: bool = False,
        max_bytes: int | None = None,
    ) -> Sequence[ItemRecord] | None:
        """Return the first items, or those after one, or None if there is no such conversation. Raise UnknownItem.

        Those that more than `max_bytes` precede are left out, except the second one. The item `after` may have been
        deleted meanwhile, unless many others of the conversation were after it.
        """

    def item(self, owner: str, conversation_id: str, item_id: str) -> ItemRecord | None:
        """Return an item, or None."""

    def delete_item(self, owner: str, conversation_id: str, item_id: str) -> bool:
        """Delete an item. Return whether there was one.

        Nothing of it is left in the store's files but its position, with a digest of its id.
        """


class ResponseStore(Protocol):
    """A store of responses, of the `jobs` that generate them in the background, of `conversations`, and of `batches`.

    Each method is one transaction: one that raises changes nothing.

    Each of them raises StoreFailed. A record belongs to its owner: to others it does not exist, and nothing that they
    do changes it. Records older than `max_age_s` do not exist for anyone.
    """

    jobs: JobStore
    conversations: ConversationStore
    batches: BatchStore

    def now_ns(self) -> int:
        """Return the time by which content ages. New records are dated by it: a process's own clock may be wrong."""

    def put(self, record: ResponseRecord) -> None:
        """Store a record, durably; it replaces the owner's own one of the same id and request.

        Raise StoreLimit if the owner has one of the same id with another request. The owner's oldest records, except
        those of unfinished jobs, are deleted until all of them fit into `max_bytes_per_owner`. Raise StoreLimit if they
        don't, or if the store would exceed `max_bytes`.
        """

    def get(self, owner: str, response_id: str) -> ResponseRecord | None:
        """Return a record, or None."""

    def chain(self, owner: str, response_id: str, max_records: int, max_bytes: int) -> Sequence[ResponseRecord] | None:
        """Return the response and those that it continues, the first one first; None if one of them does not exist.

        Their `client_data` and `events` are left out. Raise ChainTooLong for more than `max_records` or `max_bytes`.
        """

    def delete(self, owner: str, response_id: str) -> bool:
        """Delete a record and leave nothing of it in the store's files. Return whether there was one."""

    def purge(self) -> int:
        """Delete what is older than `max_age_s`, and uploads that were not completed, and return their number."""

    def purge_steps(self) -> Iterator[int]:
        """Do what `purge` does in short steps, each a call of the iterator; yield the number that each has deleted."""

    def close(self) -> None:
        """Release the store's files."""

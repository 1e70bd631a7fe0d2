"""The port of the store of responses: records, limits, errors, and what a store does. Its methods block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class StoreFailed(Exception):  # noqa: N818  the name says what happened
    """The store can't be used now; the text has the cause."""


class StoreLimit(Exception):  # noqa: N818  the name says what happened
    """A record exceeds a limit of the store; the text names it."""


class ChainTooLong(Exception):  # noqa: N818  the name says what happened
    """A response continues too many others; the text names the limit."""


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """One stored response: its owner, and the messages as bytes, which the store does not interpret.

    `previous_id` is the id of the response that it continues, or empty.
    """

    owner: str
    id: str
    created_ns: int
    previous_id: str
    request: bytes
    response: bytes
    client_data: bytes = b""

    @property
    def num_bytes(self) -> int:
        """The size that counts against the limits."""
        return len(self.request) + len(self.response) + len(self.client_data)


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """The limits of a store. Ages are in seconds, sizes in bytes of content."""

    max_age_s: float
    max_bytes_per_owner: int
    max_bytes: int


class ResponseStore(Protocol):
    """A store of responses. Each method is one transaction: one that raises changes nothing.

    Each of them raises StoreFailed. A record belongs to its owner: to others it does not exist, and nothing that they
    do changes it. Records older than `max_age_s` do not exist for anyone.
    """

    def put(self, record: ResponseRecord) -> None:
        """Store a record, durably; it replaces the owner's own one of the same id.

        The owner's oldest records are deleted until all of them fit into `max_bytes_per_owner`. Raise StoreLimit if the
        record alone does not, or if the store would exceed `max_bytes`.
        """

    def get(self, owner: str, response_id: str) -> ResponseRecord | None:
        """Return a record, or None."""

    def chain(self, owner: str, response_id: str, max_records: int, max_bytes: int) -> Sequence[ResponseRecord] | None:
        """Return the response and those that it continues, the first one first; None if one of them does not exist.

        Their `client_data` is left out. Raise ChainTooLong for more than `max_records` or `max_bytes`.
        """

    def delete(self, owner: str, response_id: str) -> bool:
        """Delete a record and leave nothing of it in the store's files. Return whether there was one."""

    def purge(self) -> int:
        """Delete the records that are older than `max_age_s`, and return their number."""

    def close(self) -> None:
        """Release the store's files."""

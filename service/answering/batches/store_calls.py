"""Calls of the store of files and batches, with the errors that clients get."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from service.answering.errors import StoreFull, StoreUnavailable, StoringOff
from service.generation.errors import InvalidRequest
from service.storage.responses.batch_port import BatchStore
from service.storage.responses.port import StoreFailed, StoreLimit, TooLarge, UnknownItem
from service.storage.responses.store_thread import StoreThread

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class StoreCalls:
    """Calls of one store, or of none."""

    def __init__(self, store: StoreThread | None) -> None:
        self._store = store

    @property
    def is_on(self) -> bool:
        """Whether the settings allow that something is stored."""
        return self._store is not None

    async def run(
        self,
        work: Callable[[BatchStore], Result],
        undo: Callable[[BatchStore, Result], object] | None = None,
        *,
        field: str = "id",
    ) -> Result:
        """Return what the store returns. `field` is the field of the request that its errors are about.

        `undo` follows a call that ends after it was given up, with its result.
        Raise StoringOff, InvalidRequest, StoreFull or StoreUnavailable.
        """
        if self._store is None:
            raise StoringOff(field)
        with _translated(field):
            return await self._store.run(
                lambda store: work(store.batches),
                None if undo is None else lambda store, result: undo(store.batches, result),
            )

    async def run_steps(self, work: Callable[[BatchStore], Iterator[Result]]) -> Result:
        """Return the last result of steps, with other calls in between. Raise like `run`."""
        if self._store is None:
            raise StoringOff("id")
        with _translated("id"):
            return await self._store.run_steps(lambda store: work(store.batches))


@contextmanager
def _translated(field: str) -> Iterator[None]:
    """Raise the errors that clients get, for those of the store."""
    try:
        yield
    except TooLarge as limit:
        raise InvalidRequest(field, str(limit)) from limit
    except StoreLimit as limit:
        raise StoreFull.of(limit) from limit
    except UnknownItem as error:
        raise InvalidRequest(field, "is not the id of an item of this list") from error
    except StoreFailed as error:
        _log.warning("the store of files and batches failed: %s", error)
        raise StoreUnavailable from error

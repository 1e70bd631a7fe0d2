"""From a credential to its caller.

Owns what is known of keys, and keeps it in step with the file. The loop's thread runs `watch`; any thread may ask.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from service.auth.errors import InvalidKey, MissingKey
from service.auth.key import PREFIX
from service.auth.key_entry import KeyEntry, KeysError
from service.auth.key_file import read_keys
from service.auth.key_ring import KeyRing
from service.auth.settings import AuthSettings
from service.auth.watched_file import WatchedFile
from service.generation.caller import Caller

_CHECK_S = 1.0  # how often the file is looked at

_log = logging.getLogger(__name__)


class Authenticator:
    """Tells who calls."""

    def __init__(self, settings: AuthSettings, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch. Raises KeysError if the keys can't be read."""
        self._clock = clock
        self._file: WatchedFile[list[KeyEntry]] | None = None
        self._ring = KeyRing([])
        if settings.keys_file is not None:
            self._file = WatchedFile(settings.keys_file, read_keys)
            self._ring = KeyRing(self._file.content)

    async def identify(self, credential: str | None) -> Caller:
        """Who holds `credential`, a key or a token. Raises AuthError."""
        if not credential:
            raise MissingKey
        if credential.startswith(PREFIX):
            return self._ring.caller(credential, self._clock())
        raise InvalidKey

    def refresh(self) -> None:
        """Take over a changed file. One that can't be used is told in the log, and changes nothing."""
        if self._file is None:
            return
        try:
            if self._file.refresh():
                self._ring = KeyRing(self._file.content)
                _log.info("keys were read again", extra={"fields": {"keys": len(self._ring)}})
        except KeysError as error:
            _log.error("the keys file can't be used; the keys before it stay: %s", error)

    async def watch(self) -> None:
        """Keep up with the file until cancelled."""
        while True:
            await asyncio.sleep(_CHECK_S)
            self.refresh()

"""Authenticate credentials.

Holds the API keys and the signing keys of tokens, and reloads them when their sources change. Runs on the event loop's
thread only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from service.auth.errors import InvalidKey, MissingKey
from service.auth.keys.key import PREFIX
from service.auth.keys.key_entry import KeyEntry, KeysError
from service.auth.keys.key_file import read_keys, reread_keys
from service.auth.keys.key_ring import KeyRing
from service.auth.keys.shared_keys import SharedKeys
from service.auth.settings import AuthSettings
from service.auth.tokens.token import looks_like_token
from service.auth.tokens.token_reader import TokenReader
from service.auth.watched_file import WatchedFile
from service.generation.caller import Caller

_CHECK_S = 1.0  # between checks of the file

_log = logging.getLogger(__name__)


class Authenticator:
    """Maps credentials to callers."""

    def __init__(
        self,
        settings: AuthSettings,
        shared: SharedKeys | None = None,
        clock: Callable[[], float] = time.time,  # noqa: TID251  keys expire by the date
    ) -> None:
        """`shared` are the keys in the replicas' store, if configured; `clock` returns seconds since the epoch.

        Raise KeysError or SignersError for an invalid file.
        """
        self._clock = clock
        self._source: WatchedFile[list[KeyEntry]] | SharedKeys | None = shared
        if settings.keys_file is not None:
            self._source = WatchedFile(settings.keys_file, read_keys, reread_keys)
        self._ring = KeyRing([] if self._source is None else self._source.content)
        self._tokens = TokenReader(settings.jwks, settings) if settings.jwks is not None else None
        self.is_stale = False  # True if the newest version of the keys is invalid and an earlier version is in use

    async def identify(self, credential: str | None) -> Caller:
        """Return the holder of `credential`, an API key or a token. Raise AuthError."""
        if not credential:
            raise MissingKey
        if credential.startswith(PREFIX):
            return self._ring.caller(credential, self._clock())
        if self._tokens is not None and looks_like_token(credential):
            return await self._tokens.caller(credential)
        raise InvalidKey

    async def watch(self) -> None:
        """Reload changed files and the URL periodically until cancelled. Invalid content does not end the loop."""
        while True:
            if self._tokens is not None:
                try:
                    await self._tokens.refresh()
                except Exception:  # noqa: BLE001  whatever the content, later versions must be read
                    _log.exception("the key set of tokens can't be reloaded; the previous keys stay in use")
            await asyncio.sleep(_CHECK_S)
            try:
                await self._refresh_keys()
            except Exception:  # noqa: BLE001  whatever the content, later versions must be read
                self.is_stale = True
                _log.exception("the keys can't be reloaded; the previous keys stay in use")

    async def _refresh_keys(self) -> None:
        """Load changed keys. Errors are logged, and the previous keys stay valid."""
        if self._source is None:
            return
        try:
            if await asyncio.to_thread(self._source.refresh):
                self._ring = KeyRing(self._source.content)
                self.is_stale = False
                _log.info("keys were reloaded", extra={"fields": {"keys": len(self._ring)}})
        except KeysError as error:
            self.is_stale = True
            source_name = "store of keys" if isinstance(self._source, SharedKeys) else "keys file"
            _log.error("the %s can't be used; the previous keys stay valid: %s", source_name, error)

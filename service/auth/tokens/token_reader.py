"""Read tokens with the newest key set available.

A token of an unknown signer may be signed with a new key: the key set is then reloaded immediately, but at most every
ten seconds, since anyone can send such tokens. Runs on the event loop's thread only; reads run on another thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from service.auth.errors import InvalidToken, SignersUnknown
from service.auth.settings import AuthSettings
from service.auth.tokens.signers import Signers, SignersError, is_url, read_signers
from service.auth.tokens.token import UnknownSigner, read_token
from service.auth.watched_file import WatchedFile
from service.generation.caller import Caller

_MIN_INTERVAL_S = 10.0  # between reloads caused by tokens

_log = logging.getLogger(__name__)


class TokenReader:
    """Maps tokens to callers."""

    def __init__(self, location: str, settings: AuthSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """`location` is the setting `jwks`. Raise SignersError for an invalid file; a URL is fetched later."""
        self._location = location
        self._settings = settings
        self._clock = clock
        self._signers: Signers | None = None
        self._file: WatchedFile[Signers] | None = None
        self._fetched_at: float | None = None
        self._reading = asyncio.Lock()
        if not is_url(location):
            self._file = WatchedFile(Path(location), lambda path: read_signers(str(path), settings.algorithms))
            self._signers = self._file.content

    async def caller(self, token: str) -> Caller:
        """Return the holder of a token. Raise InvalidToken, ExpiredToken, or SignersUnknown without a key set."""
        seen = self._signers
        try:
            return self._read(token)
        except (UnknownSigner, SignersUnknown):
            await self._renew(seen)
        try:
            return self._read(token)
        except UnknownSigner as error:
            raise InvalidToken("its signer is unknown") from error

    async def refresh(self) -> None:
        """Reload the key set if its file has changed, or the set of a URL has expired."""
        if self._file is not None:
            self._take_file(self._file)
        elif self._is_old(self._settings.jwks_refresh_s if self._signers else _MIN_INTERVAL_S):
            async with self._reading:
                await self._fetch()

    def _read(self, token: str) -> Caller:
        """Return a token's caller. Raise SignersUnknown without a key set, and InvalidToken."""
        if self._signers is None:
            raise SignersUnknown(_MIN_INTERVAL_S)
        return read_token(token, self._signers, self._settings)

    async def _renew(self, seen: Signers | None) -> None:
        """Load a newer set than `seen`, if possible now. Concurrent callers share one reload."""
        if self._file is not None:
            self._take_file(self._file)
            return
        async with self._reading:
            if self._signers is seen and self._is_old(_MIN_INTERVAL_S):
                await self._fetch()

    def _is_old(self, age_s: float) -> bool:
        """Return whether the last attempt to fetch the key set is at least `age_s` seconds ago."""
        return self._fetched_at is None or self._clock() - self._fetched_at >= age_s

    async def _fetch(self) -> None:
        """Fetch the key set. A failure is logged, and the previous keys stay."""
        self._fetched_at = self._clock()
        try:
            self._signers = await asyncio.to_thread(read_signers, self._location, self._settings.algorithms)
        except SignersError as error:
            stay = "the previous keys stay valid" if self._signers else "tokens are rejected until then"
            _log.warning("the key set of tokens can't be fetched; %s: %s", stay, error)

    def _take_file(self, file: WatchedFile[Signers]) -> None:
        """Take over the key set of a file that has changed."""
        try:
            if file.refresh():
                self._signers = file.content
                _log.info("the key set of tokens was reloaded", extra={"fields": {"keys": len(file.content)}})
        except SignersError as error:
            _log.error("the key set of tokens can't be used; the previous keys stay valid: %s", error)

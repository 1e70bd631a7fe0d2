"""Fetch images by URL from hosts that the settings allow. It runs on the event loop in short steps."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

import httpcore

from service.calls.call import current_caller
from service.generation.caller import ANONYMOUS
from service.generation.errors import DeadlineExceeded, InvalidRequest
from service.images.address import Target, check_url
from service.images.checked_network import CheckedNetwork, LookUp, PrivateAddress, look_up
from service.images.data_url import Media, check_size
from service.settings.image_settings import ImageSettings

_REDIRECTS: Final = {301, 302, 303, 307, 308}
_HEADERS: Final[dict[bytes | str, bytes | str]] = {
    "accept": "image/*",
    "accept-encoding": "identity",
    "user-agent": "sluice",
    "connection": "close",
}
_UNKNOWN_KINDS: Final = {"", "application/octet-stream", "binary/octet-stream"}  # of storage without media types


class Fetcher:
    """Fetches images for the requests of one model."""

    def __init__(
        self,
        settings: ImageSettings,
        look_up: LookUp = look_up,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        """`look_up` resolves names and `network` connects to addresses; the defaults are the system's."""
        self._settings = settings
        self._network = CheckedNetwork(
            allow_private=settings.allow_private_addresses,
            num_threads=min(settings.max_fetches, 8),
            look_up=look_up,
            network=network,
        )
        self._pool = httpcore.AsyncConnectionPool(
            # One for all connections: reading the system's certificates blocks the loop for 50 ms.
            ssl_context=ssl.create_default_context(),
            max_connections=settings.max_fetches,
            max_keepalive_connections=0,
            network_backend=self._network,
        )
        self._of_hosts: dict[str, _Slots] = {}
        self._of_keys: dict[str, _Slots] = {}

    def close(self) -> None:
        """Stop the threads that resolve names; nothing may be fetched afterwards. Connections end with fetches."""
        self._network.close()

    async def fetch(self, url: str, field: str, deadline: float | None) -> Media:
        """Return the image at a URL. Raise InvalidRequest for `field`, or DeadlineExceeded."""
        check_url(url, field, self._settings)
        caller = current_caller()
        limit = self._settings.max_fetches if caller is ANONYMOUS else self._settings.max_fetches_per_key
        try:
            async with asyncio.timeout(None if deadline is None else deadline - time.monotonic()):
                # Waiting for other images of the same key isn't part of the fetch: only the deadline limits this wait.
                async with _slot(self._of_keys, caller.id, limit):
                    return await self._within_limit(url, field)
        except TimeoutError:
            raise DeadlineExceeded("the deadline passed before an image was fetched") from None
        except PrivateAddress:
            raise _failure(field, "its host's address is not public (images.allow_private_addresses)") from None
        except (httpcore.NetworkError, httpcore.TimeoutException, OSError, UnicodeError):  # the last of a host's name
            raise _failure(field, "its host can't be reached") from None
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol):
            raise _failure(field, "its host's response is not HTTP") from None

    async def _within_limit(self, url: str, field: str) -> Media:
        """Fetch a URL within the time limit. Raise InvalidRequest."""
        limit_s = self._settings.max_fetch_s
        try:
            async with asyncio.timeout(limit_s):
                return await self._follow(url, field)
        except TimeoutError:
            raise _failure(field, f"it took longer than {limit_s:g} s (images.max_fetch_s)") from None

    async def _follow(self, url: str, field: str) -> Media:
        """Fetch a URL, following redirects up to their limit. Raise InvalidRequest."""
        for _ in range(self._settings.max_redirects + 1):
            target = check_url(url, field, self._settings)
            async with _slot(self._of_hosts, target.host, self._settings.max_fetches_per_host):
                answer = await self._get(target, field)
            if isinstance(answer, Media):
                return answer
            try:
                url = urljoin(target.url, answer)
            except ValueError:
                raise _failure(field, "it was redirected to an invalid URL") from None
        raise _failure(
            field, f"it was redirected more than {self._settings.max_redirects} times (images.max_redirects)"
        )

    async def _get(self, target: Target, field: str) -> Media | str:
        """Return the image, or the URL that the response redirects to."""
        url = httpcore.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        headers: dict[bytes | str, bytes | str] = {**_HEADERS, "host": target.authority}
        async with self._pool.stream("GET", url, headers=headers) as response:
            received = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
            if response.status in _REDIRECTS and "location" in received:
                return received["location"]
            if response.status != HTTPStatus.OK:
                raise _failure(field, f"its host answered with the status {response.status}")
            kind = received.get("content-type", "").partition(";")[0].strip().lower()
            if not kind.startswith("image/") and kind not in _UNKNOWN_KINDS:
                raise _failure(field, f"it is not an image, but {kind[:100]!r}")
            limit, length = self._settings.max_bytes, received.get("content-length", "")
            check_size(int(length) if length.isdecimal() else 0, field, limit)
            data = bytearray()
            async for piece in response.aiter_stream():
                data += piece
                check_size(len(data), field, limit)
            return Media(bytes(data), kind)


class _Slots:
    """The slots of one host or key."""

    def __init__(self, number: int) -> None:
        self.free = asyncio.Semaphore(number)
        self.num_users = 0  # including those that wait


@asynccontextmanager
async def _slot(all_slots: dict[str, _Slots], name: str, limit: int) -> AsyncIterator[None]:
    """Wait for one of `limit` slots of that name, so that a slow host or a busy key delays only itself."""
    slots = all_slots.setdefault(name, _Slots(limit))
    slots.num_users += 1
    try:
        async with slots.free:
            yield
    finally:
        slots.num_users -= 1
        if not slots.num_users:
            del all_slots[name]


def _failure(field: str, reason: str) -> InvalidRequest:
    return InvalidRequest(field, f"the image could not be fetched: {reason}")

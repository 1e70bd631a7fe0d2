"""Connections to addresses that were checked: a name is looked up once, and what was found is what is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import httpcore

from service.images.address import is_public

LookUp: TypeAlias = Callable[[str, int], list[str]]


class PrivateAddress(Exception):  # noqa: N818  it says what happened
    """A host has none but addresses that are not fetched from."""


def look_up(host: str, port: int) -> list[str]:
    """The addresses of a host, the system's preferred ones first. Waits for the network; raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections for httpcore, which names its hosts in TLS and in requests as ever."""

    def __init__(
        self,
        *,
        allow_private: bool,
        num_threads: int,
        look_up: LookUp = look_up,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        """`num_threads` look names up, so that a slow name server holds up no other work of the process.

        `network` connects to addresses; None is the system's.
        """
        self._allow_private = allow_private
        self._look_up = look_up
        self._network = network or httpcore.AnyIOBackend()
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="image-hosts")

    def close(self) -> None:
        """Stop the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  the library's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that may be, of those that the host has now. Raises PrivateAddress."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, self._look_up, host, port)
        allowed = [each for each in found if self._allow_private or is_public(each)]
        if not allowed:
            raise PrivateAddress
        return await self._network.connect_tcp(allowed[0], port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109  the library's signature
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Never: images have no such addresses."""
        del path, timeout, socket_options
        raise PrivateAddress

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

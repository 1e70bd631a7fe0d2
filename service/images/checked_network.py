"""Connections to checked addresses: a name is resolved once, and only the checked result is connected to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import httpcore

from service.images.address import is_public

LookUp: TypeAlias = Callable[[str, int], list[str]]


class PrivateAddress(Exception):  # noqa: N818  the name states the condition
    """A host has no address that may be fetched from."""


def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host in the system's order of preference. Blocks on the network; raise OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections for httpcore, which still sends the host's name in TLS and in requests."""

    def __init__(
        self,
        *,
        allow_private: bool,
        num_threads: int,
        look_up: LookUp = look_up,
        network: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        """`num_threads` resolve names, so that a slow name server delays no other work of the process.

        `network` connects to addresses; None is the system's network.
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
        """Connect to the first of the host's addresses that is allowed now. Raise PrivateAddress if none is."""
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
        """Raise an error: images are not fetched from Unix sockets."""
        del path, timeout, socket_options
        raise PrivateAddress

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

"""Warn in the log about credentials sent in plain text over the network, once per client address."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Mapping
from typing import Final

from process.network.loopback import is_loopback, is_own_address

MAX_ADDRESSES: Final = 256  # the maximum number of logged addresses
CREDENTIALS: Final = frozenset({"authorization", "api-key", "x-api-key"})

_log = logging.getLogger(__name__)


class PlainTextCredentials:
    """A check of each request for a credential in plain text. Not thread-safe."""

    def __init__(self, is_own: Callable[[str], bool] = is_own_address) -> None:
        """`is_own` returns whether an address is this machine's: Envoy forwards it for clients on loopback."""
        self._is_own = is_own
        self._checked: set[str] = set()

    def check(self, peer: str, headers: Mapping[str, str], *, is_encrypted: bool) -> None:
        """Warn if a credential among `headers` (names in lower case) was sent in plain text over a network.

        `peer` is the address of the connection's other end. If the peer is a proxy, `x-forwarded-proto` and
        `x-forwarded-for` describe its own client's connection.
        """
        if CREDENTIALS.isdisjoint(headers):
            return
        address = _exposed(peer, headers, is_encrypted=is_encrypted)
        if address is None or address in self._checked or len(self._checked) == MAX_ADDRESSES:
            return
        self._checked.add(address)
        if self._is_own(address):
            return
        _log.warning("a credential was sent in plain text over the network", extra={"fields": {"address": address}})


def _exposed(peer: str, headers: Mapping[str, str], *, is_encrypted: bool) -> str | None:
    """Return the address that sent the request in plain text over a network; None if it was not."""
    if not is_encrypted and _is_remote(peer):
        return peer
    if headers.get("x-forwarded-proto") == "http":
        sender = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        if _is_remote(sender):
            return sender
    return None


def _is_remote(address: str) -> bool:
    """Return True if the address is another machine's. Unix sockets have no address, and are local."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return not is_loopback(address)

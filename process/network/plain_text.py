"""Credentials that others on the network could read: a warning in the log, once for each address they came from."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from typing import Final

from process.network.loopback import is_loopback

MAX_ADDRESSES: Final = 256  # later ones are not told: whoever reads the log knows by then
CREDENTIALS: Final = frozenset({"authorization", "api-key", "x-api-key"})

_log = logging.getLogger(__name__)


class PlainTextCredentials:
    """Looks at each request's credential. To be used on one thread."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def look(self, peer: str, headers: Mapping[str, str], *, is_encrypted: bool) -> None:
        """Warn if a credential among `headers` (names in lower case) came here in plain text over a network.

        `peer` is the address of the connection's other end. A proxy there says by `x-forwarded-proto` and
        `x-forwarded-for` what it has seen.
        """
        if CREDENTIALS.isdisjoint(headers):
            return
        address = _exposed(peer, headers, is_encrypted=is_encrypted)
        if address is None or address in self._told or len(self._told) == MAX_ADDRESSES:
            return
        self._told.add(address)
        _log.warning("a credential came in plain text over the network", extra={"fields": {"address": address}})


def _exposed(peer: str, headers: Mapping[str, str], *, is_encrypted: bool) -> str | None:
    """The address that sent something in plain text over a network, if any did."""
    if not is_encrypted and _is_remote(peer):
        return peer
    if headers.get("x-forwarded-proto") == "http":
        sender = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        if _is_remote(sender):
            return sender
    return None


def _is_remote(address: str) -> bool:
    """Whether it is another machine's; no address, as that of a Unix socket, is nobody's."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return not is_loopback(address)

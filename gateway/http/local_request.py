"""Detect requests that a web page of another site caused a browser to send to this machine.

A page can reach a server on the loopback address of its visitor in two ways: by requests that browsers send without a
preflight, whose Origin is the page's, and by a host name of the page that resolves to the loopback address (DNS
rebinding), which is then the Host.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import urlsplit

from process.network.loopback import is_loopback


@lru_cache(maxsize=256)
def is_local(host: str, origin: str, allowed_origins: Collection[str]) -> bool:
    """Return True unless a page of another site may have caused the request. Missing headers are empty.

    The Host must be localhost or an IP address, since no page can resolve those names itself. The Origin must be of
    this machine, of the Host, or in `allowed_origins`, where "*" stands for all.
    """
    name = _name(f"//{host}")
    if host and (name is None or not (is_loopback(name) or _is_address(name))):
        return False
    if not origin or "*" in allowed_origins or origin.lower() in allowed_origins:
        return True
    page = _name(origin)
    return page is not None and (is_loopback(page) or origin.partition("://")[2].lower() == host.lower())


def _name(url: str) -> str | None:
    """Return the name or address of a URL's host, or None if it has none, or no number after its colon."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # invalid in two hosts that a proxy has joined, of which `hostname` is the first one
    except ValueError:
        return None
    return parts.hostname


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

"""The attack of a server as a command: which server may be attacked, and how it is reached."""

from __future__ import annotations

import ipaddress
import socket
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlsplit

import httpx

from conformance.attacks.canary import Canary
from conformance.attacks.memory import listener
from conformance.attacks.raid import raid_findings
from conformance.attacks.target import Target
from conformance.attacks.wire.http1 import Address
from conformance.claim import BrokenError, Finding, UnreachableError
from conformance.dialects import DIALECTS
from conformance.report import Report
from conformance.server import Server

DIALECT = DIALECTS["openai"]


def attacked(options: Namespace, note: Callable[[Finding], None]) -> Report:
    """Attack the server that the command's options name, and return the report.

    Raise UnreachableError if it may not be attacked, or answers neither a chat nor a health check of gRPC.
    """
    address, grpc = loopback(options.url), loopback(f"http://{options.grpc}" if options.grpc else options.url)
    headers = dict(DIALECT.key_header(options.key)) if options.key else {}
    fresh = httpx.Limits(max_keepalive_connections=0)
    with (
        Canary() as canary,
        httpx.Client(base_url=options.url, headers=headers, timeout=options.timeout_s, limits=fresh) as client,
    ):
        server, reason = _server(client, options.model)
        asked = Target(address, grpc, server, canary, options.key or "", options.heavy, options.timeout_s)
        target = replace(asked, has_grpc=asked.health().status == 0)
        if not target.is_served():
            raise UnreachableError(f"{options.url} answers neither a chat nor a health check of gRPC. {reason}")
        pid = options.pid or listener(address[1])
        found = raid_findings(target, pid, options.max_growth_mib, note, options.only)
    return Report(options.url, "attacks", server.model if server else "no model", found)


def loopback(url: str) -> Address:
    """Return the address of a URL. Raise UnreachableError unless it is plain HTTP on loopback addresses only."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname or "", parts.port or 80
        found = {str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    except (OSError, ValueError) as error:
        raise UnreachableError(f"{url}: {error}") from None
    if parts.scheme != "http" or not all(ipaddress.ip_address(each).is_loopback for each in found):
        raise UnreachableError(f"{url}: only plain HTTP on a loopback address is attacked")
    return min(found), port


def _server(client: httpx.Client, model: str | None) -> tuple[Server | None, str]:
    """Return the REST API and its model, or None and the reason why there is none."""
    try:
        return Server(client, DIALECT, model or DIALECT.find_model(client)), ""
    except (BrokenError, httpx.HTTPError) as error:
        return None, str(error)

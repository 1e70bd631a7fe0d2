"""Calls of gRPC as bytes over HTTP/2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from conformance.attacks.wire.http1 import Address
from conformance.attacks.wire.http2 import HEADERS, RESET, Connection, ends

HEALTH = "/grpc.health.v1.Health/Check"


@dataclass(frozen=True)
class Outcome:
    """The end of a call: HTTP's and gRPC's status, each None if none was sent, and how the stream ended."""

    http: int | None
    status: int | None
    ending: str

    @property
    def is_rejected(self) -> bool:
        """True if the call failed: a status other than OK, an HTTP error, a reset, or a closed connection."""
        return self.ending != "no end" and (self.status != 0 or (self.http or 200) >= 400)

    def __str__(self) -> str:
        return f"HTTP status {self.http}, grpc-status {self.status}, {self.ending}"


def message(content: bytes, *, flag: int = 0, length: int | None = None) -> bytes:
    """Return a message with its prefix, whose flag and length may be false."""
    return bytes([flag]) + (len(content) if length is None else length).to_bytes(4, "big") + content


def call_headers(address: Address, path: str, extra: Sequence[tuple[str, str]] = ()) -> list[tuple[str, str]]:
    """Return the headers of a call; an extra header replaces the usual one of its name."""
    usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", f"{address[0]}:{address[1]}"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    replaced = {name for name, _ in extra}
    pseudo = [pair for pair in extra if pair[0].startswith(":")]
    return [
        *pseudo,
        *(pair for pair in usual if pair[0] not in replaced),
        *(pair for pair in extra if pair not in pseudo),
    ]


def call(address: Address, path: str, body: bytes, timeout_s: float, extra: Sequence[tuple[str, str]] = ()) -> Outcome:
    """Make a call on a new connection and return its end."""
    with Connection(address, timeout_s) as connection:
        connection.begin(1, call_headers(address, path, extra))
        connection.send_body(1, body)
        return outcome(connection, 1)


def outcome(connection: Connection, stream: int) -> Outcome:
    """Wait for the end of a call and return it."""
    last = connection.until(ends(stream))
    headers = [pair for each in connection.received if each.stream == stream for pair in each.headers]
    http = next((int(value) for name, value in headers if name == ":status" and value.isdecimal()), None)
    status = next((int(value) for name, value in headers if name == "grpc-status" and value.isdecimal()), None)
    if last is None:
        return Outcome(http, status, "closed" if connection.is_closed else "no end")
    kinds = {RESET: "reset", HEADERS: "ended"}
    return Outcome(http, status, kinds.get(last.kind, "ended" if last.stream == stream else "connection closed"))

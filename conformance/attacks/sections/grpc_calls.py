"""gRPC: malformed and oversized messages, hostile metadata and deadlines, and calls to unknown methods."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence

from conformance.attacks.sections.http2_frames import opened
from conformance.attacks.target import Target
from conformance.attacks.wire.grpc import HEALTH, Outcome, call, call_headers, message, outcome
from conformance.attacks.wire.http2 import CANCEL, DATA, END_STREAM, RESET, frame
from conformance.claim import Claim, claims_into, hold

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
GUIDE = "gRPC over HTTP2"
MIB = 2**20
UNKNOWN = 2  # what a server answers for an exception
MANY = 200
Extra = Sequence[tuple[str, str]]


def _called(target: Target, body: bytes, extra: Extra = (), path: str = HEALTH) -> Outcome:
    key = [("authorization", f"Bearer {target.key}")] if target.key else []
    return call(target.require_grpc(), path, body, target.timeout_s, [*key, *extra])


def _rejected(body: bytes, extra: Extra = (), path: str = HEALTH) -> Callable[[Target], str]:
    """Return an attack whose call must fail."""

    def attempt(target: Target) -> str:
        found = _called(target, body, extra, path)
        hold(found.is_rejected, str(found))
        return str(found)

    return attempt


def _handled(*bodies: bytes, extra: Extra = ()) -> Callable[[Target], str]:
    """Return an attack whose calls must end, and not with an unknown error, which stands for an exception."""

    def attempt(target: Target) -> str:
        for body in bodies:
            found = _called(target, body, extra)
            hold(found.ending != "no end" and found.status != UNKNOWN, str(found))
        return str(found)

    return attempt


def _deep(depth: int) -> bytes:
    """Return a message with an unknown field that nests others."""
    content = b""
    for _ in range(depth):
        size, length = len(content), b""
        while size >= 128:
            length, size = length + bytes([size % 128 + 128]), size // 128
        content = b"\x7a" + length + bytes([size]) + content
    return message(content)


for name, text, attempt in (
    ("length", "A message of 4 GiB by its prefix is rejected", _rejected(message(b"a", length=2**32 - 1))),
    (
        "short",
        "A message that is longer than its prefix says is rejected",
        _rejected(message(b"\x0a\x03abc", length=2) + b"a"),
    ),
    ("empty", "A call that ends without a message is rejected", _rejected(b"")),
    ("cut", "A message that ends early is rejected", _rejected(message(b"a", length=100))),
    (
        "coding",
        "A compressed message without a named coding is rejected",
        _rejected(message(gzip.compress(b""), flag=1)),
    ),
    (
        "unknown_coding",
        "A message of an unknown coding is rejected",
        _rejected(message(b"a", flag=1), [("grpc-encoding", "sluice")]),
    ),
    (
        "garbage",
        "A message that is no gzip is rejected",
        _rejected(message(b"abc", flag=1), [("grpc-encoding", "gzip")]),
    ),
    (
        "bomb",
        "A message that unpacks to 128 MiB is rejected",
        _rejected(message(gzip.compress(bytes(128 * MIB)), flag=1), [("grpc-encoding", "gzip")]),
    ),
    ("large", "A message of 64 MiB is rejected", _rejected(message(bytes(64 * MIB)))),
    (
        "wire",
        "A message of invalid fields is rejected",
        _rejected(message(b"\x0f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")),
    ),
    ("utf8", "A text that isn't UTF-8 is rejected", _rejected(message(b"\x0a\x02\xff\xfe"))),
    ("method", "An unknown method is rejected", _rejected(message(b""), path="/grpc.health.v1.Health/Delete")),
    ("service", "An unknown service is rejected", _rejected(message(b""), path="/admin.v1.Admin/Shutdown")),
    (
        "path",
        "A path with an encoded slash is rejected",
        _rejected(message(b""), path="/grpc.health.v1.Health%2fCheck"),
    ),
    ("long_path", "A path of 100 kB is rejected", _rejected(message(b""), path="/" + "a" * 100_000)),
    (
        "metadata",
        "Metadata of 1 MiB is rejected",
        _rejected(message(b""), [(f"x-{each}", "a" * 2**14) for each in range(64)]),
    ),
    ("timeout", "A deadline that has passed is rejected", _rejected(message(b""), [("grpc-timeout", "0n")])),
):
    attack(f"grpc.{name}", text, GUIDE)(attempt)

for name, text, attempt in (
    ("deep", "A message of 20,000 nested fields ends with no unknown error", _handled(_deep(20_000))),
    (
        "many",
        "A call with ten messages instead of one ends with no unknown error",
        _handled(message(b"") * 10),
    ),
    (
        "binary",
        "Binary metadata that isn't Base64 ends with no unknown error",
        _handled(message(b""), extra=[("x-a-bin", "%%%")]),
    ),
    (
        "reserved",
        "Metadata that imitates a status ends with no unknown error",
        _handled(message(b""), extra=[("grpc-status", "0"), ("grpc-message", "%00%ff")]),
    ),
    (
        "forever",
        "A deadline of ten thousand years ends with no unknown error",
        _handled(message(b""), extra=[("grpc-timeout", "99999999H")]),
    ),
):
    attack(f"grpc.{name}", text, GUIDE)(attempt)


@attack("grpc.timeouts", "Malformed deadlines end with no unknown error", GUIDE)
def _(target: Target) -> str:
    values = ("", "-1S", "1", "S", "1e9S", "999999999S", "1.5S", "\xb9S")
    found = [_called(target, message(b""), [("grpc-timeout", value)]) for value in values]
    hold(all(each.ending != "no end" and each.status != UNKNOWN for each in found), ", ".join(map(str, found)))
    return ", ".join(map(str, found))


@attack("grpc.get", "A call by another method of HTTP is rejected", GUIDE)
def _(target: Target) -> str:
    found = [_called(target, message(b""), [(":method", method)]) for method in ("GET", "PUT", "BREW")]
    hold(all(each.is_rejected for each in found), ", ".join(map(str, found)))
    return ", ".join(map(str, found))


@attack("grpc.open", f"{MANY} calls that never send their message don't block other clients", "CWE-400")
def _(target: Target) -> str:
    address = target.require_grpc()
    with opened(target) as connection:
        for stream in range(1, 2 * MANY, 2):
            connection.begin(stream, call_headers(address, HEALTH))
        target.serve_others("while calls are open")
        last = outcome(connection, 1) if connection.is_closed else "open"
    return f"the first call: {last}"


@attack("grpc.slow", "A message that arrives byte by byte keeps nobody from being served", "CWE-400")
def _(target: Target) -> str:
    address = target.require_grpc()
    with opened(target) as connection:
        connection.begin(1, call_headers(address, HEALTH))
        for each in message(bytes(200)):
            connection.send(frame(DATA, 0, 1, bytes([each])))
        target.serve_others("while the message arrives")
        connection.send(frame(DATA, END_STREAM, 1))
        return str(outcome(connection, 1))


@attack("grpc.cancelled", f"{MANY} calls that are cancelled at once don't block other clients", "CVE-2023-44487")
def _(target: Target) -> str:
    address = target.require_grpc()
    with opened(target) as connection:
        for stream in range(1, 2 * MANY, 2):
            connection.begin(stream, call_headers(address, "/grpc.health.v1.Health/Watch"))
            connection.send(frame(DATA, END_STREAM, stream, message(b"")) + frame(RESET, 0, stream, CANCEL))
        target.serve_others("while calls are cancelled")
    return "others were served"


@attack("grpc.deadlines", f"{MANY} calls whose deadline has nearly passed don't block other clients", "CWE-400")
def _(target: Target) -> str:
    address = target.require_grpc()
    with opened(target) as connection:
        for stream in range(1, 2 * MANY, 2):
            connection.begin(stream, call_headers(address, HEALTH, [("grpc-timeout", "1n")]))
            connection.send(frame(DATA, END_STREAM, stream, message(b"")))
        target.serve_others("while calls expire")
    return "others were served"

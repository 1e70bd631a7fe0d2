"""Floods and slow clients: other clients are served while they hold connections and streams."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from conformance.attacks.target import Target, unread
from conformance.attacks.wire.http1 import read_reply
from conformance.claim import Claim, claims_into, hold

ATTACKS: list[Claim[Target]] = []
attack = claims_into(ATTACKS)
CWE = "CWE-400"
MANY, HEAVY = 100, 1000


@contextmanager
def held(target: Target, count: int, content: bytes) -> Iterator[list[socket.socket]]:
    """Open connections and send `content` on each. Inside the block other clients must be served."""
    connections = target.connections(count, content)
    try:
        target.serve_others(f"while {len(connections)} connections are held")
        yield connections
    finally:
        unread(connections)


def _request(target: Target, **fields: Any) -> bytes:
    """Return a complete chat request as bytes."""
    body = json.dumps(target.rest.body({"max_tokens": 4} | fields)).encode()
    return target.head(f"Content-Length: {len(body)}") + body


@attack("patience.idle", f"{MANY} connections that send nothing don't block other clients", CWE)
def _(target: Target) -> str:
    with held(target, MANY, b"") as connections:
        return f"others were served beyond {len(connections)} connections"


@attack("patience.many", f"{HEAVY:,} connections that send nothing don't block other clients", CWE)
def _(target: Target) -> str:
    target.require_heavy()
    with held(target, HEAVY, b"") as connections:
        return f"others were served beyond {len(connections)} connections"


@attack("patience.heads", f"{MANY} requests whose heads never end don't block other clients", "CVE-2007-6750")
def _(target: Target) -> str:
    with held(target, MANY, target.head("X-A: b")[:-2]) as connections:
        for connection in connections:
            connection.sendall(b"X-B: c\r\n")
        target.serve_others("after another line of each")
        return f"others were served beyond {len(connections)} connections"


@attack("patience.bodies", f"{MANY} requests whose bodies never end don't block other clients", CWE)
def _(target: Target) -> str:
    with held(target, MANY, target.head("Content-Length: 1000") + b'{"model": ') as connections:
        return f"others were served beyond {len(connections)} connections"


@attack("patience.readers", "16 streams that nobody reads don't block other clients", CWE)
def _(target: Target) -> str:
    with held(target, 16, _request(target, stream=True, max_tokens=400)) as connections:
        return f"others were served beyond {len(connections)} connections"


@attack("patience.abandoned", "32 streams that are abandoned at once don't block other clients", CWE)
def _(target: Target) -> str:
    unread(target.connections(32, _request(target, stream=True, max_tokens=2000)))
    target.serve_others("after the clients are gone")
    return "others were served"


@attack("patience.resets", "64 requests whose connections are reset at once don't block other clients", CWE)
def _(target: Target) -> str:
    for connection in target.connections(64, _request(target)):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close with a reset
        connection.close()
    target.serve_others("after the resets")
    return "others were served"


@attack("patience.pipeline", "100 requests in one packet are answered one by one, or the connection is closed", CWE)
def _(target: Target) -> str:
    reply = target.raw(target.head(method="GET", path="/v1/models").replace(b"\r\n\r\n", b"\r\n\r\n") * 100)
    hold(len(reply.statuses) <= 100 and reply.statuses, str(reply))
    hold(max(reply.statuses) < 500, str(reply))
    return f"{len(reply.statuses)} answers"


@attack("patience.half", "A request whose sender closes its side is answered or dropped", "RFC 9112, 9.6")
def _(target: Target) -> str:
    reply = target.raw(_request(target), is_ended=True)
    hold(not reply.statuses or reply.statuses[0] < 500, str(reply))
    return str(reply)


@attack("patience.expect", "A body that waits for `100 Continue` holds no slot", "RFC 9110, 10.1.1")
def _(target: Target) -> str:
    with held(target, 16, target.head("Content-Length: 100", "Expect: 100-continue")) as connections:
        return f"others were served beyond {len(connections)} connections"


@attack("patience.closed", "A head that never ends is closed by the server within two minutes", "CVE-2007-6750")
def _(target: Target) -> str:
    target.require_heavy()
    (connection,) = target.connections(1, target.head("X-A: b")[:-2])
    with connection:
        reply = read_reply(connection, 120)
    hold(reply.is_closed or reply.statuses, "the connection is open after 120 s")
    return str(reply)


@attack("patience.queue", "64 long requests at once are queued or rejected in time, without a server error", CWE)
def _(target: Target) -> str:
    content = _request(target, max_tokens=64, messages=[{"role": "user", "content": "Count to a hundred. " * 20}])
    connections = target.connections(64, content)
    try:
        statuses = [status for each in connections for status in read_reply(each, target.timeout_s).statuses]
    finally:
        unread(connections)
    wrong = [status for status in statuses if status >= 500 and status not in {503, 529}]
    hold(statuses and not wrong, f"{len(statuses)} answers with statuses {sorted(set(statuses))}")
    return f"{len(statuses)} answers with statuses {sorted(set(statuses))}"

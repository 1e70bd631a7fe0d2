"""The attacked server: how it is addressed, and whether it still serves other clients."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from conformance.attacks.canary import Canary
from conformance.attacks.wire.grpc import HEALTH, Outcome, call, message
from conformance.attacks.wire.http1 import Address, Reply, exchange, head
from conformance.claim import InapplicableError, cut, hold
from conformance.server import Server

JSON = {"content-type": "application/json"}
SAFE_SERVER_ERRORS = {501, 505}  # "not implemented" and "HTTP version not supported" reject a request
PAUSE_S = 0.1  # between attempts to be served


@dataclass(frozen=True)
class Target:
    """A server under attack.

    `address` is that of the REST API, `grpc` that of gRPC; `server` is None if the server has no REST API. `key` is a
    valid API key, or empty. Attacks that send more than a few MiB, or last for seconds, run only if `is_heavy`. An
    answer may take `timeout_s`.
    """

    address: Address
    grpc: Address
    server: Server | None
    canary: Canary
    key: str = ""
    is_heavy: bool = False
    timeout_s: float = 60
    has_grpc: bool = False

    @property
    def rest(self) -> Server:
        """The REST API. Raise InapplicableError if there is none."""
        if self.server is None:
            raise InapplicableError("the server has no REST API")
        return self.server

    def require_grpc(self) -> Address:
        """Return the address of gRPC. Raise InapplicableError if the server doesn't answer a health check there."""
        if not self.has_grpc:
            raise InapplicableError("the server answers no gRPC health check")
        return self.grpc

    def require_heavy(self) -> None:
        """Raise InapplicableError unless heavy attacks are allowed."""
        if not self.is_heavy:
            raise InapplicableError("a heavy attack: add --heavy")

    def require_key(self) -> str:
        """Return the valid key. Raise InapplicableError if none was given."""
        if not self.key:
            raise InapplicableError("name a valid key with --key")
        return self.key

    def chat(self, **fields: Any) -> httpx.Response:
        """Send a chat of at most four tokens with these fields added, and return the answer."""
        return self.rest.client.post(self.rest.path(), json=self.rest.body({"max_tokens": 4} | fields))

    def user(self, content: Any, **fields: Any) -> httpx.Response:
        """Send a chat with one message of the user."""
        return self.chat(**{"messages": [{"role": "user", "content": content}]} | fields)

    def send(
        self, content: bytes | Iterable[bytes], headers: Mapping[str, str] = JSON, path: str = ""
    ) -> httpx.Response | None:
        """Send bytes as the body of a chat and return the answer, or None if the server closed the connection."""
        try:
            return self.rest.client.post(path or self.rest.path(), content=content, headers=dict(headers))
        except httpx.TimeoutException:
            raise
        except httpx.TransportError:
            return None

    def raw(self, content: bytes | Iterable[bytes], *, is_ended: bool = False) -> Reply:
        """Send bytes to the REST API's socket and return the reply."""
        _ = self.rest
        return exchange(self.address, content, self.timeout_s, is_ended=is_ended)

    def head(self, *lines: str, method: str = "POST", path: str = "") -> bytes:
        """Return the head of a JSON request with these lines added, and the key if there is one."""
        key = [f"Authorization: Bearer {self.key}"] if self.key else []
        return head(method, path or self.rest.path(), self.address, "Content-Type: application/json", *key, *lines)

    def connections(self, count: int, content: bytes) -> list[socket.socket]:
        """Open connections to the REST API, send these bytes on each, and leave them open.

        Fewer are opened if the server accepts no more of them within `timeout_s`.
        """
        _ = self.rest
        opened: list[socket.socket] = []
        deadline = time.monotonic() + self.timeout_s
        while len(opened) < count and (left := deadline - time.monotonic()) > 0:
            try:
                connection = socket.create_connection(self.address, left)
                opened.append(connection)
                connection.sendall(content)
            except OSError:  # refused by a limit of connections
                break
        return opened

    def is_served(self) -> bool:
        """Return True if a usual request succeeds."""
        if self.server is None:
            return self.health().status == 0
        try:
            return self.chat(max_tokens=1).status_code == 200
        except httpx.HTTPError:
            return False

    def health(self, extra: Iterable[tuple[str, str]] = ()) -> Outcome:
        """Make gRPC's health check."""
        keyed = [("authorization", f"Bearer {self.key}")] if self.key else []
        try:
            return call(self.grpc, HEALTH, message(b""), self.timeout_s, [*keyed, *extra])
        except OSError:
            return Outcome(None, None, "closed")

    def serve_others(self, when: str) -> None:
        """Return when a usual request succeeds; raise BrokenError if none does in time."""
        deadline = time.monotonic() + self.timeout_s
        while not self.is_served():
            hold(time.monotonic() < deadline, f"{when}, no other client was served within {self.timeout_s:g} s")
            time.sleep(PAUSE_S)


def rejected(answer: httpx.Response | None) -> str:
    """Check that a request was rejected as a client's error, or its connection closed; return the observation."""
    if answer is None:
        return "the connection was closed"
    hold(answer.status_code >= 400, f"status {answer.status_code}: {cut(answer.text)}")
    return handled(answer)


def handled(answer: httpx.Response | None) -> str:
    """Check that a request caused no server error; return the observation."""
    if answer is None:
        return "the connection was closed"
    is_safe = answer.status_code < 500 or answer.status_code in SAFE_SERVER_ERRORS
    hold(is_safe, f"status {answer.status_code}: {cut(answer.text)}")
    return f"status {answer.status_code}"


def rejected_reply(reply: Reply) -> str:
    """Check that bytes got one rejection at most, or a closed connection; return the observation."""
    if not reply.statuses:
        hold(reply.is_closed, f"no answer, and the connection stays open: {cut(reply.raw.decode('latin-1'))!r}")
        return "the connection was closed"
    first, *others = reply.statuses
    hold(400 <= first < 500 or first in SAFE_SERVER_ERRORS, f"{reply}: {cut(reply.raw.decode('latin-1'))}")
    hold(not others, f"further requests were found in the body: {reply}")
    return str(reply)


def unread(connections: Iterable[socket.socket]) -> None:
    """Close connections."""
    for connection in connections:
        connection.close()

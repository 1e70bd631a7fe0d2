"""Send requests over HTTP/1.1 and record the arrival time of each chunk of their streams.

The load generator often shares its cores with the server, so nothing is parsed while responses arrive: a chunk takes
some microseconds to store with its time, and `Exchange.record` parses it later. Each request has its own connection,
which is opened before its time starts.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import h11

from cli.bench.dialects import BenchRequest, Dialect
from cli.bench.record import Record
from cli.calls.client_certificate import tls_context

RecordEvent = Callable[[dict[str, Any], Record], bool]  # see `Dialect.record_event`
_LAST_CHUNK = b"0\r\n\r\n"  # of chunked encoding; no data ends like it, because JSON and SSE have no carriage returns
_PORTS = {"http": 80, "https": 443}


class Address:
    """The address of a server, parsed from its base URL. Raise ValueError if the URL is invalid."""

    def __init__(self, url: str, ca_file: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(f"{url} is not a URL that starts with http:// or https://")
        self.host = parts.hostname
        self.port = parts.port or _PORTS[parts.scheme]
        self.name = parts.netloc.rpartition("@")[2]
        self.prefix = parts.path.rstrip("/")
        self.context = tls_context(ca_file) if parts.scheme == "https" else None


class Exchange(asyncio.Protocol):
    """One request and its response, on a separate connection. `sent` and `ended` are `time.perf_counter()` seconds."""

    def __init__(
        self, address: Address, path: str, headers: Mapping[str, str], body: Any, record_event: RecordEvent
    ) -> None:
        """Encode the request now, so that sending takes no time. `record_event` parses the dialect's events."""
        self._record_event = record_event
        data = json.dumps(body).encode()
        all_headers = {"host": address.name, **headers, "connection": "close", "content-length": str(len(data))}
        self._http = h11.Connection(h11.CLIENT)
        self._message = self._http.send(
            h11.Request(method="POST", target=address.prefix + path, headers=list(all_headers.items()))
        )
        self._message = (self._message or b"") + (self._http.send(h11.Data(data)) or b"")
        self._http.send(h11.EndOfMessage())
        self._address = address
        self._chunks: list[tuple[float, bytes]] = []
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._failure = ("", "")
        self.sent = self.ended = 0.0

    @property
    def num_bytes(self) -> int:
        """The number of stored bytes of the response."""
        return sum(len(data) for _, data in self._chunks)

    async def connect(self) -> asyncio.Transport:
        """Open the connection. Raise OSError."""
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: self, self._address.host, self._address.port, ssl=self._address.context
        )
        return transport

    async def run(self, timeout_s: float, transport: asyncio.Transport | None = None) -> None:
        """Send the request, and return when its response has ended or timed out. Cancelling closes the connection.

        `transport` is a connection that `connect` has opened; without it one is opened here.
        """
        self.sent = self.ended = time.perf_counter()
        try:
            transport = transport or await self.connect()
        except OSError as error:
            self._failure = ("no connection", str(error))
            return
        try:
            self.sent = time.perf_counter()
            transport.write(self._message)
            await asyncio.wait_for(self._done, timeout_s)
        except TimeoutError:
            self._failure = ("timeout", f"after {timeout_s:g} s")
        finally:
            self.ended = self._chunks[-1][0] if self._chunks and self._done.done() else time.perf_counter()
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Store a chunk with its time."""
        self._chunks.append((time.perf_counter(), data))
        if data.endswith(_LAST_CHUNK):
            self._end()

    def eof_received(self) -> None:
        """Handle the server's end of the stream."""
        self._end()

    def connection_lost(self, error: Exception | None) -> None:
        """Handle a closed connection; `error` is None if it was closed normally."""
        if error is not None:
            self._failure = ("connection lost", str(error) or type(error).__name__)
        self._end()

    def _end(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    def record(self) -> Record:
        """Parse the stored bytes and return the record. Call it once, after `run`."""
        record = Record(self.sent, ended=self.ended)
        text = b""
        try:
            for moment, data in self._body(record):
                *lines, text = [text + data] if record.error else (text + data).split(b"\n")
                for line in lines:
                    if line.startswith(b"data:") and line[5:].strip().startswith(b"{"):
                        _record(json.loads(line[5:]), moment, record, self._record_event)
        except h11.RemoteProtocolError as error:
            record.fail(*(self._failure if self._failure[0] else self._early_end(str(error))))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            record.fail("invalid stream", str(error))
        if record.error:
            record.detail = record.detail or _reason(text)
        elif self._failure[0]:
            record.fail(*self._failure)
        elif not record.is_finished:
            record.fail("broken stream", "the stream ended without its last event")
        return record

    def _early_end(self, detail: str) -> tuple[str, str]:
        """Return the error's kind and detail for a response that ended early and has no error message."""
        return ("broken stream", detail) if self._chunks else ("connection lost", "closed without a response")

    def _body(self, record: Record) -> Iterator[tuple[float, bytes]]:
        """Yield the arrival time and the data of each part of the response body."""
        for moment, piece in [*self._chunks, (self.ended, b"")]:
            self._http.receive_data(piece)
            while not isinstance(event := self._http.next_event(), type) and not isinstance(event, h11.EndOfMessage):
                if isinstance(event, h11.Response) and event.status_code != 200:
                    record.error = f"HTTP {event.status_code}"
                    record.retry_after = dict(event.headers).get(b"retry-after", b"").decode()
                elif isinstance(event, h11.Data):
                    yield moment, bytes(event.data)
            if isinstance(event, h11.EndOfMessage):
                return


def _record(event: dict[str, Any], moment: float, record: Record, record_event: RecordEvent) -> None:
    """Add an event, or the error that it contains, to the record."""
    if event.get("error"):
        record.fail("error in the stream", _message(event["error"]))
    elif record_event(event, record):
        record.received.append(moment)


def _reason(body: bytes) -> str:
    """Return the message of an error response."""
    text = body.decode(errors="replace")
    try:
        parsed = json.loads(text)
        return " ".join(_message(parsed.get("error", parsed)).split())[:300]
    except (ValueError, AttributeError):
        return " ".join(text.split())[:300]


def _message(error: Any) -> str:
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


class HttpSender:
    """Sends requests to a server in one dialect."""

    def __init__(self, address: Address, dialect: Dialect, key: str, timeout_s: float) -> None:
        self._address = address
        self._dialect = dialect
        self._headers = dialect.request_headers(key)
        self._timeout_s = timeout_s

    async def send(self, request: BenchRequest) -> Exchange:
        """Send a request and return its exchange when it has ended."""
        path = self._dialect.path.format(model=quote(request.model, safe=""))
        exchange = Exchange(self._address, path, self._headers, self._dialect.body(request), self._dialect.record_event)
        await exchange.run(self._timeout_s)
        return exchange

    async def close(self) -> None:
        """Do nothing, because no connection stays open."""

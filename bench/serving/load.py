"""Sends requests over HTTP/1.1 and notes when each piece of their streams came: a process of its own, and a cheap one.

It reads a JSON object from its input: {"port": …, "requests": [{"at": seconds after the start, "body": {…}}, …]}, each
request with a "key" if it has a credential, and writes a JSON list with an object for each: sent, received (when each
event with text came), ended, all in seconds after the start, prompt_tokens, tokens (of the answer), or error. The
server shares two cores with it, so it parses nothing until the last byte is in: about 10 µs a piece.
"""

from __future__ import annotations

import heapq
import json
import selectors
import socket
import sys
import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

PATH = "/v1/chat/completions"
TIMEOUT_S = 200


class Stream:
    """One request and what came of it."""

    def __init__(self, port: int, request: dict[str, Any]) -> None:
        body = json.dumps(request["body"]).encode()
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Type: application/json\r\n"
        if "key" in request:
            head += f"Authorization: Bearer {request['key']}\r\n"
        self.at: float = request["at"]
        self.pieces: list[tuple[float, bytes]] = []
        self.sent = 0.0
        self._message = f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        self._address = ("localhost", port)

    def connect(self) -> socket.socket:
        """Open its connection, which comes before its time begins."""
        self.socket = socket.create_connection(self._address, timeout=TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.socket

    def send(self) -> None:
        self.sent = time.perf_counter()
        self.socket.sendall(self._message)

    def receive(self) -> bool:
        """Take what is there; whether more is to come. A connection that was reset has ended."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        self.pieces.append((time.perf_counter(), data))
        if data and not data.endswith(b"0\r\n\r\n"):
            return True
        self.socket.close()
        return False


def run(port: int, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send each at its time; return when the last answer has ended."""
    streams = [Stream(port, request) for request in requests]
    selector = selectors.DefaultSelector()
    waiting = [(stream.at, number) for number, stream in enumerate(streams)]
    heapq.heapify(waiting)
    opened = [stream for stream in streams if stream.at == 0]
    for stream in opened:
        stream.connect()
    began = time.perf_counter()
    num_open = 0
    while waiting or num_open:
        now = time.perf_counter() - began
        if now > TIMEOUT_S:
            break
        while waiting and waiting[0][0] <= now:
            stream = streams[heapq.heappop(waiting)[1]]
            if stream.at > 0:
                stream.connect()
            stream.send()
            selector.register(stream.socket, selectors.EVENT_READ, stream)
            num_open += 1
        timeout = max(waiting[0][0] + began - time.perf_counter(), 0) if waiting else TIMEOUT_S - now
        for key, _ in selector.select(timeout):
            if not key.data.receive():
                selector.unregister(key.fd)
                num_open -= 1
    return [told(stream, began) for stream in streams]


def told(stream: Stream, began: float) -> dict[str, Any]:
    """What its bytes say."""
    raw = b"".join(piece for _, piece in stream.pieces)
    if not raw.startswith(b"HTTP/1.1 200"):
        error = raw[:1000].decode(errors="replace") or ("reset" if stream.pieces else "no answer in time")
        return {
            "error": error,
            "sent": stream.sent - began,
            "ended": stream.pieces[-1][0] - began if stream.pieces else TIMEOUT_S,
        }
    ends = list(accumulate(len(piece) for _, piece in stream.pieces))
    answer: dict[str, Any] = {"sent": stream.sent - began, "received": [], "ended": stream.pieces[-1][0] - began}
    text = b""
    for end, chunk in chunks(raw):
        *lines, text = (text + chunk).split(b"\n")
        moment = stream.pieces[bisect_left(ends, end)][0] - began
        for line in lines:
            if line.startswith(b"data: {"):
                note(json.loads(line[6:]), moment, answer)
    if "tokens" not in answer or not answer["received"]:
        return answer | {"error": raw[-500:].decode(errors="replace")}
    return answer


def chunks(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """(where it ends in the response, its data) of each chunk of a chunked body."""
    start = raw.index(b"\r\n\r\n") + 4
    while start < len(raw):
        line = raw.index(b"\r\n", start)
        end = line + 2 + int(raw[start:line], 16)
        yield end, raw[line + 2 : end]
        start = end + 2


def note(event: dict[str, Any], moment: float, answer: dict[str, Any]) -> None:
    """Add what one event of the stream tells. Raises RuntimeError for one that tells of a failure."""
    if "error" in event:
        raise RuntimeError(str(event["error"]))
    deltas = [choice.get("delta", {}) for choice in event.get("choices", ())]
    if any(delta.get("content") or delta.get("reasoning_content") for delta in deltas):
        answer["received"].append(moment)
    if usage := event.get("usage"):
        answer |= {"prompt_tokens": usage["prompt_tokens"], "tokens": usage["completion_tokens"]}


if __name__ == "__main__":
    job = json.load(sys.stdin)
    json.dump(run(job["port"], job["requests"]), sys.stdout)

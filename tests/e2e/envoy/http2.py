"""An HTTP/2 client that starts, cancels and pauses many calls at once, as no library does."""

import contextlib
import select
import socket
from collections.abc import Callable

from tests.waiting import GUARD_S

_MAGIC = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PREFACE = _MAGIC + bytes(3) + b"\x04" + bytes(5)  # with an empty SETTINGS frame
NO_WINDOW = _MAGIC + b"\0\0\x06\x04\0\0\0\0\0" + b"\0\x04\0\0\0\0"  # the server may send no data
WATCH, CHAT = "/grpc.health.v1.Health/Watch", "/sluice.v1.ChatService/StreamChat"
TOKENIZE = "/sluice.v1.TokenService/TokenizeText"
_DATA, _HEADERS, _RESET, _SETTINGS, _WINDOW_UPDATE = 0, 1, 3, 4, 8
_INITIAL_WINDOW = 4  # a setting
_MAX_FRAME_BYTES = 16384
_END_STREAM, _END_HEADERS = 1, 4
_CANCEL = (8).to_bytes(4, "big")


def begun_calls(count: int, path: str, message: bytes, *, reset: bool = False, preface: bytes = PREFACE) -> bytes:
    """Return the bytes of a new connection with complete requests, each followed by its reset if `reset`."""
    headers = _call_headers(path)
    body = b"\0" + len(message).to_bytes(4, "big") + message
    content = preface
    for stream in range(1, 2 * count, 2):
        content += _frame(_HEADERS, _END_HEADERS, stream, headers) + _frame(_DATA, _END_STREAM, stream, body)
        if reset:
            content += _frame(_RESET, 0, stream, _CANCEL)
    return content


def requests_with_trailers(count: int, path: str, body: bytes, preface: bytes = PREFACE) -> bytes:
    """Return the bytes of a new connection with complete REST requests that end with trailers."""
    headers = _headers(path, {"content-type": "application/json", "content-length": str(len(body))})
    content = preface
    for stream in range(1, 2 * count, 2):
        content += _frame(_HEADERS, _END_HEADERS, stream, headers) + _frame(_DATA, 0, stream, body)
        content += _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _literal("x-end", "1"))
    return content


def resets(count: int) -> bytes:
    """Return the bytes that cancel these calls."""
    return b"".join(_frame(_RESET, 0, stream, _CANCEL) for stream in range(1, 2 * count, 2))


def wait_for_headers(connection: socket.socket, count: int) -> None:
    """Return when the server has sent the headers of the responses to all calls."""
    connection.settimeout(GUARD_S)
    missing = set(range(1, 2 * count, 2))
    while missing:
        head = connection.recv(9, socket.MSG_WAITALL)
        connection.recv(int.from_bytes(head[:3], "big"), socket.MSG_WAITALL)
        if head[3] == _HEADERS:
            missing.remove(int.from_bytes(head[5:], "big"))


def send_paused_calls(
    connection: socket.socket, count: int, path: str, num_bytes: int, is_enough: Callable[[], bool]
) -> None:
    """Begin calls on a new connection and send `num_bytes` of each without an end, as far as the server reads them.

    A server that reads nothing for two seconds reads no more if it `is_enough`; otherwise it is only slow.
    """
    streams = range(1, 2 * count, 2)
    headers = _call_headers(path)
    connection.sendall(PREFACE + b"".join(_frame(_HEADERS, _END_HEADERS, stream, headers) for stream in streams))
    connection.settimeout(GUARD_S)
    left = dict.fromkeys(streams, num_bytes)
    windows = dict.fromkeys((0, *streams), 65535)
    with contextlib.suppress(ConnectionError):
        while any(left.values()):
            is_blocked = True
            for stream in left:
                size = max(0, min(left[stream], windows[0], windows[stream], _MAX_FRAME_BYTES))
                if size:
                    connection.sendall(_frame(_DATA, 0, stream, bytes(size)))
                    is_blocked = False
                    left[stream] -= size
                    windows[0] -= size
                    windows[stream] -= size
            if not is_blocked:
                continue
            if select.select([connection], [], [], 2)[0]:
                _read_frame(connection, left, windows)
            elif is_enough():
                return


def _read_frame(connection: socket.socket, left: dict[int, int], windows: dict[int, int]) -> None:
    """Apply one frame of the server."""
    head = connection.recv(9, socket.MSG_WAITALL)
    payload = connection.recv(int.from_bytes(head[:3], "big"), socket.MSG_WAITALL)
    stream = int.from_bytes(head[5:], "big")
    if not head:
        raise ConnectionError("closed by the server")
    if head[3] == _WINDOW_UPDATE:
        windows[stream] += int.from_bytes(payload, "big")
    elif head[3] == _SETTINGS:
        for at in range(0, len(payload), 6):
            if int.from_bytes(payload[at : at + 2], "big") == _INITIAL_WINDOW:
                more = int.from_bytes(payload[at + 2 : at + 6], "big") - 65535
                windows.update({each: windows[each] + more for each in left})
    elif head[3] == _RESET:
        left[stream] = 0


def _call_headers(path: str) -> bytes:
    return _headers(path, {"content-type": "application/grpc", "te": "trailers", "authorization": "Bearer wrong"})


def _headers(path: str, further: dict[str, str]) -> bytes:
    names = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "a", **further}
    return b"".join(_literal(*each) for each in names.items())


def _literal(name: str, value: str) -> bytes:
    """Return a header of HPACK that needs no table."""
    return b"\x10" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

"""The bytes of an HTTP/2 client that starts and cancels many calls at once, as no library does."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)  # with an empty SETTINGS frame
WATCH, CHAT = "/grpc.health.v1.Health/Watch", "/sluice.v1.ChatService/StreamChat"
_DATA, _HEADERS, _RESET = 0, 1, 3
_END_STREAM, _END_HEADERS = 1, 4
_CANCEL = (8).to_bytes(4, "big")


def begun_calls(count: int, path: str, message: bytes, *, reset: bool = False) -> bytes:
    """Return the bytes of a new connection with complete requests, each followed by its reset if `reset`."""
    names = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "a"}
    names |= {"content-type": "application/grpc", "te": "trailers", "authorization": "Bearer wrong"}
    headers = b"".join(_literal(*each) for each in names.items())
    body = b"\0" + len(message).to_bytes(4, "big") + message
    content = PREFACE
    for stream in range(1, 2 * count, 2):
        content += _frame(_HEADERS, _END_HEADERS, stream, headers) + _frame(_DATA, _END_STREAM, stream, body)
        if reset:
            content += _frame(_RESET, 0, stream, _CANCEL)
    return content


def resets(count: int) -> bytes:
    """Return the bytes that cancel these calls."""
    return b"".join(_frame(_RESET, 0, stream, _CANCEL) for stream in range(1, 2 * count, 2))


def _literal(name: str, value: str) -> bytes:
    """Return a header of HPACK that needs no table."""
    return b"\x10" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

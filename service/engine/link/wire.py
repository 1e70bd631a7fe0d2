"""Messages between two processes over a socket: pickles with their length in front.

Only what is one's own parent or child is read, so what is unpickled is trusted.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections import abc
from typing import Any

_HEADER = struct.Struct(">Qq")  # length of the pickle, serial of the request that it is about
_CHUNK = 1 << 16  # bytes to read at a time; to make room for more takes longer than to read a small report
NO_SERIAL = -1


def pack(message: Any, serial: int = NO_SERIAL) -> bytes:
    """A message's bytes. `serial` is read even where the message itself can't be."""
    pickled = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(len(pickled), serial) + pickled


class Unreadable:
    """In place of a message that can't be unpickled."""

    def __init__(self, serial: int, error: Exception) -> None:
        self.serial = serial
        self.error = error


class Unpacker:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> abc.Iterator[Any]:
        """The messages that are whole by now; an `Unreadable` in place of one that is broken."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            length, serial = _HEADER.unpack_from(self._buffer)
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            pickled = bytes(memoryview(self._buffer)[_HEADER.size : end])
            del self._buffer[:end]
            try:
                yield pickle.loads(pickled)  # noqa: S301  of one's own parent or child
            except Exception as error:  # noqa: BLE001  a pickle may raise anything
                yield Unreadable(serial, error)


def receive(connection: socket.socket, unpacker: Unpacker) -> abc.Iterator[Any]:
    """Messages as they come, until the other side has closed; waits for them."""
    while data := _read(connection):
        yield from unpacker.feed(data)


def _read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_CHUNK)
    except ConnectionError:  # the other side has died
        return b""

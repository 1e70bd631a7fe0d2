"""Messages between two processes over a socket: pickles with a header that has the length.

A process reads messages only from its own parent or child, so unpickling them is safe.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections import abc
from typing import Any

_HEADER = struct.Struct(">Qq")  # length of the pickle, serial of the request that the message belongs to
CHUNK = 1 << 16  # bytes per read; allocating a larger buffer takes longer than reading a small report
NO_SERIAL = -1


def pack(message: Any, serial: int = NO_SERIAL) -> bytes:
    """Return a message's bytes. The receiver can read `serial` even if it cannot unpickle the message."""
    pickled = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _HEADER.pack(len(pickled), serial) + pickled


class Unreadable:
    """A placeholder for a message that cannot be unpickled."""

    def __init__(self, serial: int, error: Exception) -> None:
        self.serial = serial
        self.error = error


class Unpacker:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> abc.Iterator[Any]:
        """Yield the messages that are now complete, with an `Unreadable` instead of each broken one."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            length, serial = _HEADER.unpack_from(self._buffer)
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            pickled = bytes(memoryview(self._buffer)[_HEADER.size : end])
            del self._buffer[:end]
            try:
                yield pickle.loads(pickled)  # noqa: S301  written by this process's own parent or child
            except Exception as error:  # noqa: BLE001  a pickle may raise anything
                yield Unreadable(serial, error)


def receive(connection: socket.socket, unpacker: Unpacker) -> abc.Iterator[Any]:
    """Wait for messages and yield them, until the peer has closed the connection."""
    while data := _read(connection):
        yield from unpacker.feed(data)


def _read(connection: socket.socket) -> bytes:
    try:
        return connection.recv(CHUNK)
    except ConnectionError:  # the peer has died
        return b""

"""The send buffer for a worker's messages to its parent.

A message is sent immediately. While the parent does not read, a thread sends the buffered messages.
"""

from __future__ import annotations

import queue
import socket
import threading

from service.engine.link.worker import wire


class SendBuffer:
    """A buffer into which any thread can put messages without waiting for the parent."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._num_unsent = 0  # messages in `_unsent` or being sent; unless it is 0, new messages are queued
        self._unsent: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()  # None ends the thread
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)
        self._thread.start()

    def put(self, message: object) -> None:
        """Send a message. It is lost if the parent has ended."""
        data = wire.pack(message)
        with self._lock:
            if not self._num_unsent:
                data = data[self._send(data) :]
            if data:
                self._num_unsent += 1
                self._unsent.put(data)

    def close(self) -> None:
        """Return when all messages are sent or the parent has ended."""
        self._unsent.put(None)
        self._thread.join()

    def _send(self, data: bytes) -> int:
        """Send as many bytes as the socket accepts now, and return their number."""
        try:
            return self._parent.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError:  # the parent has ended
            return len(data)

    def _write(self) -> None:
        while (data := self._unsent.get()) is not None:
            try:
                self._parent.sendall(data)
            except OSError:
                return  # the parent has ended
            with self._lock:
                self._num_unsent -= 1

"""Stop accepting connections on listening sockets without resetting established ones.

Closing a listening socket resets connections that the kernel has established but the program has not accepted yet. For
a client that looks like an aborted request.
"""

import contextlib
import ctypes
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438  # the same on all of Linux
_SO_ATTACH_FILTER = 26
# A classic BPF filter on the TCP header: drop packets with SYN and without ACK, so that started handshakes complete.
_FILTER = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
_NUM_WAITING_AT = 24  # the offset of the backlog length in a listening socket's tcp_info


@contextlib.contextmanager
def listeners_of(pid: int, but_port: int | None) -> Iterator[list[socket.socket]]:
    """Yield duplicates of the listening TCP sockets of a process of the same user, except those on `but_port`.

    They are closed at the end. The list is empty if the kernel forbids the duplication or the process has ended.
    """
    with contextlib.ExitStack() as copies:
        found = []
        with contextlib.suppress(OSError):
            for each in _sockets(pid):
                copies.enter_context(each)
                if each.type is socket.SOCK_STREAM and each.family in {socket.AF_INET, socket.AF_INET6}:
                    listens = each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                    if listens and each.getsockname()[1] != but_port:
                        found.append(each)
        yield found


def reject_new_connections(listeners: Iterable[socket.socket]) -> None:
    """Drop the first packet of each new connection. The client's retry, a second later, finds the port closed."""
    program = b"".join(struct.pack("HBBI", *each) for each in _FILTER)
    kept = ctypes.create_string_buffer(program, len(program))
    option = struct.pack("HP", len(_FILTER), ctypes.addressof(kept))
    for each in listeners:
        with contextlib.suppress(OSError):  # without the filter connections may be reset
            each.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)


def num_waiting(listener: socket.socket) -> int:
    """Return the number of established connections that are not accepted yet."""
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _NUM_WAITING_AT + 4)
    return int(struct.unpack_from("I", info, _NUM_WAITING_AT)[0])


def _sockets(pid: int) -> Iterator[socket.socket]:
    """Yield a duplicate of each socket of a process. Raise OSError."""
    handle = os.pidfd_open(pid)
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed in the meantime
                if link.readlink().name.startswith("socket:"):
                    copy = _LIBC.syscall(_PIDFD_GETFD, handle, int(link.name), 0)
                    if copy < 0:
                        raise OSError(ctypes.get_errno(), "a socket can't be duplicated")
                    yield socket.socket(fileno=copy)
    finally:
        os.close(handle)

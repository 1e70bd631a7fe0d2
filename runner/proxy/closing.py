"""Close listening sockets: stop accepting new connections, and serve those that were accepted.

Closing a listening socket resets connections that the kernel has made and the program has not taken yet. To a caller
that looks like a request that was cut.
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
# In classic BPF, on the TCP header: drop what has SYN and not ACK; handshakes that have begun come to their end.
_FILTER = ((0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
_NUM_WAITING_AT = 24  # in tcp_info, of a listening socket


@contextlib.contextmanager
def listeners_of(pid: int, but_port: int) -> Iterator[list[socket.socket]]:
    """Copies of the sockets on which a process of the same user listens over TCP, without that of one port.

    They are closed at the end. None where the kernel forbids to copy them, and of a process that has ended.
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


def turn_away(listeners: Iterable[socket.socket]) -> None:
    """Drop the first packet of each new connection: who tries again, after a second, finds nobody listening."""
    program = b"".join(struct.pack("HBBI", *each) for each in _FILTER)
    kept = ctypes.create_string_buffer(program, len(program))
    option = struct.pack("HP", len(_FILTER), ctypes.addressof(kept))
    for each in listeners:
        with contextlib.suppress(OSError):  # as good as before
            each.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)


def num_waiting(listener: socket.socket) -> int:
    """Connections that are made and not taken."""
    info = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _NUM_WAITING_AT + 4)
    return int(struct.unpack_from("I", info, _NUM_WAITING_AT)[0])


def _sockets(pid: int) -> Iterator[socket.socket]:
    """A copy of each; raises OSError."""
    handle = os.pidfd_open(pid)
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed since
                if link.readlink().name.startswith("socket:"):
                    copy = _LIBC.syscall(_PIDFD_GETFD, handle, int(link.name), 0)
                    if copy < 0:
                        raise OSError(ctypes.get_errno(), "a socket can't be copied")
                    yield socket.socket(fileno=copy)
    finally:
        os.close(handle)

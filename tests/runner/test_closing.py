"""Listening sockets before they are closed."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys

import pytest

from runner.proxy.closing import listeners_of, num_waiting, reject_new_connections
from tests.waiting import wait_until

STATE_AT, NUM_RETRANSMITS_AT = 0, 2  # offsets in `struct tcp_info`
SYN_SENT = 2
LISTENER = """
import socket, sys
listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(each.getsockname()[1] for each in listeners), flush=True)
sys.stdin.readline()
taken, _ = listeners[0].accept()
print(taken.recv(9).decode(), flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_established_connections_are_served_and_new_ones_rejected() -> None:
    """The excluded port is not affected."""
    command = [sys.executable, "-c", LISTENER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port, kept_port = map(int, process.stdout.readline().split())
        with (
            socket.create_connection(("127.0.0.1", port)) as caller,
            listeners_of(process.pid, kept_port) as (listener,),
        ):
            wait_until(lambda: num_waiting(listener) == 1)
            reject_new_connections([listener])
            check_no_answer(port)
            socket.create_connection(("127.0.0.1", kept_port)).close()
            caller.sendall(b"answer me")
            process.stdin.write("now\n")
            process.stdin.flush()
            assert process.stdout.readline() == "answer me\n"
            assert num_waiting(listener) == 0
        process.communicate("end\n")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def check_no_answer(port: int) -> None:
    """Check that a connection is not established: its first packet gets no answer and is sent again."""
    with socket.socket() as caller:
        caller.setblocking(False)
        assert caller.connect_ex(("127.0.0.1", port)) == errno.EINPROGRESS
        wait_until(lambda: tcp_info(caller)[NUM_RETRANSMITS_AT] > 0)
        assert tcp_info(caller)[STATE_AT] == SYN_SENT


def tcp_info(connection: socket.socket) -> bytes:
    """Return the beginning of the kernel's `struct tcp_info` of a socket."""
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, NUM_RETRANSMITS_AT + 1)


def test_a_process_that_has_ended_listens_nowhere() -> None:
    """A process that has ended has no listeners and causes no error."""
    process = subprocess.Popen(["true"])
    process.wait()
    with listeners_of(process.pid, 0) as listeners:
        assert listeners == []

"""The gateway closes connections whose peer has vanished."""

from __future__ import annotations

import socket
import sys

import pytest

from gateway.server.listeners import listen
from gateway.settings.config import Settings


@pytest.mark.skipif(sys.platform != "linux", reason="other systems hand no options on from the listener")
def test_accepted_connections_have_keepalive_and_user_timeout() -> None:
    listener = listen(Settings(port=0, send_stall_timeout_s=7))
    with listener, socket.create_connection(listener.getsockname()), listener.accept()[0] as connection:
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000

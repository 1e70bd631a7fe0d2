"""The sockets on which the gateway listens, for clients, operators or both."""

from __future__ import annotations

import enum
import math
import socket
from collections.abc import Mapping

from gateway.settings.config import Settings
from process.network.address import host_port

_PROBE_AFTER_S, _PROBE_INTERVAL_S, _NUM_PROBES = 30, 10, 3  # of an idle connection


class ListenerAudience(enum.Enum):
    """The clients that a listener is for."""

    ALL = "all"  # both; metrics need the scope `metrics`
    CALLERS = "callers"
    OPERATORS = "operators"  # all routes; metrics need no scope


def listen_all(settings: Settings) -> Mapping[ListenerAudience, socket.socket]:
    """Return the shared listener, or those for clients and operators. Raise OSError that names the address."""
    addresses = {ListenerAudience.ALL: (settings.host, settings.port)}
    if settings.admin_port is not None:
        addresses = {
            ListenerAudience.CALLERS: (settings.host, settings.port),
            ListenerAudience.OPERATORS: (settings.admin_host, settings.admin_port),
        }
    listeners = {}
    for audience, (host, port) in addresses.items():
        try:
            listeners[audience] = listen(settings.model_copy(update={"host": host, "port": port}))
        except OSError as error:
            raise OSError(f"can't listen on {host_port(host, port)}: {error.strerror or error}") from error
    return listeners


def listen(settings: Settings) -> socket.socket:
    """Return a listener whose connections are closed if the peer has disappeared or reads nothing for too long.

    Linux passes these options on to each connection. Without them a connection whose peer's machine is gone stays open
    for hours, and one whose peer doesn't read can't be closed, because written data has to be sent first.
    """
    host, port = settings.host, settings.port
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    listener = socket.create_server(address[:2], family=family, backlog=2048)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {
        "TCP_KEEPIDLE": _PROBE_AFTER_S,
        "TCP_KEEPINTVL": _PROBE_INTERVAL_S,
        "TCP_KEEPCNT": _NUM_PROBES,
        "TCP_USER_TIMEOUT": math.ceil(settings.send_stall_timeout_s * 1000),
    }.items():
        if (option := getattr(socket, name, None)) is not None:  # some exist on Linux only
            listener.setsockopt(socket.IPPROTO_TCP, option, value)
    return listener

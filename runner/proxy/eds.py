"""Envoy's endpoint discovery (EDS) files: the addresses of a pool's replicas. Envoy reloads a file when it is replaced.

Each file holds one `ClusterLoadAssignment`. An operator, a deployment script or a controller can write it.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from process.files.replacement import replace_file

_TYPE = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"


@dataclass(frozen=True, slots=True)
class Host:
    """The address of a replica and its load balancing weight, at least 1."""

    address: str
    port: int
    weight: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `host:port` or `[IPv6 address]:port`. Raise ValueError for other text."""
        address, _, port = text.rpartition(":")
        address = address.removeprefix("[").removesuffix("]")
        if not address or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(f"{text!r} is not a host:port")
        return cls(address, int(port))

    def require_ip(self) -> None:
        """Raise ValueError for a host name, which Envoy does not resolve in EDS files."""
        try:
            ipaddress.ip_address(self.address)
        except ValueError:
            text = f"{str(self)!r} must be an IP address and a port, because Envoy resolves no names in files of hosts"
            raise ValueError(text) from None

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    def socket_address(self) -> dict[str, Any]:
        """Return the address in Envoy's format."""
        return {"socket_address": {"address": self.address, "port_value": self.port}}


def assignment(pool: str, hosts: Iterable[Host]) -> dict[str, Any]:
    """Return a pool's replicas as a `ClusterLoadAssignment`."""
    endpoints = [
        {"endpoint": {"address": host.socket_address()}, "load_balancing_weight": host.weight} for host in hosts
    ]
    return {"cluster_name": pool, "endpoints": [{"lb_endpoints": endpoints}]}


def hosts_file(folder: Path, pool: str) -> Path:
    """Return the path of a pool's file."""
    return folder / f"{pool}.json"


def write_hosts(folder: Path, pool: str, hosts: Iterable[Host]) -> Path:
    """Replace a pool's replicas, which may be none, and return the file's path. Raise OSError.

    Addresses must be IP addresses, because Envoy does not resolve host names in EDS files.
    """
    path = hosts_file(folder, pool)
    text = json.dumps({"resources": [{"@type": _TYPE, **assignment(pool, hosts)}]})
    replace_file(path, text, mode=0o644)  # Envoy may run as another user
    return path


def read_hosts(folder: Path, pool: str) -> list[Host]:
    """Return the replicas in a pool's file. Raise OSError."""
    (resource,) = json.loads(hosts_file(folder, pool).read_text(encoding="utf-8"))["resources"]
    return [
        Host(address["address"], address["port_value"], endpoint.get("load_balancing_weight", 1))
        for locality in resource["endpoints"]
        for endpoint in locality["lb_endpoints"]
        for address in [endpoint["endpoint"]["address"]["socket_address"]]
    ]

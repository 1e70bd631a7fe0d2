"""Files that tell Envoy where the replicas of a pool are, which it reads again whenever one is put in place of another.

They are endpoint discovery's (EDS) in its form as files: one `ClusterLoadAssignment` each. Whoever knows which replicas
there are may write them: a person, a deployment's script, a controller.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

_TYPE = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"


@dataclass(frozen=True, slots=True)
class Host:
    """Where a replica listens, and its part of the requests beside those of other weights, from 1 on."""

    address: str
    port: int
    weight: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of `host:port` or `[address of IPv6]:port`. Raises ValueError."""
        address, _, port = text.rpartition(":")
        address = address.removeprefix("[").removesuffix("]")
        if not address or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise ValueError(f"{text!r} is no host:port")
        return cls(address, int(port))

    def __str__(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    def socket_address(self) -> dict[str, Any]:
        """As Envoy has it."""
        return {"socket_address": {"address": self.address, "port_value": self.port}}


def assignment(pool: str, hosts: Iterable[Host]) -> dict[str, Any]:
    """A pool's replicas in Envoy's words."""
    endpoints = [
        {"endpoint": {"address": host.socket_address()}, "load_balancing_weight": host.weight} for host in hosts
    ]
    return {"cluster_name": pool, "endpoints": [{"lb_endpoints": endpoints}]}


def hosts_file(folder: Path, pool: str) -> Path:
    """The file of a pool's replicas."""
    return folder / f"{pool}.json"


def write_hosts(folder: Path, pool: str, hosts: Iterable[Host]) -> Path:
    """Put a pool's replicas in place of those that Envoy knows, none if there are none, and return the file's path.

    Addresses must be numbers: Envoy looks up no names that stand in such a file. Raises OSError.
    """
    path = hosts_file(folder, pool)
    text = json.dumps({"resources": [{"@type": _TYPE, **assignment(pool, hosts)}]})
    handle, new = tempfile.mkstemp(prefix=f".{path.name}.", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o644)  # Envoy may be another user
            file.write(text)
        Path(new).replace(path)
    except BaseException:
        Path(new).unlink(missing_ok=True)
        raise
    return path


def read_hosts(folder: Path, pool: str) -> list[Host]:
    """What such a file has. Raises OSError."""
    (resource,) = json.loads(hosts_file(folder, pool).read_text(encoding="utf-8"))["resources"]
    return [
        Host(address["address"], address["port_value"], endpoint.get("load_balancing_weight", 1))
        for locality in resource["endpoints"]
        for endpoint in locality["lb_endpoints"]
        for address in [endpoint["endpoint"]["address"]["socket_address"]]
    ]

"""The description of a fleet: the addresses of its gateways and services, and the models of each pool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from runner.proxy.eds import Host
from runner.proxy.envoy_config import GATEWAY, OPERATORS, SERVICE, UPLOADS, WATCH

GATEWAYS = "gateway"  # the name of the gateways' pool
DEFAULT = "service"  # the name of the pool for all models that no other pool lists

HostPort: TypeAlias = Annotated[Host, BeforeValidator(lambda given: Host.parse(given) if type(given) is str else given)]


class FleetError(ValueError):
    """A fleet's description is invalid; the message is one line for the user."""


class Pool(BaseModel):
    """A pool of services that serve the same models."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(
        DEFAULT, pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", description="lower-case letters, digits, -"
    )
    models: list[str] = Field(
        [], description="models and endpoints routed to the pool; the pool `service` gets all that no pool lists"
    )
    hosts: list[HostPort] = Field([], description="host:port of each service; a name stands for all of its addresses")


class TlsFolders(BaseModel):
    """The folder of certificates, with the file names of `sluice certs dev`, and the folder of Envoy's SDS files."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    certificates: Path
    secrets: Path
    mutual: bool = False


class Fleet(BaseModel):
    """The gateways and services behind one Envoy, or behind several with the same configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: HostPort = Field(Host("0.0.0.0", 8080), description="the public listener")  # noqa: S104  it is public
    inner: HostPort = Field(Host("127.0.0.1", 8081), description="the listener for gateways only")
    admin: HostPort = Field(Host("127.0.0.1", 9901), description="Envoy's admin interface, which can stop Envoy")
    hosts_folder: Path | None = Field(
        None,
        description="folder of EDS files with the replicas' addresses, which Envoy watches; unset: `hosts` are used",
    )
    gateways: list[HostPort] = Field([], description="host:port of each gateway")
    services: list[Pool] = Field(min_length=1, description="pools of services; one is called `service`")
    otlp_endpoint: str | None = Field(None, description="host:port of an OTLP collector for Envoy's spans")
    threads: int = Field(1, ge=1, le=64, description="Envoy's threads, its --concurrency")
    envoys: int = Field(1, ge=1, le=64, description="Envoys that share the clients' requests")
    cors_origins: list[str] = Field([], description="allowed origins of web pages; * for all")
    tls: TlsFolders | None = None

    @model_validator(mode="after")
    def _pools_differ(self) -> Self:
        names = [pool.name for pool in self.services]
        if names.count(DEFAULT) != 1 or len(set(names)) < len(names) or GATEWAYS in names:
            raise ValueError(
                f"services: names must be unique; one pool must be named {DEFAULT!r} and none {GATEWAYS!r}"
            )
        models = [model for pool in self.services for model in pool.models]
        if (duplicate := next((model for model in models if models.count(model) > 1), None)) is not None:
            raise ValueError(f"services: {duplicate!r} is in two pools")
        clusters = {GATEWAY: GATEWAY, OPERATORS: GATEWAY, "otlp": "the collector"}
        for pool in self.services:
            for cluster in clusters_of(pool.name):
                if (other := clusters.setdefault(cluster, pool.name)) != pool.name:
                    raise ValueError(f"services: {cluster!r} is the name of another cluster, of {other} or {pool.name}")
        for pool in self.services:
            if pool.name != DEFAULT and not pool.models:
                raise ValueError(f"services: the pool {pool.name!r} has no models, so no call would go there")
        return self

    @model_validator(mode="after")
    def _hosts_are_known(self) -> Self:
        for name, hosts in self.pools().items():
            if not hosts and self.hosts_folder is None:
                raise ValueError(f"the pool {name!r} has no hosts; name some, or a hosts_folder where they will be")
            if self.hosts_folder is not None:
                _require_ips(name, hosts)
        return self

    def pools(self) -> dict[str, list[Host]]:
        """Return the hosts of each pool, including the gateways' pool."""
        return {GATEWAYS: self.gateways, **{pool.name: pool.hosts for pool in self.services}}


def own_cluster(pool: str, cluster: str) -> str:
    """Return the name of a pool's own cluster for one of the service's clusters of envoy.yaml."""
    return pool + cluster.removeprefix(SERVICE)


def affinity_cluster(pool: str) -> str:
    """Return the name of a pool's cluster for calls with an affinity header."""
    return f"{pool}-affinity"


def clusters_of(pool: str) -> list[str]:
    """Return the names of all clusters of a pool."""
    return [affinity_cluster(pool), *(own_cluster(pool, cluster) for cluster in (SERVICE, WATCH, UPLOADS))]


def _require_ips(pool: str, hosts: list[Host]) -> None:
    for host in hosts:
        try:
            host.require_ip()
        except ValueError as error:
            raise ValueError(f"{pool}: {error}") from None


def read_fleet(path: Path) -> Fleet:
    """Read a fleet's description from a YAML file. Raise FleetError if it is invalid."""
    try:
        found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Fleet.model_validate(found if found is not None else {})
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise FleetError(f"{path}: {': '.join(filter(None, (field, first['msg'])))}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise FleetError(f"{path}: {reason}") from error

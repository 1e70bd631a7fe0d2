"""A fleet's description: where its gateways and services are, and which models are in which pool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self, TypeAlias

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from runner.proxy.eds import Host

GATEWAYS = "gateway"  # their pool's name
DEFAULT = "service"  # the name of the pool that has what no other has

HostPort: TypeAlias = Annotated[Host, BeforeValidator(lambda given: Host.parse(given) if type(given) is str else given)]


class FleetError(ValueError):
    """A fleet can't be as it is described; the message is one line for the user."""


class Pool(BaseModel):
    """Services that serve the same models."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(DEFAULT, pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", description="small letters, digits, -")
    models: list[str] = Field(
        [], description="models and endpoints whose calls go there; the pool `service` has all that are named nowhere"
    )
    hosts: list[HostPort] = Field([], description="host:port of each; a name stands for all of its addresses")


class TlsFolders(BaseModel):
    """Where certificates are, named as `sluice certs dev` names them, and a folder for files that name those."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    certificates: Path
    secrets: Path
    mutual: bool = False


class Fleet(BaseModel):
    """What stands behind one Envoy, or behind several that are alike."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: HostPort = Field(Host("0.0.0.0", 8080), description="where callers are")  # noqa: S104  a front door
    inner: HostPort = Field(Host("127.0.0.1", 8081), description="where the gateways' calls come, and nobody else's")
    admin: HostPort = Field(Host("127.0.0.1", 9901), description="Envoy's own interface: it can stop Envoy")
    hosts_folder: Path | None = Field(
        None, description="folder of files that say where replicas are, which Envoy watches; unset: `hosts` count"
    )
    gateways: list[HostPort] = Field([], description="host:port of each")
    services: list[Pool] = Field(min_length=1, description="pools of services; one is called `service`")
    otlp_endpoint: str | None = Field(None, description="host:port of an OTLP collector for Envoy's spans")
    cors_origins: list[str] = Field([], description="origins of web pages that may call; * for all")
    tls: TlsFolders | None = None

    @model_validator(mode="after")
    def _pools_differ(self) -> Self:
        names = [pool.name for pool in self.services]
        if names.count(DEFAULT) != 1 or len(set(names)) < len(names) or GATEWAYS in names:
            raise ValueError(f"services: one pool is called {DEFAULT!r}, none {GATEWAYS!r}, and no two alike")
        models = [model for pool in self.services for model in pool.models]
        if (twice := next((model for model in models if models.count(model) > 1), None)) is not None:
            raise ValueError(f"services: {twice!r} is in two pools")
        for pool in self.services:
            if pool.name != DEFAULT and not pool.models:
                raise ValueError(f"services: the pool {pool.name!r} has no models, so no call would go there")
        return self

    @model_validator(mode="after")
    def _hosts_are_known(self) -> Self:
        for name, hosts in self.pools().items():
            if not hosts and self.hosts_folder is None:
                raise ValueError(f"the pool {name!r} has no hosts; name some, or a hosts_folder where they will be")
        return self

    def pools(self) -> dict[str, list[Host]]:
        """The hosts of each pool, the gateways' among them."""
        return {GATEWAYS: self.gateways, **{pool.name: pool.hosts for pool in self.services}}


def read_fleet(path: Path) -> Fleet:
    """The fleet that a YAML file describes. Raises FleetError."""
    try:
        found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Fleet.model_validate(found if found is not None else {})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise FleetError(f"{path}: {': '.join(filter(None, (place, first['msg'])))}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise FleetError(f"{path}: {reason}") from error

"""What `sluice ray` is to keep running: pools of a fleet, each with its service's settings and how many of it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Final, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from cluster.scaling import Scaling
from runner.fleet import DEFAULT, GATEWAYS, Fleet, FleetError, read_fleet

_CHOSEN: Final = frozenset({"host", "port", "metrics_host", "metrics_port"})
_MOST: Final = 1000


class DeploymentError(ValueError):
    """It can't be deployed as it is described; the message is one line for the user."""


def _without_addresses(settings: dict[str, Any]) -> dict[str, Any]:
    if chosen := sorted(_CHOSEN & settings.keys()):
        raise ValueError(f"{', '.join(chosen)} can't be set: each replica's addresses are chosen on its node")
    if "tls" in settings:
        raise ValueError("tls can't be set: replicas on Ray are called without TLS")
    return settings


class PoolDeployment(BaseModel):
    """A pool's replicas, each a process of the service."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(DEFAULT, description="one of the fleet's pools of services")
    settings: Annotated[dict[str, Any], AfterValidator(_without_addresses)] = Field(
        {}, description="the service's, as in its file; paths are those of the nodes"
    )
    min_replicas: int = Field(
        1, ge=0, le=_MOST, description="how many there are at least; 0: none while none is called"
    )
    max_replicas: int = Field(1, ge=1, le=_MOST, description="how many there are at most")
    resources: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        {"CPU": 1}, description="what a replica takes of its node, by Ray's names: CPU, GPU, memory (bytes), your own"
    )
    revision: str = Field("", max_length=64, description="any text; another one replaces all replicas")
    surge: bool = Field(True, description="replace a replica after its successor serves; false: before it starts")
    start_timeout_s: float = Field(600, gt=0, le=86_400, description="time in which a placed replica must serve")
    scaling: Scaling = Field(Scaling(), description="when there are more and fewer")

    @model_validator(mode="after")
    def _counts_fit(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"min_replicas ({self.min_replicas}) is above max_replicas ({self.max_replicas})")
        return self

    @property
    def service_settings(self) -> dict[str, Any]:
        """What a replica starts with. By its name the pool has models of its own in a store that others use, too."""
        return {**self.settings, "store": {"pool": self.name, **self.settings.get("store", {})}}

    @property
    def fingerprint(self) -> str:
        """The same for what needs no replica to be replaced."""
        text = json.dumps([self.settings, self.resources, self.revision], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Deployment(BaseModel):
    """The pools, and where they are told to Envoy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fleet: Path = Field(description="the file that `sluice envoy` takes, with a hosts_folder; relative to this one")
    address: str = Field("auto", min_length=1, description="of the Ray cluster; auto: the one that this node is of")
    namespace: str = Field("sluice", min_length=1, max_length=64, description="Ray's, of this deployment alone")
    pools: list[PoolDeployment] = Field(min_length=1, description="what runs on Ray")

    def check(self, fleet: Fleet) -> Path:
        """The folder of the files of hosts. Raises DeploymentError if the fleet is none for these pools."""
        if fleet.hosts_folder is None:
            raise DeploymentError(f"{self.fleet}: hosts_folder must be set: the replicas' addresses are written there")
        if fleet.tls is not None:
            raise DeploymentError(f"{self.fleet}: tls must be unset: replicas on Ray are called without TLS")
        known = fleet.pools().keys() - {GATEWAYS}
        names = [pool.name for pool in self.pools]
        for index, name in enumerate(names):
            if name not in known:
                raise DeploymentError(
                    f"pools.{index}.name: {name!r} is no pool of {self.fleet}: {', '.join(sorted(known))}"
                )
            if name in names[:index]:
                raise DeploymentError(f"pools.{index}.name: {name!r} is there twice")
        return fleet.hosts_folder


def read_deployment(path: Path) -> tuple[Deployment, Fleet]:
    """What a YAML file describes, and its fleet, with paths by which they are found. Raises DeploymentError."""
    try:
        found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
        deployment = Deployment.model_validate(found if found is not None else {})
        deployment = deployment.model_copy(update={"fleet": path.parent / deployment.fleet})
        fleet = read_fleet(deployment.fleet)
        deployment.check(fleet)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise DeploymentError(f"{path}: {': '.join(filter(None, (field, first['msg'])))}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise DeploymentError(f"{path}: {reason}") from error
    except DeploymentError as error:
        raise DeploymentError(f"{path}: {error}") from error
    except FleetError as error:
        raise DeploymentError(str(error)) from error
    return deployment, fleet

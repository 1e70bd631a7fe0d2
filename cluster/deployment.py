"""The deployment of `sluice ray`: pools of a fleet, each with its service settings and number of replicas."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Final, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from cluster.scaling import Scaling
from runner.proxy.fleet import DEFAULT, GATEWAYS, Fleet, FleetError, read_fleet

_CHOSEN: Final = frozenset({"host", "port", "metrics_host", "metrics_port"})
_MOST: Final = 1000


class DeploymentError(ValueError):
    """A deployment is invalid; the message is one line for the user."""


def _without_addresses(settings: dict[str, Any]) -> dict[str, Any]:
    if chosen := sorted(_CHOSEN & settings.keys()):
        raise ValueError(f"{', '.join(chosen)} can't be set: each replica's addresses are chosen on its node")
    if "tls" in settings:
        raise ValueError("tls can't be set: replicas on Ray are called without TLS")
    return settings


class PoolDeployment(BaseModel):
    """The replicas of a pool. Each is a process of the service."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(DEFAULT, description="one of the fleet's pools of services")
    settings: Annotated[dict[str, Any], AfterValidator(_without_addresses)] = Field(
        {}, description="the service's settings, as in its file; paths are on the nodes"
    )
    min_replicas: int = Field(1, ge=0, le=_MOST, description="minimum number of replicas; 0: none until the first call")
    max_replicas: int = Field(1, ge=1, le=_MOST, description="maximum number of replicas")
    resources: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = Field(
        {"CPU": 1}, description="the resources of a replica, by Ray's names: CPU, GPU, memory (bytes), or custom ones"
    )
    revision: str = Field("", max_length=64, description="any text; changing it replaces all replicas")
    surge: bool = Field(True, description="replace a replica after its successor serves; false: before it starts")
    start_timeout_s: float = Field(600, gt=0, le=86_400, description="time in which a placed replica must serve")
    scaling: Scaling = Field(Scaling(), description="the scaling rules")

    @model_validator(mode="after")
    def _counts_fit(self) -> Self:
        if self.min_replicas > self.max_replicas:
            raise ValueError(f"min_replicas ({self.min_replicas}) is above max_replicas ({self.max_replicas})")
        return self

    @property
    def service_settings(self) -> dict[str, Any]:
        """The settings of a replica. The pool's name separates its models from other pools' in a shared store."""
        return {**self.settings, "store": {"pool": self.name, **self.settings.get("store", {})}}

    @property
    def fingerprint(self) -> str:
        """A hash of all that requires replicas to be replaced if it changes."""
        text = json.dumps([self.settings, self.resources, self.revision], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


class Deployment(BaseModel):
    """The pools, and the fleet whose EDS files they are published to."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fleet: Path = Field(description="the fleet file of `sluice envoy`, with a hosts_folder; relative to this file")
    address: str = Field("auto", min_length=1, description="address of the Ray cluster; auto: the cluster of this node")
    namespace: str = Field(
        "sluice", min_length=1, max_length=64, description="Ray namespace, used by this deployment only"
    )
    pools: list[PoolDeployment] = Field(min_length=1, description="the pools on Ray")

    def check(self, fleet: Fleet) -> Path:
        """Return the folder of EDS files. Raise DeploymentError if the fleet does not fit these pools."""
        if fleet.hosts_folder is None:
            raise DeploymentError(f"{self.fleet}: hosts_folder must be set: the replicas' addresses are written there")
        if fleet.tls is not None:
            raise DeploymentError(f"{self.fleet}: tls must be unset: replicas on Ray are called without TLS")
        known = fleet.pools().keys() - {GATEWAYS}
        names = [pool.name for pool in self.pools]
        for index, name in enumerate(names):
            if name not in known:
                raise DeploymentError(
                    f"pools.{index}.name: {name!r} is not a pool of {self.fleet}: {', '.join(sorted(known))}"
                )
            if name in names[:index]:
                raise DeploymentError(f"pools.{index}.name: {name!r} is listed twice")
        return fleet.hosts_folder


def read_deployment(path: Path) -> tuple[Deployment, Fleet]:
    """Read a deployment and its fleet from YAML files, with resolved paths. Raise DeploymentError if invalid."""
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

"""Deployment files: valid ones, and the errors for invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.deployment import DeploymentError, PoolDeployment, read_deployment
from service.settings.config import Settings as ServiceSettings

ROOT = Path(__file__).parents[2]
FLEET: dict[str, Any] = {
    "hosts_folder": "hosts",
    "services": [{"name": "service"}, {"name": "large", "models": ["big"]}],
}


def written(folder: Path, deployment: object, fleet: object = None) -> Path:
    """Write the files and return the path of the deployment."""
    (folder / "fleet.yaml").write_text(yaml.safe_dump(FLEET if fleet is None else fleet))
    path = folder / "ray.yaml"
    path.write_text(yaml.safe_dump(deployment))
    return path


def test_the_example_is_valid() -> None:
    """The example has settings of the service, and pools with separate counts."""
    deployment, fleet = read_deployment(ROOT / "deploy" / "ray" / "deployment.yaml")
    assert {pool.name: (pool.min_replicas, pool.max_replicas) for pool in deployment.pools} == {
        "service": (1, 4),
        "large": (0, 2),
    }
    assert {pool.name for pool in deployment.pools} == {pool.name for pool in fleet.services}
    for pool in deployment.pools:
        ServiceSettings.model_validate(pool.service_settings)


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ({"min_replicas": 3, "max_replicas": 2}, "pools.0: Value error, min_replicas (3) is above max_replicas (2)"),
        ({"max_replicas": 1001}, "pools.0.max_replicas: Input should be less than or equal to 1000"),
        ({"min_replicas": -1}, "pools.0.min_replicas: Input should be greater than or equal to 0"),
        ({"settings": {"port": 1}}, "pools.0.settings: Value error, port can't be set"),
        ({"settings": {"tls": {}}}, "pools.0.settings: Value error, tls can't be set"),
        ({"resources": {"GPU": 0}}, "pools.0.resources.GPU: Input should be greater than 0"),
        ({"scaling": {"target_sequences": 0}}, "pools.0.scaling.target_sequences: Input should be greater than 0"),
        ({"replicas": 2}, "pools.0.replicas: Extra inputs are not permitted"),
        ({"name": "small"}, "pools.0.name: 'small' is not a pool of "),
        ({"name": "gateway"}, "pools.0.name: 'gateway' is not a pool of "),
    ],
)
def test_invalid_fields_are_reported_in_one_line(pool: dict[str, Any], words: str, tmp_path: Path) -> None:
    """The line names the field and its limit."""
    path = written(tmp_path, {"fleet": "fleet.yaml", "pools": [pool]})
    with pytest.raises(DeploymentError) as rejected:
        read_deployment(path)
    assert str(rejected.value).startswith(f"{path}: {words}")
    assert "\n" not in str(rejected.value)


def test_repeated_pool_name_is_rejected(tmp_path: Path) -> None:
    path = written(tmp_path, {"fleet": "fleet.yaml", "pools": [{}, {}]})
    with pytest.raises(DeploymentError, match=r"pools\.1\.name: 'service' is listed twice"):
        read_deployment(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"hosts_folder": None, "gateways": ["10.0.0.1:1"], "services": [{"hosts": ["10.0.0.1:2"]}]},
            "hosts_folder must be set",
        ),
        ({"tls": {"certificates": "a", "secrets": "b"}}, "tls must be unset"),
        ({"listen": "here"}, "listen: Value error, 'here' is not a host:port"),
    ],
)
def test_fleet_that_does_not_fit_is_rejected(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = written(tmp_path, {"fleet": "fleet.yaml", "pools": [{}]}, {**FLEET, **change})
    with pytest.raises(DeploymentError, match=words):
        read_deployment(path)


@pytest.mark.parametrize("text", ["pools: [", "", "- 1"])
def test_other_files_are_rejected_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "ray.yaml"
    path.write_text(text)
    with pytest.raises(DeploymentError) as rejected:
        read_deployment(path)
    assert "\n" not in str(rejected.value)
    with pytest.raises(DeploymentError, match="No such file"):
        read_deployment(tmp_path / "none.yaml")


def test_changed_count_keeps_all_replicas() -> None:
    """A changed count keeps all replicas; changed settings, resources or revisions replace them."""
    pool = PoolDeployment()
    assert pool.fingerprint == PoolDeployment(min_replicas=0, max_replicas=9, surge=False).fingerprint
    changes: list[dict[str, Any]] = [{"settings": {"dtype": "float32"}}, {"resources": {"CPU": 2}}, {"revision": "2"}]
    assert len({pool.fingerprint, *(PoolDeployment.model_validate(each).fingerprint for each in changes)}) == 4


@pytest.mark.parametrize(
    ("store", "pool"),
    [
        ({}, "large"),
        ({"store": {"redis_url": "redis://localhost"}}, "large"),
        ({"store": {"redis_url": "redis://localhost", "pool": "other"}}, "other"),
    ],
)
def test_pools_of_one_store_have_separate_models(store: dict[str, Any], pool: str) -> None:
    """Pools of one store are distinguished by name, unless the settings have another name."""
    found = ServiceSettings.model_validate(PoolDeployment(name="large", settings=store).service_settings).store
    assert (found.pool, found.redis_url) == (pool, store.get("store", {}).get("redis_url"))

"""The manifest for KubeRay: valid pods, valid files of the product, and existing references."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.deployment import Deployment, read_deployment
from runner.proxy.fleet import Fleet
from service.settings.config import Settings as ServiceSettings
from tests.deploy.image_build import ROOT, stages
from tests.deploy.test_images import TOOLS

CONFIG, SERVICE, CLUSTER = yaml.safe_load_all((ROOT / "deploy" / "ray" / "kuberay.yaml").read_text())
HEAD: dict[str, Any] = CLUSTER["spec"]["headGroupSpec"]
(WORKERS,) = CLUSTER["spec"]["workerGroupSpecs"]
PODS = [group["template"]["spec"] for group in (HEAD, WORKERS)]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Deployment, Fleet]:
    """The ConfigMap's files, as `sluice ray` reads them."""
    for name, text in CONFIG["data"].items():
        (tmp_path / name).write_text(text)
    return read_deployment(tmp_path / "deployment.yaml")


@pytest.mark.deploy
def test_pods_are_kubernetes() -> None:
    """The pods, the ConfigMap and the Service are valid by Kubernetes' schemas; KubeRay's kind is not checked."""
    pods = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec} for spec in PODS]
    check = Path(__file__).parent / "check_pods.py"
    given = json.dumps([CONFIG, SERVICE, *pods])
    subprocess.run([TOOLS / "python", check], input=given, text=True, check=True)


def test_a_worker_has_capacity_for_a_replica(files: tuple[Deployment, Fleet]) -> None:
    """A worker can run a replica of each pool, with valid settings, and the workers can run a pool's maximum."""
    limits = WORKERS["template"]["spec"]["containers"][0]["resources"]["limits"]
    mounted = {mount["mountPath"] for mount in WORKERS["template"]["spec"]["containers"][0]["volumeMounts"]}
    num_cpus = 0.0
    for pool in files[0].pools:
        settings = ServiceSettings.model_validate(pool.settings)
        assert settings.auth.keys_file is not None
        assert str(settings.auth.keys_file.parent) in mounted
        num_cpus += pool.max_replicas * pool.resources["CPU"]
    assert num_cpus <= float(limits["cpu"]) * WORKERS["minReplicas"]


def test_ports_and_hosts_match_the_fleet(files: tuple[Deployment, Fleet]) -> None:
    """Ports of probes, Service and gateway target match the fleet; both users of the folder of hosts mount it."""
    fleet = files[1]
    containers = {each["name"]: each for each in HEAD["template"]["spec"]["containers"]}
    assert [port["targetPort"] for port in SERVICE["spec"]["ports"]] == [fleet.listen.port]
    assert containers["envoy"]["readinessProbe"]["httpGet"]["port"] == fleet.listen.port
    assert [containers["gateway"]["readinessProbe"]["httpGet"]["port"]] == [host.port for host in fleet.gateways]
    assert containers["gateway"]["env"] == [{"name": "SLUICE_GATEWAY_TARGET", "value": str(fleet.inner)}]
    for name in ("ray-head", "envoy"):
        mounts = {mount["mountPath"]: mount["name"] for mount in containers[name]["volumeMounts"]}
        assert mounts[str(fleet.hosts_folder)] == "hosts"


def test_images_are_targets_and_read_only() -> None:
    """The images are targets of the Dockerfile, with the pinned version of Ray."""
    for container in (container for pod in PODS for container in pod["containers"]):
        name, _, _ = container["image"].removeprefix("sluice-").partition(":")
        assert name in stages()
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]]  # noqa: S108  the images' HOME
    assert f"\nray=={CLUSTER['spec']['rayVersion']} " in (ROOT / "constraints.txt").read_text()

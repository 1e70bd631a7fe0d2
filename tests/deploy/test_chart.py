"""The Helm chart, rendered by Helm's own code: its documents are valid, and the product accepts its configuration."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.settings.config import Settings as GatewaySettings
from process.settings.process_settings import read_settings
from runner.proxy.fleet import read_fleet
from runner.proxy.production import production_config
from service.settings.config import Settings as ServiceSettings
from tests.deploy.image_build import ROOT, stages
from tests.deploy.test_images import TOOLS

pytestmark = pytest.mark.deploy

EVERYWHERE = "0.0.0.0"  # noqa: S104  in a pod
CHART = ROOT / "deploy" / "helm" / "sluice"
OPEN = {"auth": {"allowAnonymous": True}}
FULL: dict[str, Any] = {
    "auth": {"keysSecret": "keys"},
    "store": {"redisSecret": "store"},
    "storedResponses": {"postgresSecret": "postgres"},
    "quota": {"redisSecret": "redis"},
    "otlpEndpoint": "collector:4317",
    "image": {"registry": "registry.example.com/team/", "pullSecrets": [{"name": "pull"}]},
    "monitoring": {"serviceMonitor": True, "rules": True, "labels": {"release": "prometheus"}},
    "httpRoute": {"enabled": True, "parentRefs": [{"name": "outer"}], "hostnames": ["llm.example.com"]},
    "pools": {
        "default": {"replicas": 2},
        "large": {
            "image": "sluice-service-cuda",
            "models": ["org/large-70b"],
            "settings": {"models": [{"name": "org/large-70b", "path": "/models/large"}]},
            "resources": {"limits": {"nvidia.com/gpu": 1}},
            "modelsVolume": {"persistentVolumeClaim": {"claimName": "models"}},
            "autoscaling": {"enabled": True, "minReplicas": 2},
            "inferencePool": {"enabled": True, "extensionService": "picker"},
            "nodeSelector": {"gpu": "yes"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
    },
}


def rendered(values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Lint and render the chart."""
    command: list[str | Path] = [TOOLS / "python", Path(__file__).parent / "render_chart.py", CHART, json.dumps(values)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def failure(values: dict[str, Any]) -> str:
    """Return Helm's error message for the values."""
    done = rendered(values)
    assert done.returncode == 1, done.stdout
    return done.stderr


def documents(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the chart's documents, linted and checked against Kubernetes' schemas of two releases."""
    done = rendered(values)
    assert done.returncode == 0, done.stderr
    made: list[dict[str, Any]] = json.loads(done.stdout)
    return made


@pytest.fixture(scope="module", params=[OPEN, FULL], ids=["open", "full"])
def made(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return documents(request.param)


def of_kind(made: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the documents of one kind."""
    return [each for each in made if each["kind"] == kind]


def test_product_accepts_the_settings(made: list[dict[str, Any]], tmp_path: Path) -> None:
    """The processes accept the ConfigMaps, and Envoy accepts the configuration generated for the fleet."""
    for each in of_kind(made, "ConfigMap"):
        for name, text in each["data"].items():
            file = tmp_path / name
            file.write_text(text)
            if name == "fleet.yaml":
                config = tmp_path / "envoy.yaml"
                config.write_text(yaml.safe_dump(production_config(read_fleet(file))))
                envoy: list[str | Path] = [Path(sys.executable).with_name("envoy"), "--mode", "validate", "-c", config]
                subprocess.run([*envoy, "-l", "warning"], check=True)
            elif name == "service.yaml":
                assert read_settings(ServiceSettings, [f"--config={file}"]).metrics_host == EVERYWHERE
            else:
                assert read_settings(GatewaySettings, [f"--config={file}"]).admin_host == EVERYWHERE


def test_drain_fits_into_the_grace_period(made: list[dict[str, Any]]) -> None:
    """The drain's delay and its timeout fit into the pod's grace period."""
    grace = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in of_kind(made, "Deployment")}
    assert all(spec["terminationGracePeriodSeconds"] == 30 for spec in grace.values())
    for each in of_kind(made, "ConfigMap"):
        for text in each["data"].values():
            settings = yaml.safe_load(text)
            assert settings.get("drain_timeout_s", settings.get("stop_timeout_s", 20)) <= 20


def test_pods_are_unprivileged_and_read_only(made: list[dict[str, Any]]) -> None:
    """No pod has an API token, and each has a volume for its temporary files."""
    for each in of_kind(made, "Deployment"):
        pod = each["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert not pod["automountServiceAccountToken"]
        assert not pod["enableServiceLinks"]  # variables of a release called sluice would look like settings
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert "/tmp" in [mount["mountPath"] for mount in container["volumeMounts"]]  # noqa: S108  the images' HOME
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()


def test_references_resolve(made: list[dict[str, Any]]) -> None:
    """Selectors match pods, ports are those of containers, mounted volumes exist, and images are the project's."""
    pods = [each["spec"]["template"] for each in of_kind(made, "Deployment")]
    containers = [container for pod in pods for container in pod["spec"]["containers"]]
    ports = {port["name"] for container in containers for port in container["ports"]}
    for each in [*of_kind(made, "Service"), *of_kind(made, "PodDisruptionBudget"), *of_kind(made, "Deployment")]:
        selector = each["spec"]["selector"]
        wanted = selector.get("matchLabels", selector)
        assert any(wanted.items() <= pod["metadata"]["labels"].items() for pod in pods), each["metadata"]["name"]
    for each in of_kind(made, "Service"):
        assert {port["targetPort"] for port in each["spec"]["ports"]} <= ports
    for each in of_kind(made, "NetworkPolicy"):
        assert {port["port"] for rule in each["spec"]["ingress"] for port in rule["ports"]} <= ports
    for pod in pods:
        volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
        assert {mount["name"] for mount in pod["spec"]["containers"][0]["volumeMounts"]} == volumes
    targets = {
        container["image"].rpartition("/")[2].partition(":")[0].removeprefix("sluice-") for container in containers
    }
    assert targets <= set(stages())


def test_an_autoscaled_pool_has_no_replica_count(made: list[dict[str, Any]]) -> None:
    """An autoscaled pool has no count, which each upgrade would reset."""
    scaled = {each["spec"]["scaleTargetRef"]["name"] for each in of_kind(made, "ScaledObject")}
    for each in of_kind(made, "Deployment"):
        assert ("replicas" in each["spec"]) == (each["metadata"]["name"] not in scaled)


def test_config_maps_have_no_passwords() -> None:
    """The store's address is from its Secret, each pool has its own models in the store, and keys may be there, too."""
    made = documents({**FULL, "auth": {"keysInStore": True}})
    services = [each for each in of_kind(made, "Deployment") if "service" in each["metadata"]["name"]]
    assert len(services) == 2
    for each in services:
        (container,) = each["spec"]["template"]["spec"]["containers"]
        secrets = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in container["env"]}
        assert secrets == {
            "SLUICE_SERVICE_STORE__REDIS_URL": {"name": "store", "key": "url"},
            "SLUICE_SERVICE_QUOTA__REDIS_URL": {"name": "redis", "key": "url"},
            "SLUICE_SERVICE_STORED_RESPONSES__POSTGRES_URL": {"name": "postgres", "key": "url"},
        }
    settings = [
        yaml.safe_load(each["data"]["service.yaml"])
        for each in of_kind(made, "ConfigMap")
        if "service.yaml" in each["data"]
    ]
    assert sorted(each["store"]["pool"] for each in settings) == ["default", "large"]
    assert all(each["auth"] == {"keys_in_store": True} for each in settings)


def test_pool_with_its_own_store_keeps_its_name() -> None:
    """A pool with its own store has its name there; otherwise two pools of a store would share models."""
    store = {"redis_url": "redis://here"}
    made = documents(OPEN | {"pools": {"large": {"settings": {"store": store}}}})
    found = [
        yaml.safe_load(each["data"]["service.yaml"])
        for each in of_kind(made, "ConfigMap")
        if "service.yaml" in each["data"]
    ]
    assert [each["store"] for each in found if "store" in each] == [{"pool": "large", **store}]


def test_values_are_checked() -> None:
    """The schema rejects invalid values, and access without keys needs an explicit setting."""
    assert "set auth.keysSecret" in failure({})
    assert "needs store.redisSecret" in failure({"auth": {"keysInStore": True}})
    assert "not both" in failure({"auth": {"keysInStore": True, "keysSecret": "keys"}, "store": {"redisSecret": "x"}})
    assert "replica" in failure(OPEN | {"gateway": {"replica": 3}})
    assert "default" in failure(OPEN | {"pools": {"default": None, "large": {}}})
    assert "extensionService" in failure(OPEN | {"pools": {"default": {"inferencePool": {"enabled": True}}}})


def test_alerts_name_the_operator_s_pages() -> None:
    """The base URL precedes the name of each alert's page; the default is the path in this repository."""
    for base, given in (("docs/runbooks/", {}), ("https://x.example/r/", {"runbookBaseUrl": "https://x.example/r/"})):
        done = rendered(OPEN | {"monitoring": {"rules": True, **given}})
        assert done.returncode == 0, done.stderr
        (rules,) = [each for each in json.loads(done.stdout) if each["kind"] == "PrometheusRule"]
        alerts = [rule for group in rules["spec"]["groups"] for rule in group["rules"] if "alert" in rule]
        assert {each["annotations"]["runbook_url"] for each in alerts} == {f"{base}{a['alert']}.md" for a in alerts}


def test_chart_has_the_rules_of_prometheus() -> None:
    """The chart's copy equals Prometheus' rules; Helm reads no files outside of the chart."""
    assert (CHART / "rules.yaml").read_text() == (ROOT / "deploy" / "prometheus" / "rules.yaml").read_text()

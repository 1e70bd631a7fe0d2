"""The compose files and the systemd units: valid by specification, with existing references."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.settings.config import Settings as GatewaySettings
from process.settings.environment import RUNNER
from process.settings.names import paths
from runner.proxy.fleet import read_fleet
from service.settings.config import Settings as ServiceSettings
from tests.deploy.image_build import ROOT, stages
from tests.deploy.test_images import TOOLS

COMPOSE = ROOT / "deploy" / "compose"
FILES = [COMPOSE / "compose.yaml", COMPOSE / "postgres.yaml"]
ALONE, WITH_POSTGRES = (yaml.safe_load(file.read_text())["services"] for file in FILES)
SERVICES: dict[str, dict[str, Any]] = {**WITH_POSTGRES, **ALONE}
OURS = {"service": ServiceSettings, "gateway": GatewaySettings}
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


def ports_of(stage: str) -> set[str]:
    """Return the ports that an image exposes."""
    return {port for rest in stages()[stage].all_of("EXPOSE") for port in rest.split()}


@pytest.mark.deploy
@pytest.mark.parametrize("files", [FILES[:1], FILES], ids=["alone", "with PostgreSQL"])
def test_compose_files_are_valid(files: list[Path]) -> None:
    """The compose files are valid by the types of an independent reader."""
    check = Path(__file__).parent / "check_compose.py"
    subprocess.run([TOOLS / "python", check, *files], check=True)


def test_files_and_targets_exist() -> None:
    """Mounted files, the Dockerfile, its targets, and the networks exist."""
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (COMPOSE / source).exists(), (name, source)
        if build := service.get("build"):
            assert (COMPOSE / build["context"] / build["dockerfile"]).is_file()
            assert build["target"] in stages()
            assert service["image"].split(":")[0] == f"sluice-{build['target']}"


@pytest.mark.parametrize("name", sorted(OURS))
def test_variables_are_settings(name: str) -> None:
    """Every `SLUICE_…` variable in the compose files, the Dockerfile and the units is a setting."""
    prefix = f"SLUICE_{name.upper()}_"
    known = {prefix + "__".join(path).upper() for path in paths(OURS[name])} | RUNNER
    text = "".join(file.read_text() for file in [*UNITS, *FILES, ROOT / "deploy/docker/Dockerfile"])
    found = set(re.findall(rf"\b({prefix}[A-Z_]*[A-Z])\b", text))
    assert found
    assert found <= known


def test_referenced_ports_are_exposed() -> None:
    """Envoy's fleet, Prometheus' targets and the addresses in the environment name services and their ports."""
    fleet = read_fleet(COMPOSE / "fleet.yaml")
    named = [
        *fleet.gateways,
        *(host for pool in fleet.services for host in pool.hosts),
        SERVICES["gateway"]["environment"]["SLUICE_GATEWAY_TARGET"],
    ]
    scraped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text())["scrape_configs"]
    found = [each for job in scraped for each in job.get("dns_sd_configs", ())]
    named += [f"{each['names'][0]}:{each['port']}" for each in found]
    for address in named:
        host, _, port = str(address).rpartition(":")
        target = {"service": "serving"}.get(host, host)
        assert port in ports_of(target), address
    assert {f"sluice-{each}" for each in ("service", "gateway", "envoy")} == {job["job_name"] for job in scraped}


def test_containers_are_hardened() -> None:
    """All containers are read-only, have no capabilities, and can't gain any from files."""
    for name, service in SERVICES.items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_ports_are_published_on_loopback() -> None:
    """No other machine can connect, since no key is required."""
    for name, service in SERVICES.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name


@pytest.mark.deploy
def test_units_are_valid() -> None:
    """The units are valid, except for their programs, which are not installed here."""
    done = subprocess.run(["systemd-analyze", "verify", *UNITS], capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if line and "is not executable" not in line]
    assert errors == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "flags"), [("service", ()), ("gateway", ("--gateway",))])
def test_sample_settings_of_units_are_valid(name: str, flags: tuple[str, ...]) -> None:
    """`sluice config` accepts the sample file, which the unit's command names."""
    sample = ROOT / "deploy" / "systemd" / f"{name}.yaml"
    command = [sys.executable, "-m", "cli", "config", *flags, "--config", str(sample), "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    unit = sample.with_name(f"sluice-{name}.service").read_text()
    assert f"--config=/etc/sluice/{name}.yaml" in unit


def test_sample_keys_are_the_unit_s_credential() -> None:
    """The sample's keys file is the credential that the unit loads."""
    unit = ROOT / "deploy" / "systemd" / "sluice-service.service"
    name = re.findall(r"^LoadCredential=(\S+):/etc/sluice/keys.yaml$", unit.read_text(), re.MULTILINE)[0]
    sample = yaml.safe_load(unit.with_name("service.yaml").read_text())
    assert sample["auth"]["keys_file"] == f"/run/credentials/{unit.name}/{name}"


@pytest.mark.slow
def test_sample_fleet_is_valid() -> None:
    """`sluice envoy` accepts the sample, and the gateway's target is the fleet's inner listener."""
    folder = ROOT / "deploy" / "systemd"
    command = [sys.executable, "-m", "cli", "envoy", str(folder / "fleet.yaml")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fleet = yaml.safe_load((folder / "fleet.yaml").read_text())
    assert yaml.safe_load((folder / "gateway.yaml").read_text())["target"] == fleet["inner"]


def test_units_have_the_scheduling_of_make_run() -> None:
    """The units of the gateway and Envoy set the batch policy, as `make run` does; the service sets its own."""
    batch = {unit.stem for unit in UNITS if "CPUSchedulingPolicy=batch" in unit.read_text().splitlines()}
    assert batch == {"sluice-gateway", "sluice-envoy"}

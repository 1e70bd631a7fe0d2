"""The images, without a container engine: their steps run in folders, their processes in namespaces.

Not tested, since it needs a container engine: that the base image has everything that the steps need.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.image_build import ROOT, build, copied, lineage, stages, started
from tests.e2e.stack import free_ports
from tests.waiting import GUARD_S

TOOLS = ROOT / ".venvs" / "tool-deploy" / "bin"
IMAGES = {"gateway", "envoy", "service", "service-cuda", "ray", "all"}
CHECK = ROOT / "deploy" / "docker" / "healthcheck.py"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a root read only")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A new folder that all users may read."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-image-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_every_package_is_copied() -> None:
    """Every package of pyproject.toml is copied into each build stage, and .dockerignore does not exclude it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {project["package-dir"].get(name, name).split(".")[0].split("/")[0] for name in project["packages"]}
    folders -= {"sluice", "buf"}
    included = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for name in stages():
        if name.startswith("build-"):
            paths = {path.rstrip("/") for paths, _ in copied(name) for path in paths}
            assert folders <= paths, name
            assert all((ROOT / path).exists() for path in paths), name
            assert paths <= included, name


@pytest.mark.parametrize("name", sorted(IMAGES))
def test_images_run_as_nobody_and_have_health_checks(name: str) -> None:
    """Each image has a numeric user, a health check, and the process itself as entry point, which gets all signals."""
    based_on = list(lineage(name))
    assert [user for stage in based_on for user in stage.all_of("USER")] == ["65532:65532"]
    assert [check for stage in based_on for check in stage.all_of("HEALTHCHECK")]
    (entry,) = [entry for stage in based_on for entry in stage.all_of("ENTRYPOINT")]
    assert entry.startswith("[")


def test_only_the_gateway_s_image_has_no_torch() -> None:
    """Only the gateway's build stage installs extras without torch."""
    extras = {name: " ".join(stage.all_of("RUN")) for name, stage in stages().items() if name.startswith("build-")}
    assert {name for name, run in extras.items() if "service" not in run} == {"build-gateway", "build-envoy"}


@pytest.mark.deploy
def test_linters_accept_the_files() -> None:
    """Hadolint accepts the Dockerfile, and shellcheck accepts its scripts."""
    subprocess.run([TOOLS / "hadolint", ROOT / "deploy" / "docker" / "Dockerfile"], check=True)
    scripts = map(str, (ROOT / "deploy" / "docker").glob("*.sh"))
    subprocess.run(["shellcheck", *scripts], check=True)


@pytest.mark.deploy
@needs_root
@pytest.mark.timeout(600)
def test_gateway_s_image_serves(open_folder: Path) -> None:
    """The steps build an environment without torch, in which the gateway serves, is healthy, and ends at SIGTERM."""
    environment = build("build-gateway", open_folder)
    assert not list(environment.glob("lib/*/site-packages/torch"))
    port, admin = free_ports(2)
    process = started(
        environment,
        ["sluice-gateway"],
        open_folder / "tmp",
        SLUICE_GATEWAY_HOST="127.0.0.1",
        SLUICE_GATEWAY_PORT=str(port),
        SLUICE_GATEWAY_ADMIN_PORT=str(admin),
    )
    check_until_healthy(environment, process, "http", f"http://127.0.0.1:{port}/healthz")
    subprocess.run([environment / "bin" / "python", CHECK, "http", f"http://127.0.0.1:{admin}/metrics"], check=True)
    stop(process)


@pytest.mark.deploy
@needs_root
@pytest.mark.timeout(900)
def test_service_s_image_serves(open_folder: Path) -> None:
    """The service with the bundled model and the native step serves, is healthy by gRPC, and ends at SIGTERM."""
    environment = build("build-service", open_folder)
    port, metrics = free_ports(2)
    process = started(
        environment,
        ["sluice-service"],
        open_folder / "tmp",
        SLUICE_SERVICE_PORT=str(port),
        SLUICE_SERVICE_METRICS_PORT=str(metrics),
    )
    check_until_healthy(environment, process, "grpc", f"127.0.0.1:{port}")
    stop(process)


@pytest.mark.deploy
@needs_root
@pytest.mark.timeout(600)
def test_envoy_s_image_serves(open_folder: Path) -> None:
    """Envoy with a fleet's configuration serves, and is healthy without any backend."""
    environment = build("build-envoy", open_folder)
    listen, inner, admin, unused = free_ports(4)
    fleet = open_folder / "fleet.yaml"
    hosts = f"gateways: ['127.0.0.1:{unused}']\nservices: [{{hosts: ['127.0.0.1:{unused}']}}]\n"
    fleet.write_text(f"listen: 127.0.0.1:{listen}\ninner: 127.0.0.1:{inner}\nadmin: 127.0.0.1:{admin}\n{hosts}")
    script = (ROOT / "deploy" / "docker" / "front-door.sh").read_text()
    here = script.replace("/tmp/", f"{open_folder}/tmp/").replace("127.0.0.1:9901", f"127.0.0.1:{admin}")  # noqa: S108
    (environment / "bin" / "front-door.sh").write_text(here)
    (environment / "bin" / "front-door.sh").chmod(0o555)
    process = started(environment, ["front-door.sh", str(fleet)], open_folder / "tmp")
    check_until_healthy(environment, process, "http", f"http://127.0.0.1:{admin}/ready")
    stop(process)


def check_until_healthy(environment: Path, process: subprocess.Popen[bytes], kind: str, target: str) -> None:
    """Repeat the image's health check until it succeeds."""
    deadline = time.monotonic() + GUARD_S
    command: list[str | Path] = [environment / "bin" / "python", CHECK, kind, target]
    while subprocess.run(command, capture_output=True, check=False).returncode != 0:
        assert process.poll() is None, "the process has ended"
        assert time.monotonic() < deadline, "the process never became healthy"
        time.sleep(0.3)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Check that the process ends at SIGTERM with 0, within Kubernetes' grace period."""
    process.send_signal(signal.SIGTERM)
    assert process.wait(GUARD_S) == 0


def test_health_check_fails_without_a_server() -> None:
    """The health check fails by its exit code, with one line of output."""
    (port,) = free_ports(1)
    for kind, target in (("http", f"http://127.0.0.1:{port}/"), ("grpc", f"127.0.0.1:{port}")):
        done = subprocess.run([sys.executable, CHECK, kind, target], capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1 or kind == "grpc", done.stderr

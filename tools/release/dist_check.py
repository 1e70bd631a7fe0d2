"""Test the files in dist/ as a user would: install, serve, generate code. This is the last step of `make dist`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

from tools.contract.typescript_client import MODULES
from tools.release.dist import DIST, version

_LANGUAGES = ("cpp", "csharp", "java", "kotlin", "objc", "php", "python", "ruby")
_ASK = """
import sys, sluice, service, sluice_native, sluice_client
for module in (service, sluice_native, sluice_client):
    assert module.__file__.startswith(sys.prefix), module.__file__
with sluice_client.Client(sys.argv[1]) as client:
    print(client.chat("What is the capital of France?", temperature=0, timeout=60).text)
"""
_READY_TIMEOUT_S = 120


def check_sums() -> None:
    """Check that SHA256SUMS names every file, with its checksum."""
    names = {line.split()[1] for line in (DIST / "SHA256SUMS").read_text().splitlines()}
    assert names == {path.name for path in DIST.iterdir()} - {"SHA256SUMS"}, names  # noqa: S101
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=DIST, check=True)


def check_wheels(folder: Path) -> None:
    """Check that the three wheels, installed without an index, serve and call; dependencies are this checkout's."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python, log = folder / "bin" / "python", folder / "log"
    install: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps"]
    install += ["--quiet", "--disable-pip-version-check", *DIST.glob("*.whl")]
    subprocess.run(install, cwd=folder, env=environment, check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in ("openapi/explorer.js", "page/static/index.html", "page/site/index.html"):
        assert (site / "gateway" / name).exists(), name  # noqa: S101
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with log.open("w") as out:
        command = [str(folder / "bin" / "sluice-service"), "--port=0", "--metrics-port=0"]
        service = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        target = f"127.0.0.1:{_port(service, log)}"
        subprocess.run([python, "-c", _ASK, target], cwd=folder, env=environment, check=True)
    finally:
        service.terminate()
        service.wait(60)


def _port(service: subprocess.Popen[bytes], log: Path) -> int:
    """Return the service's port once it serves."""
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline and service.poll() is None:
        text = log.read_text()
        if '"serving"' in text:
            (port,) = re.findall(r'"listening".*?"port": ?(\d+)', text)
            return int(port)
        time.sleep(0.1)
    raise SystemExit(f"dist: the installed service doesn't serve\n{log.read_text()}")


def check_protos(folder: Path) -> None:
    """Check that protoc compiles the archive for all its languages, the one with rules, and the descriptors alone."""
    protoc, of = Path(sys.executable).with_name("protoc"), version()
    for name, languages in ((f"sluice-proto-{of}", _LANGUAGES), (f"sluice-proto-rules-{of}", ("java", "python"))):
        with zipfile.ZipFile(DIST / f"{name}.zip") as archive:
            archive.extractall(folder / name)  # noqa: S202  ours
        sources = sorted(path.relative_to(folder / name) for path in (folder / name).rglob("*.proto"))
        for language in languages:
            out = folder / f"{name}-{language}"
            out.mkdir()
            subprocess.run([protoc, "-I", ".", f"--{language}_out={out}", *sources], cwd=folder / name, check=True)
    out = folder / "descriptors"
    out.mkdir()
    descriptors = DIST / f"sluice-{of}.binpb"
    flags = [f"--descriptor_set_in={descriptors}", f"--csharp_out={out}"]
    subprocess.run([protoc, *flags, "sluice/v1/chat.proto"], check=True)


def check_npm(folder: Path) -> None:
    """Check that Node loads each entry point of the npm package."""
    with tarfile.open(DIST / f"sluice-client-{version()}.tgz") as archive:
        archive.extractall(folder, filter="data")
    (folder / "package" / "node_modules").symlink_to(MODULES)
    load = "".join(f"import 'sluice-client{entry}';" for entry in ("", "/node", "/v1/chat"))
    subprocess.run(["node", "--input-type=module", "--eval", load], cwd=folder / "package", check=True)


def check_sbom() -> None:
    """Check that the SBOM is CycloneDX's, names the product, and has no paths of the build machine."""
    text = (DIST / f"sluice-{version()}.cdx.json").read_text()
    bom = json.loads(text)
    assert (bom["bomFormat"], bom["metadata"]["component"]["name"]) == ("CycloneDX", "sluice-llm")  # noqa: S101
    assert "file:" not in text  # noqa: S101


def main() -> None:
    """Run all checks; the first failure is raised."""
    check_sums()
    check_sbom()
    with tempfile.TemporaryDirectory() as folder:
        check_protos(Path(folder))
        check_npm(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        check_wheels(Path(folder))
    print(f"dist: {len(list(DIST.iterdir()))} files, tried")


if __name__ == "__main__":
    main()

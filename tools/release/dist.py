"""Build a release in dist/, as `make dist` does after installing the build tools.

    wheels and source archives of sluice, sluice-native and sluice-client
    sluice-client-VERSION.tgz        the TypeScript client, for npm
    sluice-proto-VERSION.zip         the contract without rules, for protoc in any language, and the service config
    sluice-proto-rules-VERSION.zip   the contract with protovalidate's rules, and protovalidate's own file
    sluice-VERSION.binpb             the contract's descriptors without rules, with comments
    sluice-VERSION.cdx.json          the server's dependencies: an SBOM in CycloneDX's format
    SHA256SUMS                       checksums of all these files

A wheel is built from the source archive, which proves the archive complete. tools/release/dist_check.py tests all
files.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from grpc_tools import protoc

from tools.contract import typescript_client
from tools.docs import docs_site
from tools.pins import needed

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
CLIENT = ROOT / "clients" / "python"
NATIVE = ROOT / "native"
PLAIN, RULED = ROOT / "generated" / "proto", ROOT / "proto"
PROTOVALIDATE = ROOT / ".cache" / "protovalidate"
TOOLS = ROOT / ".venvs" / "tool-dist" / "bin"
RUNTIME = ("service", "gateway", "run")  # extras of the product

_EPOCH = (1980, 1, 1, 0, 0, 0)  # date of every archived file, so that the same content gives the same archive

_README = """\
# The contract of sluice {version}

{what}

Messages and services are described in the comments; how to call them, and what an error says, in the project's docs.
"""
_PLAIN = """\
The .proto files import nothing but protobuf's own:

    protoc -I . --java_out=OUT sluice/v1/*.proto

`service_config.json` turns on gRPC's retries of calls that are safe to retry."""
_RULES = """\
The .proto files with the rules that the server checks, as annotations of protovalidate, whose file is included with its
licence. Code generated from them needs protovalidate's package for its language."""


class ReleaseError(Exception):
    """The release can't be built; the message has one line with the reason."""


def version() -> str:
    """Return the version of all parts. Raise ReleaseError if they differ."""
    projects = (ROOT, NATIVE, CLIENT)
    found = {str(folder.relative_to(ROOT)): _project(folder)["version"] for folder in projects}
    found["clients/typescript"] = json.loads((typescript_client.SOURCE / "package.json").read_text())["version"]
    if len(set(found.values())) > 1:
        found_versions = ", ".join(f"{folder}: {each}" for folder, each in found.items())
        raise ReleaseError(f"the parts have different versions: {found_versions}")
    return str(found["."])


def write_protos(folder: Path, of: str) -> None:
    """Write both archives of the contract, and its descriptors."""
    plain = _files(PLAIN, "*.proto") | {
        "README.md": _README.format(version=of, what=_PLAIN).encode(),
        "service_config.json": (CLIENT / "src/sluice_client/service_config.json").read_bytes(),
    }
    ruled = _files(RULED, "*.proto") | _files(PROTOVALIDATE, "*.proto") | {
        "README.md": _README.format(version=of, what=_RULES).encode(),
        "buf/LICENSE": (PROTOVALIDATE / "LICENSE").read_bytes(),
    }  # fmt: skip
    licence = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    _zip(folder / f"sluice-proto-{of}.zip", plain | licence)
    _zip(folder / f"sluice-proto-rules-{of}.zip", ruled | licence)
    names = [name for name in plain if name.endswith(".proto")]
    flags = [f"-I{PLAIN}", f"-I{Path(protoc.__file__).parent / '_proto'}", "--include_imports", "--include_source_info"]
    if protoc.main(["protoc", *flags, f"--descriptor_set_out={folder / f'sluice-{of}.binpb'}", *names]):
        raise ReleaseError("protoc rejected the contract; its output is above")


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS of all files in the folder, in the format of `sha256sum --check`."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def runtime_only(bom: dict[str, Any], wanted: set[str]) -> dict[str, Any]:
    """Return an environment's SBOM reduced to the product's dependencies; `wanted` are the direct ones.

    Paths of this machine are removed, too.
    """
    components = {each["bom-ref"]: each for each in bom["components"]}
    needs: dict[str, list[str]] = {each["ref"]: each.get("dependsOn", []) for each in bom["dependencies"]}
    root = bom["metadata"]["component"]["bom-ref"]
    kept, left = set[str](), [ref for ref, each in components.items() if _plain(each["name"]) in wanted]
    direct = sorted(left)
    while left:
        ref = left.pop()
        if ref not in kept:
            kept.add(ref)
            left += needs.get(ref, [])
    for each in components.values():
        if "externalReferences" in each:
            each["externalReferences"] = [
                ref for ref in each["externalReferences"] if not ref["url"].startswith("file:")
            ]
    dependencies = [each for each in bom["dependencies"] if each["ref"] in kept]
    return bom | {
        "components": [each for ref, each in components.items() if ref in kept],
        "dependencies": [{"ref": root, "dependsOn": direct}, *dependencies],
    }


def _write_sbom(folder: Path, of: str) -> None:
    """Write the SBOM of this environment's packages that the product needs, with licences and dependencies."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made, "bom.json")
        flags = ["--pyproject", "pyproject.toml", "--output-reproducible", "-o", str(path)]
        command = [str(TOOLS / "cyclonedx-py"), "environment", *flags, ".venv/bin/python"]
        subprocess.run(command, cwd=ROOT, check=True)
        bom = json.loads(path.read_text())
    wanted = {_plain(requirement.partition("[")[0]) for requirement in needed(*RUNTIME)} | {"sluice-native"}
    text = json.dumps(runtime_only(bom, wanted), indent=2, sort_keys=True)
    (folder / f"sluice-{of}.cdx.json").write_text(text + "\n")


def _write_packages(folder: Path) -> None:
    """Write source archives, and wheels built from them."""
    for source in (ROOT, CLIENT):
        subprocess.run([TOOLS / "python", "-m", "build", "--no-isolation", "--outdir", folder, source], check=True)
    subprocess.run([TOOLS / "python", "-m", "build", "--outdir", folder, NATIVE], check=True)  # own build tools
    with tempfile.TemporaryDirectory() as made:
        package = Path(made, "package")
        typescript_client.build(package)
        subprocess.run(["npm", "pack", "--silent", "--pack-destination", folder], cwd=package, check=True)


def _project(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def _files(folder: Path, pattern: str) -> dict[str, bytes]:
    """Return the content of a folder's files by relative path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob(pattern))}


def _zip(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), files[name], zipfile.ZIP_DEFLATED)


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def main() -> None:
    """Build the whole release."""
    of = version()
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    docs_site.build()  # the wheel contains the site
    _write_packages(DIST)
    write_protos(DIST, of)
    _write_sbom(DIST, of)
    write_checksums(DIST)


if __name__ == "__main__":
    try:
        main()
    except (ReleaseError, docs_site.SiteError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"dist: {error}") from None

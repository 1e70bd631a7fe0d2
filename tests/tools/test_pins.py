"""Pins: every installed package has a version and hashes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.pins import LOCK, NPM_LOCKS, PinError, hashed, needed, pins, sources, versions

ROOT = Path(__file__).resolve().parents[2]
SHA = "sha256:" + "0" * 64
TEXT = f"""# made
alpha==1.0 \\
    --hash={SHA} \\
    --hash={SHA.replace("0", "1")}
Beta_two==2.0 ; sys_platform == 'linux' \\
    --hash={SHA}
"""


def test_every_package_has_hashes() -> None:
    """Every package in constraints.txt, in the clients' files and in npm's has hashes."""
    files = [LOCK, *sorted((ROOT / "tests" / "clients" / "requirements").glob("*.txt"))]
    for file in files:
        found = pins(file.read_text())
        assert found
        assert [pin for pin, hashes in found.items() if not hashes] == []
        assert len(versions(file.read_text())) == len(re.findall(r"^[^#\s]", file.read_text(), re.MULTILINE))
    for lock in NPM_LOCKS:
        packages = json.loads(lock.read_text())["packages"]
        without = [package for name, package in packages.items() if name and not package.get("integrity")]
        assert [each for each in without if not each.get("os")] == []  # for other platforms, not downloaded here
        assert {"linux"} & {system for each in without if "x64" in each["cpu"] for system in each["os"]} == set()


def test_every_requirement_is_pinned() -> None:
    """The requirements of each extra in pyproject.toml are pinned; if not, run `make pins`."""
    known = {name for name, _ in pins(LOCK.read_text())}
    requested = {
        re.split(r"[\[><=;]", each)[0].lower().replace("_", "-")
        for each in needed("bench", "build", "zig", "pins", "audit")
    }
    assert requested - known == set()


def test_hashes_belong_to_the_pinned_version() -> None:
    """Names match in any spelling, and a local build of a version matches the version."""
    lines = hashed("Alpha==1.0+cpu\nbeta-two==2.0\n", TEXT)
    assert lines == [f"alpha==1.0+cpu --hash={SHA} --hash={SHA.replace('0', '1')}", f"beta-two==2.0 --hash={SHA}"]


@pytest.mark.parametrize("package", ["alpha==1.1", "gamma==1.0"])
def test_unpinned_packages_are_rejected(package: str) -> None:
    """Another version and another package are rejected."""
    with pytest.raises(PinError, match=r"is not in constraints.txt; run: make pins"):
        hashed(package, TEXT)


def test_pins_keep_environment_markers() -> None:
    """Versions keep their environment markers and lose their hashes."""
    assert [line.strip() for line in versions(TEXT)] == ["alpha==1.0", "Beta_two==2.0 ; sys_platform == 'linux'"]


def test_a_file_with_another_hash_is_not_installed(tmp_path: Path) -> None:
    """A file whose hash isn't pinned is rejected."""
    with zipfile.ZipFile(tmp_path / "alpha-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("alpha-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: alpha\nVersion: 1.0\n")
        wheel.writestr("alpha-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\nRoot-Is-Purelib: true\n")
        wheel.writestr("alpha-1.0.dist-info/RECORD", "")
    (tmp_path / "pinned.txt").write_text("\n".join(hashed("alpha==1.0", TEXT)))
    command = [sys.executable, "tools/pins.py", "uv", "pip", "install", "--offline", "--find-links", str(tmp_path)]
    command += ["--no-index", "--no-deps", "--target", str(tmp_path / "to")]
    command += ["--require-hashes", "-r", str(tmp_path / "pinned.txt")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Hash mismatch" in done.stderr


def test_package_sources_of_pip_are_passed_to_uv() -> None:
    """Indexes and folders of wheels reach uv; pip's environment variables win over its files."""
    listing = """:env:.find-links='/wheels'
:env:.timeout='180'
global.extra-index-url='file:///a https://b.example/simple'
global.find-links='/other'
global.index-url='https://c.example/simple'
"""
    assert sources(listing) == {
        "UV_FIND_LINKS": "/wheels",
        "UV_INDEX": "file:///a https://b.example/simple",
        "UV_DEFAULT_INDEX": "https://c.example/simple",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }

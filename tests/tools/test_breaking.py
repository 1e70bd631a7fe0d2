"""The contract's guard: a change that breaks the last release or the main branch fails."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.waiting import GUARD_S

pytestmark = pytest.mark.slow  # buf comes with npm

ROOT = Path(__file__).resolve().parents[2]
BUF = ROOT / ".cache/npm/node_modules/.bin/buf"
TEMPERATURE = "optional float temperature = 1"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the contract, its checks and the installed tools, in a folder that is no git repository."""
    for name in ("proto", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("buf.rules.yaml", "buf.yaml", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in (".cache", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def run(checkout: Path, *command: str) -> tuple[int, str]:
    """Run a command in the checkout. Return its exit status and output."""
    done = subprocess.run(
        command, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=GUARD_S, check=False
    )
    return done.returncode, done.stdout


def commit_to_main(checkout: Path) -> None:
    """Make the checkout a repository whose branch main has the current contract."""
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.invalid")
    for command in (("init", "-q", "-b", "main"), ("add", "proto"), (*identity, "commit", "-q", "-m", "x")):
        assert run(checkout, "git", *command) == (0, "")


def replace(file: Path, old: str, new: str) -> None:
    """Replace the only occurrence of a text in a file."""
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def test_unchanged_contract_passes(checkout: Path) -> None:
    """Without a main branch only the release is compared."""
    status, output = run(checkout, "tools/contract/breaking.sh")
    assert (status, output.splitlines()[0].split("/")[:2]) == (0, ["against proto", "released"])
    assert output.endswith("skipped: there is no contract on a branch main\n")


def test_a_clean_clone_compares_with_the_release(tmp_path: Path) -> None:
    """The tool buf alone compares the contract without rules with the release, and finds what breaks it."""
    for name in ("proto", "generated/proto"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    (released,) = (tmp_path / "proto/released").iterdir()
    compare = (str(BUF), "breaking", "generated/proto", "--against", str(released.relative_to(tmp_path)))
    assert run(tmp_path, *compare) == (0, "")
    replace(tmp_path / "generated/proto/sluice/v1/sampling.proto", TEMPERATURE, TEMPERATURE.replace("float", "double"))
    status, output = run(tmp_path, *compare)
    assert status != 0
    assert 'Field "1" with name "temperature" on message "SamplingParams" changed type' in output


def test_a_changed_type_breaks_the_release(checkout: Path) -> None:
    """The check fails and names the field."""
    replace(checkout / "proto/sluice/v1/sampling.proto", TEMPERATURE, TEMPERATURE.replace("float", "double"))
    status, output = run(checkout, "tools/contract/breaking.sh")
    assert status != 0
    assert 'Field "1" with name "temperature" on message "SamplingParams" changed type' in output


def test_a_deleted_file_breaks_the_release(checkout: Path) -> None:
    """The check fails and names the file."""
    (checkout / "proto/sluice/v1/watermark.proto").unlink()
    status, output = run(checkout, "tools/contract/breaking.sh")
    assert status != 0
    assert 'Previously present file "sluice/v1/watermark.proto" was deleted' in output


def test_fields_on_main_cannot_be_removed(checkout: Path) -> None:
    """A field added after the release may be removed until it is on main."""
    file = checkout / "proto/sluice/v1/sampling.proto"
    before = file.read_text()
    replace(file, f"  {TEMPERATURE}", f"  // New.\n  optional float novelty = 1000;\n  {TEMPERATURE}")
    commit_to_main(checkout)
    status, output = run(checkout, "tools/contract/breaking.sh")
    assert (status, output.splitlines()[1:]) == (0, ["against the branch main"])
    file.write_text(before)
    status, output = run(checkout, "tools/contract/breaking.sh")
    assert status != 0
    assert 'field "1000" with name "novelty"' in output


def test_released_version_is_not_overwritten(checkout: Path) -> None:
    """A released version isn't overwritten; a new version replaces it and is compared from then on."""
    (released,) = (checkout / "proto/released").iterdir()
    before = released.read_bytes()
    status, output = run(checkout, "tools/contract/release_contract.sh")
    assert status == 1
    assert f"proto/released/{released.name} exists" in output
    assert released.read_bytes() == before

    replace(checkout / "pyproject.toml", f'version = "{released.stem}"', 'version = "99.0.0"')
    replace(checkout / "proto/sluice/v1/sampling.proto", TEMPERATURE, TEMPERATURE.replace("float", "double"))
    assert run(checkout, "tools/contract/release_contract.sh") == (0, "wrote proto/released/99.0.0.binpb\n")
    assert [path.name for path in (checkout / "proto/released").iterdir()] == ["99.0.0.binpb"]
    assert run(checkout, "tools/contract/breaking.sh")[0] == 0


def test_language_options_cannot_be_changed(checkout: Path) -> None:
    """Language names on main and in a release can't be changed; release 0.1.0 had none."""
    commit_to_main(checkout)
    replace(checkout / "proto/sluice/v1/usage.proto", 'java_package = "sluice.v1"', 'java_package = "com.example"')
    broken = 'option "java_package" changed from "sluice.v1" to "com.example"'
    status, output = run(checkout, "tools/contract/breaking.sh")
    assert (status, output.count(broken)) == (1, 1)
    replace(checkout / "pyproject.toml", 'version = "0.1.0"', 'version = "99.0.0"')
    replace(checkout / "proto/sluice/v1/usage.proto", 'java_package = "com.example"', 'java_package = "sluice.v1"')
    assert run(checkout, "tools/contract/release_contract.sh")[0] == 0
    replace(checkout / "proto/sluice/v1/usage.proto", 'java_package = "sluice.v1"', 'java_package = "com.example"')
    status, output = run(checkout, "tools/contract/breaking.sh")
    assert (status, output.count(broken)) == (1, 2)

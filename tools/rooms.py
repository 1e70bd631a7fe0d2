"""Print the sizes of packages and folders, draw the packages of service/engine by their imports, and fail above limits.

Run as `python -m tools.rooms`. A reader finds code by its folder, so a folder has few files, and a package few layers.
import-linter checks the order of layers; this program counts them, and shows that the drawing needs no arrow upwards.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ENGINE: Final = "service.engine"
MAX_LAYERS: Final = 15
MAX_PACKAGES: Final = 20  # of the drawing
MAX_FILES: Final = 16  # of a folder, without its __init__.py
MAX_LINES: Final = 300  # of a Python file
# Folders with more files, and the reason.
LARGER: Final = {
    "clients/python/src/sluice_client/v1": "generated from the contract",
    "docs/runbooks": "a page for each alert, found by the alert's name",
    "proto/sluice/v1": "a file for each API; moving one would break the contract",
    "tests/gateway/golden/exchanges": "recorded exchanges",
}


def layer_counts(project: Mapping[str, list[str]]) -> list[str]:
    """Print the number of layers of each contract, and return a message for each one above the limit."""
    print("layers of each import contract")
    for container, layers in project.items():
        print(f"  {container:32}{len(layers):3}")
    return [
        f"{container} has {len(layers)} layers, at most {MAX_LAYERS} are allowed"
        for container, layers in project.items()
        if len(layers) > MAX_LAYERS
    ]


def layers_of_contracts() -> dict[str, list[str]]:
    """Return the layers of each contract of pyproject.toml, the highest first, by the package that they are in."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    return {each.get("containers", ["the project"])[0]: each["layers"] for each in contracts if "layers" in each}


def imports_of(package: str) -> dict[str, set[str]]:
    """Return each subpackage of a package with the other subpackages that its modules import."""
    folder = ROOT / package.replace(".", "/")
    pattern = re.compile(rf"^\s*(?:from|import) {re.escape(package)}\.(\w+)", re.MULTILINE)
    found: dict[str, set[str]] = {}
    for inner in sorted(each for each in folder.iterdir() if (each / "__init__.py").exists()):
        names = {name for path in inner.rglob("*.py") for name in pattern.findall(path.read_text())}
        found[inner.name] = names - {inner.name}
    return found


def drawing(layers: Sequence[str], imports: Mapping[str, set[str]]) -> list[str]:
    """Print each subpackage with those that it imports, by layer; return a message for each import upwards."""
    level = {name.strip(): number for number, layer in enumerate(layers) for name in layer.split("|")}
    print(f"{ENGINE}: {len(imports)} packages, and the packages that each imports")
    for name in sorted(imports, key=lambda name: (level[name], name)):
        print(f"  {level[name] + 1:2} {name:12} -> {', '.join(sorted(imports[name], key=level.__getitem__)) or '-'}")
    faults = [f"{ENGINE} has {len(imports)} packages, at most {MAX_PACKAGES} are allowed"] * (
        len(imports) > MAX_PACKAGES
    )
    return faults + [
        f"{name} imports {other}, which is not below it"
        for name, others in imports.items()
        for other in sorted(others)
        if level[other] <= level[name]
    ]


def sizes(files: Mapping[str, int]) -> list[str]:
    """Print the fullest folders; return a message for each folder or Python file above its limit.

    `files` are the paths of hand-written files with their numbers of lines.
    """
    counts = Counter(str(Path(path).parent) for path in files if not path.endswith("/__init__.py"))
    print(f"folders with more than {MAX_FILES} files")
    for folder, count in counts.most_common():
        if count > MAX_FILES:
            print(f"  {folder:36}{count:4}  {LARGER.get(folder, '')}")
    faults = [
        f"{folder} has {count} files, at most {MAX_FILES} are allowed"
        for folder, count in sorted(counts.items())
        if count > MAX_FILES and folder not in LARGER
    ]
    return faults + [
        f"{path} has {lines} lines, at most {MAX_LINES} are allowed"
        for path, lines in sorted(files.items())
        if lines > MAX_LINES and path.endswith(".py")
    ]


def written_files() -> dict[str, int]:
    """Return the files of git that are not generated, with their numbers of lines."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.splitlines() if not path.startswith("generated/")]
    return {path: (ROOT / path).read_bytes().count(b"\n") for path in paths if (ROOT / path).is_file()}


def main() -> int:
    """Print all counts; return 1 if any is above its limit."""
    contracts = layers_of_contracts()
    faults = layer_counts(contracts)
    faults += drawing(contracts[ENGINE], imports_of(ENGINE))
    faults += sizes(written_files())
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

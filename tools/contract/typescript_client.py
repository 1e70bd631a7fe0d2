"""Build the TypeScript client's package in a new folder.

python -m tools.contract.typescript_client FOLDER

clients/typescript/build.mjs generates the messages and compiles. No generated file is checked in. The npm packages are
those of tools/package.json if `make check` or `make test` has installed them, else npm installs them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "clients" / "typescript"
MODULES = ROOT / ".cache" / "npm" / "node_modules"
PLAIN = ROOT / "generated" / "proto"


def build(folder: Path) -> None:
    """Write the package into a new folder, in the form for `npm pack`. Raise CalledProcessError if a tool fails."""
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("dist", "node_modules", "gen"))
    if MODULES.exists():
        (folder / "node_modules").symlink_to(MODULES)
    subprocess.run(["node", "build.mjs", PLAIN], cwd=folder, check=True)
    # Users of the archive build nothing, and npm would ask them to allow the script.
    subprocess.run(["npm", "pkg", "delete", "scripts", "devDependencies"], cwd=folder, check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]))

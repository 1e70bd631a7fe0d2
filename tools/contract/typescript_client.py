"""Build the TypeScript client's package in a folder: generated messages, then JavaScript and types.

python -m tools.contract.typescript_client FOLDER

No generated file is checked in. The npm packages are those of tools/package.json.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import google.rpc.error_details_pb2

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "clients" / "typescript"
MODULES = ROOT / ".cache" / "npm" / "node_modules"
PLAIN = ROOT / "generated" / "proto"


def build(folder: Path) -> None:
    """Write the package into a new folder, in the form for `npm pack`. Raises CalledProcessError."""
    shutil.copytree(SOURCE, folder, ignore=shutil.ignore_patterns("dist", "node_modules", "gen"))
    (folder / "node_modules").symlink_to(MODULES)
    generated = folder / "src" / "gen"
    generated.mkdir()
    details = Path(google.rpc.error_details_pb2.__file__).with_name("error_details.proto")
    names = sorted(path.relative_to(PLAIN).as_posix() for path in PLAIN.rglob("*.proto"))
    plugin = [f"--plugin={MODULES / '.bin' / 'protoc-gen-es'}", f"--es_out={generated}"]
    plugin += ["--es_opt=target=ts,import_extension=js"]
    sources = [f"-I{PLAIN}", f"-I{details.parents[2]}", "google/rpc/error_details.proto", *names]
    subprocess.run([Path(sys.executable).with_name("protoc"), *plugin, *sources], check=True)
    subprocess.run([MODULES / ".bin" / "tsc", "--project", folder], check=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]))

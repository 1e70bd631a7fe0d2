#!/usr/bin/env python3
"""Generate the Python client's messages, clients/python/src/sluice_client/v1, from generated/proto/.

python_client.py            writes the package, as `make generate` does
python_client.py --check    fails if the package is out of date

The package has the contract without its rules as descriptors, from which any release of protobuf builds the messages,
and stubs for type checkers. Code written by protoc would tie the client to the releases of protobuf that accept it.
"""

from __future__ import annotations

import filecmp
import re
import shutil
import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
PROTO = ROOT / "generated/proto"
PACKAGE = ROOT / "clients/python/src/sluice_client/v1"
_GOOGLE = Path(protoc.__file__).parent / "_proto"
_IMPORT = re.compile(r"^from sluice\.v1 ", re.MULTILINE)  # an import of one stub by another
_INIT = '"""The messages of `sluice.v1`, a module for each file of the contract. Made by `make generate`."""\n'
_MODULE = '''\
"""The messages of {proto}. Made by `make generate`."""

from sluice_client.descriptors import declare

declare("{proto}", globals())
'''


class GenerationError(Exception):
    """Protoc rejected the contract and has printed the reason."""


def generate(package: Path) -> None:
    """Write the package's files into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        stubs, descriptors = Path(folder, "stubs"), Path(folder, "contract.binpb")
        names = sorted(path.relative_to(PROTO).as_posix() for path in PROTO.glob("sluice/v1/*.proto"))
        stubs.mkdir()
        plugin = Path(sys.executable).with_name("protoc-gen-mypy")
        arguments = ["protoc", f"-I{PROTO}", f"-I{_GOOGLE}", f"--descriptor_set_out={descriptors}"]
        arguments += [f"--plugin=protoc-gen-mypy={plugin}", "--mypy_opt=quiet", f"--mypy_out={stubs}", *names]
        if protoc.main(arguments) != 0:
            raise GenerationError
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text(_INIT)
        (package / "contract.binpb").write_bytes(
            FileDescriptorSet.FromString(descriptors.read_bytes()).SerializeToString(deterministic=True)
        )
        for name in names:
            module = f"{Path(name).stem}_pb2"
            (package / f"{module}.py").write_text(_MODULE.format(proto=name))
            stub = (stubs / Path(name).parent / f"{module}.pyi").read_text()
            (package / f"{module}.pyi").write_text(_IMPORT.sub("from sluice_client.v1 ", stub))


def differences(package: Path) -> list[str]:
    """Return the files of the package that are out of date."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder)
        generate(made)
        there = {path.name for path in package.iterdir() if path.is_file()} | {path.name for path in made.iterdir()}
        _, other, missing = filecmp.cmpfiles(made, package, there, shallow=False)
        return sorted(other + missing)


def main(*arguments: str) -> int:
    """Write the package, or compare it."""
    if arguments == ("--check",):
        different = differences(PACKAGE)
        for name in different:
            print(f"{PACKAGE.relative_to(ROOT)}/{name} is not what `make generate` makes")
        return bool(different)
    shutil.rmtree(PACKAGE, ignore_errors=True)
    generate(PACKAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

#!/usr/bin/env python3
"""A protoc plugin: `grpc_python` and its typed stubs, for files with services.

grpcio-tools has `grpc_python` inside its protoc and ships no plugin binary of it; mypy-protobuf's plugin writes an
empty stub for files without services. So this reads a CodeGeneratorRequest from stdin, passes its descriptors to the
first and the narrowed request to the second, and returns the output of both. `make generate` runs it.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from google.protobuf.compiler import plugin_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc


def main() -> int:
    """Answer one request. Return protoc's exit status."""
    request = plugin_pb2.CodeGeneratorRequest.FromString(sys.stdin.buffer.read())
    with_services = {file.name for file in request.proto_file if file.service}
    names = [name for name in request.file_to_generate if name in with_services]
    del request.file_to_generate[:]
    request.file_to_generate.extend(names)

    stubs = Path(sys.executable).with_name("protoc-gen-mypy_grpc")
    typed = subprocess.run([stubs], input=request.SerializeToString(), capture_output=True, check=True)
    response = plugin_pb2.CodeGeneratorResponse.FromString(typed.stdout)

    with tempfile.TemporaryDirectory() as folder:
        descriptors, out = Path(folder, "in.binpb"), Path(folder, "out")
        descriptors.write_bytes(FileDescriptorSet(file=request.proto_file).SerializeToString())
        out.mkdir()
        status = int(protoc.main(["protoc", f"--descriptor_set_in={descriptors}", f"--grpc_python_out={out}", *names]))
        for path in sorted(out.rglob("*.py")):
            response.file.add(name=path.relative_to(out).as_posix(), content=path.read_text())
    sys.stdout.buffer.write(response.SerializeToString())
    return status


if __name__ == "__main__":
    sys.exit(main())

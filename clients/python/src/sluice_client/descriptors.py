"""The contract's messages, built from its descriptors.

They are registered in a separate descriptor pool, so other modules of the same program, such as the server's, can
declare `sluice.v1` too without a conflict. A `Timestamp` within these messages is therefore a separate class, with the
usual methods of a `Timestamp`.
"""

from __future__ import annotations

from importlib import import_module, resources
from typing import Any

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message_factory import GetMessageClass

_CONTRACT = resources.files("sluice_client").joinpath("v1/contract.binpb")
_pool = DescriptorPool()
_files = {file.name: file for file in FileDescriptorSet.FromString(_CONTRACT.read_bytes()).file}


def declare(proto: str, module: dict[str, Any]) -> None:
    """Add everything that a .proto file declares to a module, given by its globals."""
    file = _file(proto)
    module["DESCRIPTOR"] = file
    for name, enum in file.enum_types_by_name.items():
        module[name] = EnumTypeWrapper(enum)
        module.update((value.name, value.number) for value in enum.values)
    module.update(file.extensions_by_name)
    for name, message in file.message_types_by_name.items():
        module[name] = GetMessageClass(message)
        module[name].__module__ = module["__name__"]  # the module from which `pickle` imports the class


def _file(name: str) -> FileDescriptor:
    try:
        return _pool.FindFileByName(name)
    except KeyError:
        file = _files.get(name) or _of_protobuf(name)
        for dependency in file.dependency:
            _file(dependency)
        _pool.Add(file)
        return _pool.FindFileByName(name)


def _of_protobuf(name: str) -> FileDescriptorProto:
    """Return a file that protobuf itself provides, such as google/protobuf/timestamp.proto."""
    module = import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)

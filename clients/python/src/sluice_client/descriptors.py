"""The contract's messages, built from its descriptors.

They stand in a pool of their own: whatever else a program imports, the server's modules among them, may declare
`sluice.v1` as well without a clash. So a `Timestamp` within these messages is a class of its own, too, with the methods
that every `Timestamp` has.
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
    """Put all that a .proto file declares into a module, given by its globals."""
    file = _file(proto)
    module["DESCRIPTOR"] = file
    for name, enum in file.enum_types_by_name.items():
        module[name] = EnumTypeWrapper(enum)
        module.update((value.name, value.number) for value in enum.values)
    module.update(file.extensions_by_name)
    for name, message in file.message_types_by_name.items():
        module[name] = GetMessageClass(message)
        module[name].__module__ = module["__name__"]  # where `pickle` finds it


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
    """One of the files that protobuf has itself, such as google/protobuf/timestamp.proto."""
    module = import_module(f"{name.removesuffix('.proto').replace('/', '.')}_pb2")
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)

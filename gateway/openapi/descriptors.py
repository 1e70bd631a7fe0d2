"""The gRPC contract as a descriptor set, from which clients are generated without .proto files.

It excludes the validation rules, so that generated code has no dependencies. Reflection includes the rules.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Final

import sluice.inference
import sluice.v1
import sluice.vllm
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import Message

MEDIA_TYPE: Final = 'application/x-protobuf; messageType="google.protobuf.FileDescriptorSet"'

_RULES: Final = "buf/validate/validate.proto"
_RULES_PACKAGE: Final = "buf.validate."


def descriptor_set() -> FileDescriptorSet:
    """Return all files of the contract, each after those that it imports."""
    found: dict[str, FileDescriptorProto] = {}
    for package in (sluice.v1, sluice.inference, sluice.vllm):
        modules = pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        for name in sorted(module.name for module in modules if module.name.endswith("_pb2")):
            for file in _with_imports(import_module(name).DESCRIPTOR):
                found.setdefault(file.name, file)
    return FileDescriptorSet(file=found.values())


def _with_imports(descriptor: FileDescriptor) -> Iterator[FileDescriptorProto]:
    """Yield a file, without the rules, after those that it imports."""
    for each in descriptor.dependencies:
        if each.name != _RULES:
            yield from _with_imports(each)
    file = FileDescriptorProto()
    descriptor.CopyToProto(file)
    file.dependency[:] = [name for name in file.dependency if name != _RULES]
    _drop_rules(file)
    yield file


def _drop_rules(message: Message) -> None:
    """Clear the options of the rules in the message and all nested ones, and options that are empty without them."""
    for field, value in message.ListFields():
        if field.is_extension and field.full_name.startswith(_RULES_PACKAGE):
            message.ClearExtension(field)  # type: ignore[arg-type]  # any extension's
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                _drop_rules(each)
            if field.name == "options" and not value.ListFields():
                message.ClearField("options")

"""Server reflection v1 and v1alpha: one protocol under two names; grpcio-reflection has only the older one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.json_format import MessageToDict, ParseDict
from grpc import aio
from grpc_reflection.v1alpha import reflection, reflection_pb2

_OLD: Final = "grpc.reflection.v1alpha"
_NEW: Final = "grpc.reflection.v1"
_FILE: Final = "grpc/reflection/v1/reflection.proto"

REFLECTION_SERVICES: Final = (f"{_NEW}.ServerReflection", f"{_OLD}.ServerReflection")


class _SymbolPool:
    """The default descriptor pool, which also finds the files of methods and oneofs.

    The pool's own `FindFileContainingSymbol` finds all other symbols.
    """

    def __init__(self) -> None:
        self._pool = descriptor_pool.Default()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> FileDescriptor:  # noqa: N802  the pool's name
        """Return the file that declares a symbol, given by full name. Raises KeyError."""
        for find in (self._pool.FindFileContainingSymbol, self._file_of_method, self._file_of_oneof):
            with contextlib.suppress(KeyError):
                return find(symbol)
        raise KeyError(symbol)

    def _file_of_method(self, symbol: str) -> FileDescriptor:
        return self._pool.FindMethodByName(symbol).containing_service.file

    def _file_of_oneof(self, symbol: str) -> FileDescriptor:
        return self._pool.FindOneofByName(symbol).containing_type.file


def add_reflection(server: aio.Server, services: Iterable[str]) -> None:
    """Register reflection for these services, given by full name, and for reflection itself."""
    _describe_v1(descriptor_pool.Default())
    servicer = reflection.aio.ReflectionServicer([*services, *REFLECTION_SERVICES], _SymbolPool())
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for name in REFLECTION_SERVICES:
        handlers = {"ServerReflectionInfo": handler}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))


def _describe_v1(pool: descriptor_pool.DescriptorPool) -> None:
    """Add the descriptor of v1 to reflection's pool, unless it is present."""
    try:
        pool.FindFileByName(_FILE)
    except KeyError:
        old = FileDescriptorProto.FromString(reflection_pb2.DESCRIPTOR.serialized_pb)
        old.ClearField("options")
        fields = json.loads(json.dumps(MessageToDict(old)).replace(_OLD, _NEW))
        pool.AddSerializedFile(ParseDict(fields | {"name": _FILE}, FileDescriptorProto()).SerializeToString())

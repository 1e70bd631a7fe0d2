"""Server reflection v1 and v1alpha: one protocol under two names; grpcio-reflection has only the older one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.json_format import MessageToDict, ParseDict
from grpc import aio
from grpc_reflection.v1alpha import reflection, reflection_pb2

_OLD: Final = "grpc.reflection.v1alpha"
_NEW: Final = "grpc.reflection.v1"
_FILE: Final = "grpc/reflection/v1/reflection.proto"

REFLECTION_SERVICES: Final = (f"{_NEW}.ServerReflection", f"{_OLD}.ServerReflection")


def add_reflection(server: aio.Server, services: Iterable[str]) -> None:
    """Register reflection for these services, given by full name, and for reflection itself."""
    _describe_v1(descriptor_pool.Default())
    servicer = reflection.aio.ReflectionServicer([*services, *REFLECTION_SERVICES])
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

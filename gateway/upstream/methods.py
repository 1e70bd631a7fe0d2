"""The RPCs that the gateway calls, by the type of their request, with the deadline of each.

They follow from the contract's descriptors: kind and deadline class are the method options `sluice.v1.policy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.descriptor import FileDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from sluice.inference import inference_pb2
from sluice.v1 import (
    batch_pb2,
    chat_pb2,
    completion_pb2,
    conversation_pb2,
    embedding_pb2,
    endpoint_pb2,
    file_pb2,
    model_pb2,
    quota_pb2,
    rank_pb2,
    receipt_pb2,
    response_pb2,
    rpc_pb2,
    text_generation_pb2,
    token_pb2,
)

from gateway.settings.config import Settings

_FILES: Final[tuple[FileDescriptor, ...]] = (
    batch_pb2.DESCRIPTOR,
    chat_pb2.DESCRIPTOR,
    completion_pb2.DESCRIPTOR,
    conversation_pb2.DESCRIPTOR,
    embedding_pb2.DESCRIPTOR,
    endpoint_pb2.DESCRIPTOR,
    file_pb2.DESCRIPTOR,
    inference_pb2.DESCRIPTOR,
    model_pb2.DESCRIPTOR,
    quota_pb2.DESCRIPTOR,
    rank_pb2.DESCRIPTOR,
    receipt_pb2.DESCRIPTOR,
    response_pb2.DESCRIPTOR,
    text_generation_pb2.DESCRIPTOR,
    token_pb2.DESCRIPTOR,
)
_LOADING_DEADLINE_S: Final = 3600.0  # a load takes minutes; the change continues if its client disconnects


@dataclass(frozen=True, slots=True)
class Method:
    """One RPC: its full name, the callable that begins a call, and its longest duration in seconds.

    An RPC with `needs_capacity` runs a model: it may be queued, or rejected if the service has no capacity.
    """

    name: str
    begin: Any
    deadline_s: float
    needs_capacity: bool


class MethodTable:
    """The RPCs on one channel: `whole` has the unary ones, `stream` those with streamed responses.

    `upload` has those with streamed requests.
    """

    def __init__(self, channel: grpc.aio.Channel, settings: Settings) -> None:
        self.whole: dict[type[Message], Method] = {}
        self.stream: dict[type[Message], Method] = {}
        self.upload: dict[type[Message], Method] = {}
        deadlines_s = {
            rpc_pb2.DEADLINE_CLASS_REQUEST: settings.request_deadline_s,
            rpc_pb2.DEADLINE_CLASS_LOOKUP: settings.lookup_deadline_s,
            rpc_pb2.DEADLINE_CLASS_LOADING: _LOADING_DEADLINE_S,
        }
        for descriptor, policy in _methods(deadlines_s):
            table: dict[type[Message], Method] = self.whole
            kind: Any = channel.unary_unary
            if descriptor.server_streaming:
                table, kind = self.stream, channel.unary_stream
            elif descriptor.client_streaming:
                table, kind = self.upload, channel.stream_unary
            request = GetMessageClass(descriptor.input_type)
            name = f"{descriptor.containing_service.full_name}/{descriptor.name}"
            begin = kind(
                f"/{name}",
                request_serializer=request.SerializeToString,
                response_deserializer=GetMessageClass(descriptor.output_type).FromString,
            )
            needs_capacity = policy.kind == rpc_pb2.RPC_KIND_INFERENCE
            table[request] = Method(name, begin, deadlines_s[policy.deadline_class], needs_capacity)


def _methods(
    deadlines_s: Mapping[rpc_pb2.DeadlineClass, float],
) -> Iterator[tuple[MethodDescriptor, rpc_pb2.RpcPolicy]]:
    """All RPCs that the gateway has a deadline for and that don't stream both ways, with their options."""
    for file in _FILES:
        for service in file.services_by_name.values():
            for method in service.methods:
                options: Any = method.GetOptions()  # the stubs type no extension
                policy: rpc_pb2.RpcPolicy = options.Extensions[rpc_pb2.policy]
                if policy.deadline_class in deadlines_s and not (method.client_streaming and method.server_streaming):
                    yield method, policy

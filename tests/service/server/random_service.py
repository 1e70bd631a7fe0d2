"""The stubs of a service, to call a method of any kind by its name."""

from __future__ import annotations

from dataclasses import dataclass

from grpc import aio
from sluice.v1 import (
    chat_pb2_grpc,
    completion_pb2_grpc,
    embedding_pb2_grpc,
    response_pb2_grpc,
    text_generation_pb2_grpc,
    token_pb2_grpc,
)

from service.registry.models import ServedEncoder, ServedGenerator
from tests.service.random_calls import METHODS

STUBS = (
    chat_pb2_grpc.ChatServiceStub,
    completion_pb2_grpc.CompletionServiceStub,
    text_generation_pb2_grpc.TextGenerationServiceStub,
    response_pb2_grpc.ResponseServiceStub,
    embedding_pb2_grpc.EmbeddingServiceStub,
    token_pb2_grpc.TokenServiceStub,
)


@dataclass
class Service:
    """The stubs of the server, to call a method by its name."""

    generator: ServedGenerator
    encoder: ServedEncoder
    channel: aio.Channel

    def __post_init__(self) -> None:
        stubs = [stub(self.channel) for stub in STUBS]
        self.methods = {method: getattr(stub, method) for stub in stubs for method in METHODS if hasattr(stub, method)}

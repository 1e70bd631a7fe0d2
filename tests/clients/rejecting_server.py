"""A ChatService that rejects calls, for the checks of this project's Python client. Needs only its packages."""

from contextlib import AbstractContextManager
from typing import Any

import grpc
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2, status_pb2
from sluice_client import methods
from sluice_client.v1 import chat_pb2

from tests.clients import stub_server


class RejectingServer:
    """A server that rejects the first calls, with RetryInfo like the service's, and records the metadata."""

    def __init__(self, num_rejections: int, pushback: str) -> None:
        self.num_calls = 0
        self.metadata: dict[str, Any] = {}
        self._num_rejections = num_rejections
        self._pushback = pushback

    def answer(self, request: chat_pb2.ChatRequest, context: grpc.ServicerContext) -> chat_pb2.ChatResponse:
        """Reject the call, or answer with the model's name."""
        self.num_calls += 1
        self.metadata = dict(context.invocation_metadata())
        if self.num_calls <= self._num_rejections:
            status = status_pb2.Status(code=8, message="the queue is full")
            status.details.add().Pack(error_details_pb2.ErrorInfo(reason="QUEUE_FULL", domain="sluice"))
            status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=250_000_000)))
            trailers = (
                ("grpc-status-details-bin", status.SerializeToString()),
                ("grpc-retry-pushback-ms", self._pushback),
            )
            context.set_trailing_metadata(trailers)
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, status.message)
        return chat_pb2.ChatResponse(model=request.model)


def served(rejecting: RejectingServer) -> AbstractContextManager[str]:
    """Serve and yield the address."""
    return stub_server.served({methods.CHAT: rejecting.answer})

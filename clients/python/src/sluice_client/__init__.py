"""The Python client of sluice: typed calls over gRPC, streamed and whole, synchronous and with asyncio.

    from sluice_client import Client

    with Client("127.0.0.1:8080") as client:
        print(client.chat("What is the capital of France?").text)

The contract's messages are the modules of `sluice_client.v1`.
"""

from sluice_client.answers import ChatAnswer, Completion, ResponseAnswer
from sluice_client.async_client import AsyncClient
from sluice_client.channel import SERVICE_CONFIG, Tls
from sluice_client.client import Client
from sluice_client.errors import (
    AlreadyExistsError,
    AuthenticationError,
    CancelledError,
    ConflictError,
    DeadlineExceededError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ServerError,
    SluiceError,
    UnavailableError,
    Violation,
    reason_name,
)
from sluice_client.request import function, message, tool_result
from sluice_client.streams.async_stream import AsyncStream
from sluice_client.streams.stream import Stream

__all__ = [
    "SERVICE_CONFIG",
    "AlreadyExistsError",
    "AsyncClient",
    "AsyncStream",
    "AuthenticationError",
    "CancelledError",
    "ChatAnswer",
    "Client",
    "Completion",
    "ConflictError",
    "DeadlineExceededError",
    "InvalidRequestError",
    "NotFoundError",
    "OverloadedError",
    "PermissionDeniedError",
    "ResponseAnswer",
    "ServerError",
    "SluiceError",
    "Stream",
    "Tls",
    "UnavailableError",
    "Violation",
    "function",
    "message",
    "reason_name",
    "tool_result",
]

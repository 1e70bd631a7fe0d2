"""The exceptions of failed calls, decoded from a gRPC status with `google.rpc` details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from sluice_client.v1 import error_pb2

_DETAILS: Final = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class Violation:
    """An invalid field: its path in the contract's names, the rule that it violates, and the rule's id."""

    field: str
    description: str
    rule: str = ""


class SluiceError(Exception):
    """A call that failed."""

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        violations: tuple[Violation, ...] = (),
        retry_delay: float | None = None,
        metadata: Mapping[str, str] | None = None,
        request_id: str = "",
    ) -> None:
        """Create the error of a call with the gRPC status `code`; the attributes have the names of the arguments."""
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason  # a `reason_name`, such as MODEL_NOT_FOUND; empty if the status is not the server's
        self.violations = violations  # the invalid fields of the request
        self.retry_delay = retry_delay  # seconds after which a retry may succeed; None if unknown
        self.metadata = dict(metadata or {})  # the values that the message contains, by name
        self.request_id = request_id  # for the server's logs; empty if the status is not the server's

    @property
    def field(self) -> str:
        """The path of the first invalid field, such as `messages[0].content`, or an empty text."""
        return self.violations[0].field if self.violations else self.metadata.get("field", "")

    def __str__(self) -> str:
        return f"{self.code.name} {self.reason}: {self.message}" if self.reason else f"{self.code.name}: {self.message}"


class InvalidRequestError(SluiceError):
    """The request can't be served as it is, now or later (INVALID_ARGUMENT, OUT_OF_RANGE, FAILED_PRECONDITION)."""


class AuthenticationError(SluiceError):
    """The key is missing or wrong (UNAUTHENTICATED)."""


class PermissionDeniedError(SluiceError):
    """The key is valid but does not permit the call (PERMISSION_DENIED)."""


class NotFoundError(SluiceError):
    """The named model, adapter or endpoint does not exist (NOT_FOUND)."""


class AlreadyExistsError(SluiceError):
    """The name is in use (ALREADY_EXISTS)."""


class ConflictError(SluiceError):
    """Another client has changed the endpoint since it was read (ABORTED)."""


class OverloadedError(SluiceError):
    """The queue is full or a limit is reached (RESOURCE_EXHAUSTED); `retry_delay` says when to retry."""


class UnavailableError(SluiceError):
    """No server can serve the call now (UNAVAILABLE)."""


class DeadlineExceededError(SluiceError):
    """The call's deadline passed (DEADLINE_EXCEEDED)."""


class CancelledError(SluiceError):
    """The call was cancelled (CANCELLED)."""


class ServerError(SluiceError):
    """The server or the connection failed during the call (INTERNAL, UNKNOWN and the remaining codes)."""


_BY_CODE: Final[dict[grpc.StatusCode, type[SluiceError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequestError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequestError,
    grpc.StatusCode.FAILED_PRECONDITION: InvalidRequestError,
    grpc.StatusCode.UNAUTHENTICATED: AuthenticationError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExistsError,
    grpc.StatusCode.ABORTED: ConflictError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: OverloadedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    grpc.StatusCode.CANCELLED: CancelledError,
}


def reason_name(reason: error_pb2.ErrorReason.ValueType) -> str:
    """Return an error reason as `SluiceError.reason` has it, such as `MODEL_NOT_FOUND`."""
    return error_pb2.ErrorReason.Name(reason).removeprefix("ERROR_REASON_")


def cancelled() -> CancelledError:
    """Return the error of a stream that was cancelled while no call was open."""
    return CancelledError(grpc.StatusCode.CANCELLED, "the stream was cancelled")


def decode(error: Any) -> SluiceError:
    """Return the exception for a failed call. `error` is a `grpc.Call` or `grpc.aio.AioRpcError` with its status."""
    code: grpc.StatusCode = error.code()
    trailing = dict([*(error.trailing_metadata() or ())])
    reason, metadata, violations, retry_delay = "", {}, [], None
    for detail in _details(trailing.get(_DETAILS)):
        if isinstance(detail, error_details_pb2.ErrorInfo):
            reason, metadata = detail.reason, dict(detail.metadata)
        elif isinstance(detail, error_details_pb2.BadRequest):
            violations += [
                # The oldest supported release of googleapis-common-protos does not have `reason`.
                Violation(each.field, each.description, getattr(each, "reason", ""))
                for each in detail.field_violations
            ]
        else:
            retry_delay = detail.retry_delay.seconds + detail.retry_delay.nanos / 1e9
    return _BY_CODE.get(code, ServerError)(
        code,
        error.details() or "",
        reason=reason,
        violations=tuple(violations),
        retry_delay=retry_delay,
        metadata=metadata,
        request_id=str(trailing.get("x-request-id", "")),
    )


def _details(packed: object) -> Iterator[Any]:
    if not isinstance(packed, bytes):
        return
    try:
        status = status_pb2.Status.FromString(packed)
        for each in status.details:
            for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo):
                if each.Is(kind.DESCRIPTOR):
                    detail = kind()
                    each.Unpack(detail)
                    yield detail
    except DecodeError:
        return

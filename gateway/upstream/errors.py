"""Map gRPC statuses to failures, independent of dialects.

Texts of the transport (addresses, sockets) are not returned to clients; only those of the service are, which have an
ErrorInfo of its domain.
"""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf.any_pb2 import Any
from google.rpc import error_details_pb2, status_pb2

from gateway.dialects.seam.failure import Failure, Reason, Violation

_DOMAIN: Final = "sluice"
_RETRY_AFTER_S: Final = 1.0  # if the status has no RetryInfo
_BY_CODE: Final = {
    grpc.StatusCode.INVALID_ARGUMENT: (Reason.INVALID_FIELD, "the request is invalid"),
    grpc.StatusCode.OUT_OF_RANGE: (Reason.INVALID_FIELD, "the request is invalid"),
    grpc.StatusCode.FAILED_PRECONDITION: (Reason.INVALID_FIELD, "the request is invalid"),
    grpc.StatusCode.UNAUTHENTICATED: (Reason.UNAUTHENTICATED, "missing or invalid credentials"),
    grpc.StatusCode.PERMISSION_DENIED: (Reason.PERMISSION_DENIED, "the credentials do not permit this request"),
    grpc.StatusCode.NOT_FOUND: (Reason.MODEL_NOT_FOUND, "the model does not exist"),
    grpc.StatusCode.ALREADY_EXISTS: (Reason.ENDPOINT_EXISTS, "the name is already in use"),
    grpc.StatusCode.ABORTED: (Reason.ENDPOINT_CHANGED, "it was changed by another client"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (Reason.QUEUE_FULL, "too many requests"),
    # The client still waits: the service's gRPC library ended a call that the service had not taken up in time.
    grpc.StatusCode.CANCELLED: (Reason.UNAVAILABLE, "the service did not begin the request in time"),
    grpc.StatusCode.UNAVAILABLE: (Reason.UNAVAILABLE, "the service is not available"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (Reason.DEADLINE_EXCEEDED, "the request timed out"),
    grpc.StatusCode.UNIMPLEMENTED: (Reason.UNIMPLEMENTED, "the service does not implement this"),
}
_OTHERWISE: Final = (Reason.INTERNAL, "internal error")


class ServiceLost(Failure):
    """The connection broke during the call: the service or a proxy in front of it stopped."""


# The texts of gRPC for calls that were never sent, and of proxies for connections that they lost.
_NEVER_SENT: Final = ("failed to connect", "DNS resolution failed", "no healthy upstream")
_RESET: Final = "RST_STREAM"


def to_failure(error: grpc.aio.AioRpcError) -> Failure:
    """Return the failure for the status of a call; its fields have the contract's names."""
    reason, text = _BY_CODE.get(error.code(), _OTHERWISE)
    violations: list[Violation] = []
    values: dict[str, str] = {}
    retry_after_s = _RETRY_AFTER_S if reason.status in {429, 503} else None
    if _is_lost(error):
        return ServiceLost(*_BY_CODE[grpc.StatusCode.UNAVAILABLE], retry_after_s=_RETRY_AFTER_S)
    for detail in _details(error):
        if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
            info = error_details_pb2.ErrorInfo()
            detail.Unpack(info)
            if info.domain == _DOMAIN:
                reason = Reason.__members__.get(info.reason, reason)
                values = dict(info.metadata)
                text = error.details() or text
        elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            bad = error_details_pb2.BadRequest()
            detail.Unpack(bad)
            violations = [Violation(v.field, v.description) for v in bad.field_violations]
        elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
            retry = error_details_pb2.RetryInfo()
            detail.Unpack(retry)
            retry_after_s = retry.retry_delay.ToTimedelta().total_seconds()
    return Failure(reason, text, violations=violations, retry_after_s=retry_after_s, values=values)


def _is_lost(error: grpc.aio.AioRpcError) -> bool:
    """Return whether a call failed because its connection was lost, and not by an answer of the service."""
    text = error.details() or ""
    if _details(error) or text.startswith(_NEVER_SENT):
        return False
    return error.code() is grpc.StatusCode.UNAVAILABLE or (
        error.code() in {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN} and _RESET in text
    )


def _details(error: grpc.aio.AioRpcError) -> list[Any]:
    """Return the `google.rpc` details of an error."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            return list(status_pb2.Status.FromString(value).details)
    return []

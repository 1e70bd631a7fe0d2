"""Map exceptions to statuses: the one table.

Owns what callers are told of an error: code, text and google.rpc details. An exception that the table doesn't have is
a fault of ours: it is logged, and its text stays here. Only the loop's thread runs it. docs/errors.md is its account.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc import aio
from grpc_status import rpc_status

from service.auth.errors import (
    AuthOff,
    DisabledKey,
    ExpiredKey,
    ExpiredToken,
    InvalidKey,
    InvalidToken,
    MissingKey,
    ScopeMissing,
    SignersUnknown,
)
from service.call import current_call
from service.errors import Draining, InvalidMessage, ReaderStalled, Starting, TooManyCalls
from service.generation.errors import (
    AdapterLost,
    AdapterRefused,
    CannotResume,
    CannotSleep,
    ConstraintFailed,
    DeadlineExceeded,
    EngineAsleep,
    EngineClosed,
    EngineFailed,
    EngineOverloaded,
    EngineRestarting,
    InvalidRequest,
    ModelLoadError,
    PromptTooLong,
    TemplateRefused,
    TooManyAdapters,
    UnsupportedConstraint,
    UnsupportedFeature,
    UnsupportedModality,
    UnsupportedTask,
)
from service.interceptors.policy import Behaviour, Context, Policy
from service.quota.errors import ConcurrencyLimited, LimitExceeded, LimitReached, QuotaUnavailable, RateLimited
from service.registry.errors import (
    AdapterExists,
    AdapterNotFound,
    ChangesUnavailable,
    DeploymentNotFound,
    EndpointChanged,
    EndpointExists,
    EndpointNotAllowed,
    EndpointNotFound,
    EndpointReadOnly,
    EndpointsUnavailable,
    LoadingOff,
    ModelExists,
    ModelNotFound,
    ModelNotLoaded,
    TooManyEndpoints,
    VersionNotFound,
)

DOMAIN = "sluice"

# Callers take trailers of 8 KiB. A text stands there twice or more, three bytes for one where it isn't ASCII.
_MAX_TEXT_BYTES = 512
_MAX_FIELD_BYTES = 128  # of a field's path, in which a map's key stands as the caller wrote it
_RETRY_AFTER_S = 1.0

_log = logging.getLogger(__name__)

Code: TypeAlias = grpc.StatusCode


@dataclass(frozen=True, slots=True)
class Row:
    """What one kind of exception becomes. `is_public` tells whether its text is for the caller."""

    error: type[Exception]
    code: Code
    reason: str
    is_public: bool = True


# The first row that fits counts, so a class stands before its bases.
TABLE = (
    Row(MissingKey, Code.UNAUTHENTICATED, "MISSING_KEY"),
    Row(InvalidKey, Code.UNAUTHENTICATED, "INVALID_KEY"),
    Row(ExpiredKey, Code.UNAUTHENTICATED, "EXPIRED_KEY"),
    Row(DisabledKey, Code.UNAUTHENTICATED, "DISABLED_KEY"),
    Row(InvalidToken, Code.UNAUTHENTICATED, "INVALID_TOKEN"),
    Row(ExpiredToken, Code.UNAUTHENTICATED, "EXPIRED_TOKEN"),
    Row(AuthOff, Code.UNAUTHENTICATED, "AUTH_OFF"),
    Row(ScopeMissing, Code.PERMISSION_DENIED, "SCOPE_MISSING"),
    Row(SignersUnknown, Code.UNAVAILABLE, "SIGNERS_UNKNOWN"),
    Row(InvalidMessage, Code.INVALID_ARGUMENT, "INVALID_FIELD"),
    Row(PromptTooLong, Code.INVALID_ARGUMENT, PromptTooLong.reason),
    Row(UnsupportedModality, Code.INVALID_ARGUMENT, UnsupportedModality.reason),
    Row(TemplateRefused, Code.INVALID_ARGUMENT, TemplateRefused.reason),
    Row(UnsupportedConstraint, Code.INVALID_ARGUMENT, UnsupportedConstraint.reason),
    Row(UnsupportedFeature, Code.INVALID_ARGUMENT, UnsupportedFeature.reason),
    Row(UnsupportedTask, Code.INVALID_ARGUMENT, UnsupportedTask.reason),
    Row(LimitExceeded, Code.INVALID_ARGUMENT, LimitExceeded.reason),
    Row(InvalidRequest, Code.INVALID_ARGUMENT, InvalidRequest.reason),
    Row(CannotResume, Code.FAILED_PRECONDITION, "CANNOT_RESUME"),
    Row(ConstraintFailed, Code.INVALID_ARGUMENT, "CONSTRAINT_FAILED"),
    Row(ModelNotFound, Code.NOT_FOUND, "MODEL_NOT_FOUND"),
    Row(ModelNotLoaded, Code.UNAVAILABLE, "MODEL_NOT_LOADED"),
    Row(VersionNotFound, Code.NOT_FOUND, "VERSION_NOT_FOUND"),
    Row(DeploymentNotFound, Code.NOT_FOUND, "DEPLOYMENT_NOT_FOUND"),
    Row(EndpointNotFound, Code.NOT_FOUND, "ENDPOINT_NOT_FOUND"),
    Row(EndpointNotAllowed, Code.PERMISSION_DENIED, "ENDPOINT_NOT_ALLOWED"),
    Row(EndpointExists, Code.ALREADY_EXISTS, "ENDPOINT_EXISTS"),
    Row(EndpointChanged, Code.ABORTED, "ENDPOINT_CHANGED"),
    Row(EndpointReadOnly, Code.FAILED_PRECONDITION, "ENDPOINT_READ_ONLY"),
    Row(EndpointsUnavailable, Code.UNAVAILABLE, "ENDPOINTS_UNAVAILABLE"),
    Row(ChangesUnavailable, Code.UNAVAILABLE, "CHANGES_UNAVAILABLE"),
    Row(TooManyEndpoints, Code.FAILED_PRECONDITION, "TOO_MANY_ENDPOINTS"),
    Row(AdapterRefused, Code.INVALID_ARGUMENT, "ADAPTER_REFUSED"),
    Row(AdapterNotFound, Code.NOT_FOUND, "ADAPTER_NOT_FOUND"),
    Row(AdapterExists, Code.ALREADY_EXISTS, "ADAPTER_EXISTS"),
    Row(LoadingOff, Code.FAILED_PRECONDITION, "LOADING_OFF"),
    Row(ModelExists, Code.ALREADY_EXISTS, "MODEL_EXISTS"),
    Row(ModelLoadError, Code.FAILED_PRECONDITION, "MODEL_REFUSED"),
    Row(CannotSleep, Code.FAILED_PRECONDITION, "CANNOT_SLEEP"),
    Row(EngineAsleep, Code.UNAVAILABLE, "MODEL_ASLEEP"),
    Row(TooManyAdapters, Code.FAILED_PRECONDITION, "TOO_MANY_ADAPTERS"),
    Row(AdapterLost, Code.UNAVAILABLE, "ADAPTER_LOST"),
    Row(EngineOverloaded, Code.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
    Row(TooManyCalls, Code.RESOURCE_EXHAUSTED, "QUEUE_FULL"),
    Row(RateLimited, Code.RESOURCE_EXHAUSTED, "RATE_LIMITED"),
    Row(ConcurrencyLimited, Code.RESOURCE_EXHAUSTED, "CONCURRENCY_LIMITED"),
    Row(QuotaUnavailable, Code.UNAVAILABLE, "QUOTA_UNAVAILABLE"),
    Row(Starting, Code.UNAVAILABLE, "STARTING"),
    Row(Draining, Code.UNAVAILABLE, "DRAINING"),
    Row(EngineClosed, Code.UNAVAILABLE, "DRAINING"),
    Row(EngineRestarting, Code.UNAVAILABLE, "STARTING"),
    Row(DeadlineExceeded, Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
    Row(ReaderStalled, Code.CANCELLED, "CALLER_LEFT"),
    Row(EngineFailed, Code.INTERNAL, "ENGINE_FAILED", is_public=False),
    Row(Exception, Code.INTERNAL, "INTERNAL", is_public=False),
)


class Errors(Policy):
    """Ends a call that raised with the status of its row; a cancelled call stays cancelled."""

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:  # noqa: ARG002  all alike
        try:
            return await proceed(request, context)
        except (aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  a caller gets a status, whatever it is
            call = current_call()
            row = next(row for row in TABLE if isinstance(error, row.error))
            if call is not None:
                call.reason = row.reason
            if row.error is Exception:
                _log.exception("unexpected error")
            status = rpc_status.to_status(to_status(error, row, call.request_id if call else ""))
            trailing = (
                *(status.trailing_metadata or ()),
                *_pushback(error, row, context),
                ("x-sluice-reason", row.reason),  # as in ErrorInfo, for who reads headers only: Envoy's retries
                *((*call.metadata, *call.report_load()) if call else ()),
            )
            try:
                await context.abort(status.code, status.details, trailing)
            except aio.InternalError as gone:
                # There is nobody to tell any more: the caller left, or his deadline passed.
                raise asyncio.CancelledError from gone


def to_status(error: Exception, row: Row, request_id: str) -> status_pb2.Status:
    """The status of an error with its details: ErrorInfo always, BadRequest and RetryInfo where they apply."""
    text = str(error) if row.is_public else f"internal error; the request's id is {request_id}"
    if isinstance(error, InvalidRequest):
        text = f"{error.field}: {text}"
    status = status_pb2.Status(code=_number(row.code), message=_cut(text))
    for detail in _details(error, row):
        status.details.add().Pack(detail)
    return status


def _details(error: Exception, row: Row) -> Iterator[Message]:
    values = dict(_values(error)) | ({"for_all": "true"} if _is_for_all(error) else {})
    yield error_details_pb2.ErrorInfo(reason=row.reason, domain=DOMAIN, metadata=values)
    if isinstance(error, InvalidMessage):
        yield error_details_pb2.BadRequest(
            field_violations=[
                error_details_pb2.BadRequest.FieldViolation(
                    field=_cut(each.field, _MAX_FIELD_BYTES), description=_cut(each.description), reason=each.rule
                )
                for each in error.violations
            ]
        )
    if isinstance(error, InvalidRequest):
        yield error_details_pb2.BadRequest(
            field_violations=[
                error_details_pb2.BadRequest.FieldViolation(
                    field=error.field, description=_cut(str(error)), reason=row.reason
                )
            ]
        )
    if isinstance(error, LimitReached):
        limit = error.limit
        violation = error_details_pb2.QuotaFailure.Violation(
            subject=_cut(limit.subject, _MAX_FIELD_BYTES),
            description=_cut(str(error)),
            quota_metric=limit.measure.value,
            quota_value=limit.value,
        )
        yield error_details_pb2.QuotaFailure(violations=[violation])
    if (retry_after_s := _retry_after_s(error, row)) is not None:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.FromNanoseconds(round(retry_after_s * 1e9))
        yield info


def _retry_after_s(error: Exception, row: Row) -> float | None:
    if row.code not in {Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE}:
        return None
    delay_s: float = getattr(error, "retry_after_s", _RETRY_AFTER_S)
    return delay_s


def _pushback(error: Exception, row: Row, context: Context) -> Iterator[tuple[str, str]]:
    """What RetryInfo says, for gRPC's own retries (gRFC A6), in ms; below 0, which is never, after the deadline."""
    if (retry_after_s := _retry_after_s(error, row)) is not None:
        remaining_s = context.time_remaining()
        is_too_late = remaining_s is not None and remaining_s <= retry_after_s
        yield "grpc-retry-pushback-ms", "-1" if is_too_late else str(round(retry_after_s * 1000))


def _values(error: Exception) -> Iterator[tuple[str, str]]:
    """The numbers and names that an error's text has, for callers that put them into words of their own."""
    if isinstance(error, InvalidRequest):
        yield "field", error.field
    if (limit := _limit(error)) is not None:
        yield "limit", str(limit)
    match error:
        case InvalidMessage():
            first = error.violations[0]
            yield "field", _cut(first.field, _MAX_FIELD_BYTES)
            if first.value is not None:
                yield "value", first.value
        case PromptTooLong():
            yield "num_prompt_tokens", str(error.num_prompt_tokens)
        case LimitExceeded() | LimitReached():
            yield "quota_metric", error.limit.measure.value
        case (
            ModelNotLoaded()
            | ModelNotFound()
            | VersionNotFound()
            | DeploymentNotFound()
            | AdapterNotFound()
            | AdapterExists()
            | ModelExists()
        ):
            yield from vars(error).items()
        case EndpointNotFound() | EndpointNotAllowed() | EndpointExists() | EndpointChanged() | EndpointReadOnly():
            yield "endpoint", error.endpoint
        case ScopeMissing():
            yield "scopes", " ".join(error.scopes)


def _is_for_all(error: Exception) -> bool:
    """Whether any other request of the caller for the model would be refused, too: the gateway then asks for few."""
    return isinstance(error, TooManyCalls) or (isinstance(error, EngineOverloaded) and error.for_all)


def _limit(error: Exception) -> int | None:
    """The limit that a request exceeds."""
    match error:
        case PromptTooLong():
            return error.max_prompt_tokens
        case LimitExceeded() | LimitReached():
            return error.limit.value
        case TooManyEndpoints():
            return error.max_endpoints
        case TooManyCalls():
            return error.max_concurrent_calls
    return None


def _cut(text: str, max_bytes: int = _MAX_TEXT_BYTES) -> str:
    return text.encode()[:max_bytes].decode(errors="ignore")


def _number(code: Code) -> int:
    number: int = code_pb2.Code.Value(code.name)
    return number

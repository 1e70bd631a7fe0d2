"""The table that maps exceptions to gRPC statuses and reasons. docs/errors.md documents it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import grpc
from sluice.v1 import error_pb2

from service.answering.errors import (
    BatchExpired,
    BatchNotFound,
    ConversationChanged,
    ConversationNotFound,
    FileNotFound,
    ResponseNotFound,
    StoreFull,
    StoreUnavailable,
    StoringOff,
    TooManyInBackground,
)
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
from service.calls.errors import Draining, InvalidMessage, ReaderStalled, Starting, TooManyCalls, TooManyUploads
from service.generation.errors import (
    AdapterLost,
    AdapterRejected,
    CacheEventsLost,
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
    TemplateRejected,
    TooManyAdapters,
    UnsupportedConstraint,
    UnsupportedFeature,
    UnsupportedModality,
    UnsupportedTask,
)
from service.quota.errors import ConcurrencyLimited, LimitExceeded, QuotaUnavailable, RateLimited
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
    OperationNotFound,
    TooManyEndpoints,
    TooManyOperations,
    VersionNotFound,
)

Code: TypeAlias = grpc.StatusCode


@dataclass(frozen=True, slots=True)
class Row:
    """The status and reason of one class of exceptions. If `is_public`, its text is returned to the client."""

    error: type[Exception]
    code: Code
    reason: error_pb2.ErrorReason
    is_public: bool = True

    @property
    def reason_name(self) -> str:
        """The reason as it stands in ErrorInfo and in the trailer `x-sluice-reason`."""
        return error_pb2.ErrorReason.Name(self.reason).removeprefix("ERROR_REASON_")


# The first matching row applies, so a class stands before its bases.
TABLE = (
    Row(MissingKey, Code.UNAUTHENTICATED, error_pb2.ERROR_REASON_MISSING_KEY),
    Row(InvalidKey, Code.UNAUTHENTICATED, error_pb2.ERROR_REASON_INVALID_KEY),
    Row(ExpiredKey, Code.UNAUTHENTICATED, error_pb2.ERROR_REASON_EXPIRED_KEY),
    Row(DisabledKey, Code.UNAUTHENTICATED, error_pb2.ERROR_REASON_DISABLED_KEY),
    Row(InvalidToken, Code.UNAUTHENTICATED, error_pb2.ERROR_REASON_INVALID_TOKEN),
    Row(ExpiredToken, Code.UNAUTHENTICATED, error_pb2.ERROR_REASON_EXPIRED_TOKEN),
    Row(AuthOff, Code.UNAUTHENTICATED, error_pb2.ERROR_REASON_AUTH_OFF),
    Row(ScopeMissing, Code.PERMISSION_DENIED, error_pb2.ERROR_REASON_SCOPE_MISSING),
    Row(SignersUnknown, Code.UNAVAILABLE, error_pb2.ERROR_REASON_SIGNERS_UNKNOWN),
    Row(InvalidMessage, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_INVALID_FIELD),
    Row(ResponseNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_RESPONSE_NOT_FOUND),
    Row(ConversationChanged, Code.ABORTED, error_pb2.ERROR_REASON_CONVERSATION_CHANGED),
    Row(ConversationNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_CONVERSATION_NOT_FOUND),
    Row(BatchNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_BATCH_NOT_FOUND),
    Row(FileNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_FILE_NOT_FOUND),
    Row(StoringOff, Code.FAILED_PRECONDITION, error_pb2.ERROR_REASON_STORING_OFF),
    Row(PromptTooLong, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_PROMPT_TOO_LONG),
    Row(UnsupportedModality, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_UNSUPPORTED_MODALITY),
    Row(TemplateRejected, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_TEMPLATE_REFUSED),
    Row(UnsupportedConstraint, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_UNSUPPORTED_CONSTRAINT),
    Row(UnsupportedFeature, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_UNSUPPORTED_FEATURE),
    Row(UnsupportedTask, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_UNSUPPORTED_TASK),
    Row(LimitExceeded, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_LIMIT_EXCEEDED),
    Row(InvalidRequest, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_INVALID_FIELD),
    Row(CannotResume, Code.FAILED_PRECONDITION, error_pb2.ERROR_REASON_CANNOT_RESUME),
    Row(ConstraintFailed, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_CONSTRAINT_FAILED),
    Row(ModelNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_MODEL_NOT_FOUND),
    Row(ModelNotLoaded, Code.UNAVAILABLE, error_pb2.ERROR_REASON_MODEL_NOT_LOADED),
    Row(StoreUnavailable, Code.UNAVAILABLE, error_pb2.ERROR_REASON_STORE_UNAVAILABLE),
    Row(VersionNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_VERSION_NOT_FOUND),
    Row(DeploymentNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_DEPLOYMENT_NOT_FOUND),
    Row(EndpointNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_ENDPOINT_NOT_FOUND),
    Row(EndpointNotAllowed, Code.PERMISSION_DENIED, error_pb2.ERROR_REASON_ENDPOINT_NOT_ALLOWED),
    Row(EndpointExists, Code.ALREADY_EXISTS, error_pb2.ERROR_REASON_ENDPOINT_EXISTS),
    Row(EndpointChanged, Code.ABORTED, error_pb2.ERROR_REASON_ENDPOINT_CHANGED),
    Row(EndpointReadOnly, Code.FAILED_PRECONDITION, error_pb2.ERROR_REASON_ENDPOINT_READ_ONLY),
    Row(EndpointsUnavailable, Code.UNAVAILABLE, error_pb2.ERROR_REASON_ENDPOINTS_UNAVAILABLE),
    Row(ChangesUnavailable, Code.UNAVAILABLE, error_pb2.ERROR_REASON_CHANGES_UNAVAILABLE),
    Row(TooManyEndpoints, Code.FAILED_PRECONDITION, error_pb2.ERROR_REASON_TOO_MANY_ENDPOINTS),
    Row(AdapterRejected, Code.INVALID_ARGUMENT, error_pb2.ERROR_REASON_ADAPTER_REFUSED),
    Row(AdapterNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_ADAPTER_NOT_FOUND),
    Row(AdapterExists, Code.ALREADY_EXISTS, error_pb2.ERROR_REASON_ADAPTER_EXISTS),
    Row(OperationNotFound, Code.NOT_FOUND, error_pb2.ERROR_REASON_OPERATION_NOT_FOUND),
    Row(LoadingOff, Code.FAILED_PRECONDITION, error_pb2.ERROR_REASON_LOADING_OFF),
    Row(ModelExists, Code.ALREADY_EXISTS, error_pb2.ERROR_REASON_MODEL_EXISTS),
    Row(ModelLoadError, Code.FAILED_PRECONDITION, error_pb2.ERROR_REASON_MODEL_REFUSED),
    Row(CannotSleep, Code.FAILED_PRECONDITION, error_pb2.ERROR_REASON_CANNOT_SLEEP),
    Row(EngineAsleep, Code.UNAVAILABLE, error_pb2.ERROR_REASON_MODEL_ASLEEP),
    Row(TooManyAdapters, Code.FAILED_PRECONDITION, error_pb2.ERROR_REASON_TOO_MANY_ADAPTERS),
    Row(CacheEventsLost, Code.DATA_LOSS, error_pb2.ERROR_REASON_CACHE_EVENTS_LOST),
    Row(AdapterLost, Code.UNAVAILABLE, error_pb2.ERROR_REASON_ADAPTER_LOST),
    Row(EngineOverloaded, Code.RESOURCE_EXHAUSTED, error_pb2.ERROR_REASON_QUEUE_FULL),
    Row(StoreFull, Code.RESOURCE_EXHAUSTED, error_pb2.ERROR_REASON_QUEUE_FULL),
    Row(TooManyInBackground, Code.RESOURCE_EXHAUSTED, error_pb2.ERROR_REASON_QUEUE_FULL),
    Row(TooManyOperations, Code.RESOURCE_EXHAUSTED, error_pb2.ERROR_REASON_QUEUE_FULL),
    Row(TooManyCalls, Code.RESOURCE_EXHAUSTED, error_pb2.ERROR_REASON_QUEUE_FULL),
    Row(RateLimited, Code.RESOURCE_EXHAUSTED, error_pb2.ERROR_REASON_RATE_LIMITED),
    Row(TooManyUploads, Code.RESOURCE_EXHAUSTED, error_pb2.ERROR_REASON_CONCURRENCY_LIMITED),
    Row(ConcurrencyLimited, Code.RESOURCE_EXHAUSTED, error_pb2.ERROR_REASON_CONCURRENCY_LIMITED),
    Row(QuotaUnavailable, Code.UNAVAILABLE, error_pb2.ERROR_REASON_QUOTA_UNAVAILABLE),
    Row(Starting, Code.UNAVAILABLE, error_pb2.ERROR_REASON_STARTING),
    Row(Draining, Code.UNAVAILABLE, error_pb2.ERROR_REASON_DRAINING),
    Row(EngineClosed, Code.UNAVAILABLE, error_pb2.ERROR_REASON_DRAINING),
    Row(EngineRestarting, Code.UNAVAILABLE, error_pb2.ERROR_REASON_STARTING),
    Row(DeadlineExceeded, Code.DEADLINE_EXCEEDED, error_pb2.ERROR_REASON_DEADLINE_EXCEEDED),
    Row(BatchExpired, Code.DEADLINE_EXCEEDED, error_pb2.ERROR_REASON_BATCH_EXPIRED),
    Row(ReaderStalled, Code.CANCELLED, error_pb2.ERROR_REASON_CALLER_LEFT),
    Row(EngineFailed, Code.INTERNAL, error_pb2.ERROR_REASON_ENGINE_FAILED, is_public=False),
    Row(Exception, Code.INTERNAL, error_pb2.ERROR_REASON_INTERNAL, is_public=False),
)


def row_of(error: Exception) -> Row:
    """Return the row of an exception; an unexpected one has the last row, that of Exception itself."""
    return next(row for row in TABLE if isinstance(error, row.error))


def described(error: Exception) -> tuple[error_pb2.ErrorReason, str]:
    """Return the reason and the public text of an error that ended something in the background."""
    row = row_of(error)
    return row.reason, str(error) if row.is_public else "internal error"

"""An exception of each kind, with the status and the details that a client receives."""

from dataclasses import dataclass, field

import grpc

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
from service.auth import errors as auth_errors
from service.calls.errors import (
    Draining,
    InvalidMessage,
    ReaderStalled,
    Starting,
    TooManyCalls,
    TooManyUploads,
    Violation,
)
from service.generation import errors as generation_errors
from service.generation.caller import Scope
from service.quota.errors import ConcurrencyLimited, LimitExceeded, QuotaUnavailable, RateLimited
from service.quota.limit import Limit, Measure
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

Code = grpc.StatusCode


@dataclass(frozen=True)
class Case:
    """An exception and its expected status. `violation` is (field, reason) of the BadRequest."""

    error: Exception
    code: Code
    reason: str
    violation: tuple[str, str] | None = None
    retry_after_s: float | None = None
    values: dict[str, str] = field(default_factory=dict)


def blaming(error: Exception, path: str, reason: str, **values: str) -> Case:
    """Return a case of INVALID_ARGUMENT with the invalid field in BadRequest and ErrorInfo."""
    return Case(error, Code.INVALID_ARGUMENT, reason, (path, reason), values={"field": path, **values})


IMAGE = "messages[0].content[1].image_url"
REGEX = "output_constraint.regex"
REQUESTS = Limit(Measure.REQUESTS, 60, "k1", "")
PLACES = Limit(Measure.CONCURRENT_REQUESTS, 4, "k1", "m")
MAX_N = Limit(Measure.MAX_N, 2, "k1", "")
UNAUTHENTICATED = Code.UNAUTHENTICATED
CASES = [
    Case(auth_errors.MissingKey(), UNAUTHENTICATED, "MISSING_KEY"),
    Case(auth_errors.InvalidKey(), UNAUTHENTICATED, "INVALID_KEY"),
    Case(auth_errors.ExpiredKey(), UNAUTHENTICATED, "EXPIRED_KEY"),
    Case(auth_errors.DisabledKey(), UNAUTHENTICATED, "DISABLED_KEY"),
    Case(auth_errors.InvalidToken("its issuer"), UNAUTHENTICATED, "INVALID_TOKEN"),
    Case(auth_errors.ExpiredToken(), UNAUTHENTICATED, "EXPIRED_TOKEN"),
    Case(auth_errors.AuthOff(), UNAUTHENTICATED, "AUTH_OFF"),
    Case(
        auth_errors.ScopeMissing({Scope.EMBED, Scope.ADMIN}),
        Code.PERMISSION_DENIED,
        "SCOPE_MISSING",
        values={"scopes": "admin embed"},
    ),
    Case(auth_errors.SignersUnknown(5.0), Code.UNAVAILABLE, "SIGNERS_UNKNOWN", retry_after_s=5.0),
    Case(
        InvalidMessage([Violation("n", "must be at most 128", "uint32.lte", "129")]),
        Code.INVALID_ARGUMENT,
        "INVALID_FIELD",
        ("n", "uint32.lte"),
        values={"field": "n", "value": "129"},
    ),
    blaming(
        generation_errors.PromptTooLong("messages", 9, 8),
        "messages",
        "PROMPT_TOO_LONG",
        limit="8",
        num_prompt_tokens="9",
    ),
    blaming(generation_errors.UnsupportedModality(IMAGE, "no images"), IMAGE, "UNSUPPORTED_MODALITY"),
    blaming(generation_errors.TemplateRejected("messages", "must alternate"), "messages", "TEMPLATE_REFUSED"),
    blaming(generation_errors.UnsupportedConstraint(REGEX, "look-ahead"), REGEX, "UNSUPPORTED_CONSTRAINT"),
    blaming(generation_errors.UnsupportedFeature("tools", "no tools"), "tools", "UNSUPPORTED_FEATURE"),
    blaming(generation_errors.UnsupportedTask("makes vectors"), "model", "UNSUPPORTED_TASK"),
    blaming(
        generation_errors.InvalidRequest("stopping.max_tokens", "too many"), "stopping.max_tokens", "INVALID_FIELD"
    ),
    blaming(LimitExceeded.of_value("n", 3, MAX_N), "n", "LIMIT_EXCEEDED", limit="2", quota_metric="max_n"),
    Case(generation_errors.ConstraintFailed("too much memory"), Code.INVALID_ARGUMENT, "CONSTRAINT_FAILED"),
    Case(
        ResponseNotFound("id"),
        Code.NOT_FOUND,
        "RESPONSE_NOT_FOUND",
        ("id", "RESPONSE_NOT_FOUND"),
        values={"field": "id"},
    ),
    Case(
        ConversationNotFound("conversation"),
        Code.NOT_FOUND,
        "CONVERSATION_NOT_FOUND",
        ("conversation", "CONVERSATION_NOT_FOUND"),
        values={"field": "conversation"},
    ),
    Case(BatchNotFound("id"), Code.NOT_FOUND, "BATCH_NOT_FOUND", ("id", "BATCH_NOT_FOUND"), values={"field": "id"}),
    Case(BatchExpired(), Code.DEADLINE_EXCEEDED, "BATCH_EXPIRED"),
    Case(FileNotFound("id"), Code.NOT_FOUND, "FILE_NOT_FOUND", ("id", "FILE_NOT_FOUND"), values={"field": "id"}),
    Case(
        StoringOff("store"),
        Code.FAILED_PRECONDITION,
        "STORING_OFF",
        ("store", "STORING_OFF"),
        values={"field": "store"},
    ),
    Case(StoreFull("full"), Code.RESOURCE_EXHAUSTED, "QUEUE_FULL", retry_after_s=60.0),
    Case(
        TooManyInBackground("many", 3),
        Code.RESOURCE_EXHAUSTED,
        "QUEUE_FULL",
        retry_after_s=5.0,
        values={"limit": "3", "setting": "stored_responses.max_background_per_key"},
    ),
    Case(
        StoreFull("full", "batches.max_bytes", 7),
        Code.RESOURCE_EXHAUSTED,
        "QUEUE_FULL",
        retry_after_s=60.0,
        values={"limit": "7", "setting": "batches.max_bytes"},
    ),
    Case(StoreUnavailable(), Code.UNAVAILABLE, "STORE_UNAVAILABLE", retry_after_s=1.0),
    Case(ModelNotFound("nobody"), Code.NOT_FOUND, "MODEL_NOT_FOUND", values={"model": "nobody"}),
    Case(
        VersionNotFound("one", "3", "2"),
        Code.NOT_FOUND,
        "VERSION_NOT_FOUND",
        values={"model": "one", "version": "3"},
    ),
    Case(
        DeploymentNotFound("both", "third"),
        Code.NOT_FOUND,
        "DEPLOYMENT_NOT_FOUND",
        values={"endpoint": "both", "deployment": "third"},
    ),
    Case(EndpointNotFound("both"), Code.NOT_FOUND, "ENDPOINT_NOT_FOUND", values={"endpoint": "both"}),
    Case(EndpointNotAllowed("both"), Code.PERMISSION_DENIED, "ENDPOINT_NOT_ALLOWED", values={"endpoint": "both"}),
    Case(EndpointExists("both"), Code.ALREADY_EXISTS, "ENDPOINT_EXISTS", values={"endpoint": "both"}),
    Case(
        EndpointReadOnly("both", "is fixed"),
        Code.FAILED_PRECONDITION,
        "ENDPOINT_READ_ONLY",
        values={"endpoint": "both"},
    ),
    Case(generation_errors.AdapterRejected("r: 128"), Code.INVALID_ARGUMENT, "ADAPTER_REFUSED"),
    Case(AdapterNotFound("m", "a"), Code.NOT_FOUND, "ADAPTER_NOT_FOUND", values={"model": "m", "adapter": "a"}),
    Case(AdapterExists("a"), Code.ALREADY_EXISTS, "ADAPTER_EXISTS", values={"adapter": "a"}),
    Case(LoadingOff("adapters", "adapters_root"), Code.FAILED_PRECONDITION, "LOADING_OFF"),
    Case(ModelExists("m"), Code.ALREADY_EXISTS, "MODEL_EXISTS", values={"model": "m"}),
    Case(generation_errors.ModelLoadError("no config.json"), Code.FAILED_PRECONDITION, "MODEL_REFUSED"),
    Case(generation_errors.CacheEventsLost("lost"), Code.DATA_LOSS, "CACHE_EVENTS_LOST"),
    Case(OperationNotFound(), Code.NOT_FOUND, "OPERATION_NOT_FOUND"),
    Case(TooManyOperations(16), Code.RESOURCE_EXHAUSTED, "QUEUE_FULL", retry_after_s=5.0, values={"limit": "16"}),
    Case(generation_errors.CannotSleep("a thread"), Code.FAILED_PRECONDITION, "CANNOT_SLEEP"),
    Case(generation_errors.EngineAsleep("zzz", 1.0), Code.UNAVAILABLE, "MODEL_ASLEEP", retry_after_s=1.0),
    Case(generation_errors.TooManyAdapters("2 of 2"), Code.FAILED_PRECONDITION, "TOO_MANY_ADAPTERS"),
    Case(ModelNotLoaded("bad"), Code.UNAVAILABLE, "MODEL_NOT_LOADED", retry_after_s=1.0, values={"model": "bad"}),
    Case(generation_errors.AdapterLost("it"), Code.UNAVAILABLE, "ADAPTER_LOST", retry_after_s=1.0),
    Case(generation_errors.CannotResume("another request"), Code.FAILED_PRECONDITION, "CANNOT_RESUME"),
    Case(ConversationChanged(), Code.ABORTED, "CONVERSATION_CHANGED"),
    Case(EndpointChanged("x", 3, 2), Code.ABORTED, "ENDPOINT_CHANGED", values={"endpoint": "x"}),
    Case(EndpointsUnavailable(1.0), Code.UNAVAILABLE, "ENDPOINTS_UNAVAILABLE", retry_after_s=1.0),
    Case(ChangesUnavailable(1.0), Code.UNAVAILABLE, "CHANGES_UNAVAILABLE", retry_after_s=1.0),
    Case(TooManyEndpoints(3), Code.FAILED_PRECONDITION, "TOO_MANY_ENDPOINTS", values={"limit": "3"}),
    Case(
        generation_errors.EngineOverloaded("256 requests wait already", retry_after_s=2.5),
        Code.RESOURCE_EXHAUSTED,
        "QUEUE_FULL",
        retry_after_s=2.5,
    ),
    Case(
        generation_errors.EngineOverloaded("256 requests wait already", retry_after_s=2.5, for_all=True),
        Code.RESOURCE_EXHAUSTED,
        "QUEUE_FULL",
        retry_after_s=2.5,
        values={"for_all": "true"},
    ),
    Case(
        TooManyCalls(7, 1.0),
        Code.RESOURCE_EXHAUSTED,
        "QUEUE_FULL",
        retry_after_s=1.0,
        values={"limit": "7", "for_all": "true"},
    ),
    Case(
        RateLimited(REQUESTS, 1, 0, 0.75),
        Code.RESOURCE_EXHAUSTED,
        "RATE_LIMITED",
        retry_after_s=0.75,
        values={"limit": "60", "quota_metric": "requests_per_minute"},
    ),
    Case(
        TooManyUploads(32, 1.0),
        Code.RESOURCE_EXHAUSTED,
        "CONCURRENCY_LIMITED",
        retry_after_s=1.0,
        values={"limit": "32"},
    ),
    Case(
        ConcurrencyLimited(PLACES, 1.0),
        Code.RESOURCE_EXHAUSTED,
        "CONCURRENCY_LIMITED",
        retry_after_s=1.0,
        values={"limit": "4", "quota_metric": "concurrent_requests"},
    ),
    Case(QuotaUnavailable(1.0), Code.UNAVAILABLE, "QUOTA_UNAVAILABLE", retry_after_s=1.0),
    Case(Starting(1.0), Code.UNAVAILABLE, "STARTING", retry_after_s=1.0),
    Case(
        generation_errors.EngineRestarting("the engine died and is being started again", 4.0),
        Code.UNAVAILABLE,
        "STARTING",
        retry_after_s=4.0,
    ),
    Case(Draining(1.0), Code.UNAVAILABLE, "DRAINING", retry_after_s=1.0),
    Case(generation_errors.EngineClosed("no more"), Code.UNAVAILABLE, "DRAINING", retry_after_s=1.0),
    Case(generation_errors.DeadlineExceeded("too late"), Code.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED"),
    Case(ReaderStalled(60), Code.CANCELLED, "CALLER_LEFT"),
    Case(generation_errors.EngineFailed("secret"), Code.INTERNAL, "ENGINE_FAILED"),
    Case(ValueError("secret"), Code.INTERNAL, "INTERNAL"),
]

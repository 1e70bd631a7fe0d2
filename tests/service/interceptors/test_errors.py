"""The table from exceptions to statuses, row by row, as a client sees it."""

import re
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from sluice.v1 import error_pb2

from service.answering.errors import ResponseNotFound, StoreUnavailable, StoringOff
from service.auth import errors as auth_errors
from service.auth.token import UnknownSigner
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
from service.interceptors.errors import DOMAIN
from service.interceptors.status_table import TABLE
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
    TooManyEndpoints,
    VersionNotFound,
)
from tests.service.fakes import rejection_of, request, running
from tests.waiting import GUARD_S

ROOT = Path(__file__).parents[3]
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
        StoringOff("store"),
        Code.FAILED_PRECONDITION,
        "STORING_OFF",
        ("store", "STORING_OFF"),
        values={"field": "store"},
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
    Case(generation_errors.CannotSleep("a thread"), Code.FAILED_PRECONDITION, "CANNOT_SLEEP"),
    Case(generation_errors.EngineAsleep("zzz", 1.0), Code.UNAVAILABLE, "MODEL_ASLEEP", retry_after_s=1.0),
    Case(generation_errors.TooManyAdapters("2 of 2"), Code.FAILED_PRECONDITION, "TOO_MANY_ADAPTERS"),
    Case(ModelNotLoaded("bad"), Code.UNAVAILABLE, "MODEL_NOT_LOADED", retry_after_s=1.0, values={"model": "bad"}),
    Case(generation_errors.AdapterLost("it"), Code.UNAVAILABLE, "ADAPTER_LOST", retry_after_s=1.0),
    Case(generation_errors.CannotResume("another request"), Code.FAILED_PRECONDITION, "CANNOT_RESUME"),
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


@pytest.mark.parametrize("method", ["Chat", "StreamChat"])
@pytest.mark.parametrize("case", CASES, ids=[type(case.error).__name__ for case in CASES])
async def test_error_becomes_its_status(case: Case, method: str) -> None:
    """Code, ErrorInfo, BadRequest and RetryInfo are those of the table, with the call's request id."""
    async with running() as run:
        run.preparation.fail_with = case.error
        call = getattr(run.chat, method)(request(), metadata=(("x-request-id", "request-7"),))
        rejection = await rejection_of(call)
    assert rejection.code is case.code
    assert (rejection.info.domain, rejection.info.reason) == (DOMAIN, case.reason)
    assert rejection.fields == ([case.violation] if case.violation else [])
    assert rejection.retry_after_s == case.retry_after_s
    assert dict(rejection.info.metadata) == case.values
    assert rejection.request_id == "request-7"
    assert dict(rejection.error.trailing_metadata() or ())["x-sluice-reason"] == case.reason


@pytest.mark.parametrize(
    ("within_s", "delay_s", "pushback"), [(None, 2.5, "2500"), (GUARD_S, 2.5, "2500"), (GUARD_S, 2 * GUARD_S, "-1")]
)
async def test_grpc_retry_pushback_is_the_delay_of_retry_info(
    within_s: float | None, delay_s: float, pushback: str
) -> None:
    """GRPC's own retries wait for the delay of RetryInfo, and are disabled if the deadline is earlier."""
    async with running() as run:
        run.preparation.fail_with = generation_errors.EngineOverloaded("256 wait already", retry_after_s=delay_s)
        rejection = await rejection_of(run.chat.Chat(request(), timeout=within_s))
        run.preparation.fail_with = generation_errors.TemplateRejected("messages", "must alternate")
        final = await rejection_of(run.chat.Chat(request(), timeout=within_s))
    assert dict(rejection.error.trailing_metadata() or ())["grpc-retry-pushback-ms"] == pushback
    assert "grpc-retry-pushback-ms" not in dict(final.error.trailing_metadata() or ())


@pytest.mark.parametrize("error", [ValueError("secret"), generation_errors.EngineFailed("secret")])
async def test_internal_errors_show_the_request_id_and_no_more(error: Exception) -> None:
    """The client gets an id to report, and no internal details."""
    async with running() as run:
        run.preparation.fail_with = error
        rejection = await rejection_of(run.chat.Chat(request(), metadata=(("x-request-id", "request-7"),)))
    assert "request-7" in rejection.text
    assert "secret" not in str(rejection.error)


async def test_reached_limits_are_reported_in_quota_failure() -> None:
    """The details have the owner, the measure and the value of the limit."""
    async with running() as run:
        run.preparation.fail_with = ConcurrencyLimited(PLACES, 1.0)
        rejection = await rejection_of(run.chat.Chat(request()))
    (violation,) = rejection.quota_violations
    assert (violation.subject, violation.quota_metric) == ("key:k1/model:m", "concurrent_requests")
    assert violation.quota_value == 4
    assert violation.description == rejection.text


def test_every_row_of_the_status_table_is_tested() -> None:
    """A new row needs a case."""
    tried = {next(row for row in TABLE if isinstance(case.error, row.error)).error for case in CASES}
    assert tried == {row.error for row in TABLE}


def test_every_error_of_the_service_has_a_row() -> None:
    """Every error class has a row, unless it is a root or is always caught in its package."""
    internal = {UnknownSigner}
    for error in _subclasses(generation_errors.ServiceError) - internal:
        if error.__module__.startswith("service.") and not error.__subclasses__():
            assert any(issubclass(error, row.error) for row in TABLE if row.error is not Exception), error


def test_every_reason_of_the_contract_has_a_row() -> None:
    """The enum has the reasons of the table and no others."""
    assert {row.reason for row in TABLE} == set(error_pb2.ErrorReason.values()) - {0}


def test_every_reason_is_documented() -> None:
    """docs/errors.md has a row for each reason with its code; its comment in the contract begins with the code."""
    lines = (ROOT / "docs" / "errors.md").read_text().splitlines()
    contract = (ROOT / "proto" / "sluice" / "v1" / "error.proto").read_text()
    for row in TABLE:
        name = row.reason_name
        assert [line for line in lines if line.startswith(f"| `{name}` | {row.code.name} |")], name
    codes = {f"ERROR_REASON_{row.reason_name}": row.code.name for row in TABLE}
    assert {name: code for code, name in _comments(contract)} == codes


async def test_errors_fit_into_trailers() -> None:
    """A long text is cut, because a status that exceeds the trailers would reach the client as another error."""
    async with running() as run:
        run.preparation.fail_with = generation_errors.TemplateRejected("messages", "ü" * 100_000)
        rejection = await rejection_of(run.chat.Chat(request()))
    assert rejection.code is Code.INVALID_ARGUMENT
    assert rejection.info.reason == "TEMPLATE_REFUSED"


def _subclasses(error: type[Exception]) -> set[type[Exception]]:
    direct = set(error.__subclasses__())
    return direct.union(*map(_subclasses, direct))


def _comments(contract: str) -> list[tuple[str, str]]:
    """Yield (code, name) for each value of the enum whose comment begins with a code."""
    found: list[tuple[str, str]] = re.findall(
        r"(?<=;\n)  // ([A-Z_]+)\. (?:.*\n)(?:  //.*\n)*  (ERROR_REASON_\w+) =", contract
    )
    return found

"""The table from exceptions to statuses, row by row, as a client sees it."""

import re
from pathlib import Path

import pytest
from sluice.v1 import error_pb2

from service.auth.tokens.token import UnknownSigner
from service.generation import errors as generation_errors
from service.interceptors.errors import DOMAIN
from service.interceptors.status_table import TABLE, row_of
from service.quota.errors import ConcurrencyLimited
from service.registry.errors import DeploymentNotFound, ModelNotFound, VersionNotFound
from tests.service.fakes import rejection_of, request, running
from tests.service.interceptors.error_cases import CASES, PLACES, Case
from tests.waiting import GUARD_S

ROOT = Path(__file__).parents[3]


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


LONG = "ü" * 100_000


@pytest.mark.parametrize(
    "error",
    [
        generation_errors.TemplateRejected("messages", LONG),
        generation_errors.InvalidRequest(LONG, LONG),
        ModelNotFound(LONG),
        VersionNotFound("m", LONG, "1"),
        DeploymentNotFound(LONG, LONG),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_errors_fit_into_trailers(error: generation_errors.ServiceError) -> None:
    """Long texts and values are cut, because a status that exceeds the trailers reaches the client as another error."""
    async with running() as run:
        run.preparation.fail_with = error
        rejection = await rejection_of(run.chat.Chat(request()))
    assert rejection.code is row_of(error).code
    assert rejection.info.reason == row_of(error).reason_name
    assert dict(rejection.info.metadata) == {name: value[:128] for name, value in error.values.items()}


def _subclasses(error: type[Exception]) -> set[type[Exception]]:
    direct = set(error.__subclasses__())
    return direct.union(*map(_subclasses, direct))


def _comments(contract: str) -> list[tuple[str, str]]:
    """Yield (code, name) for each value of the enum whose comment begins with a code."""
    found: list[tuple[str, str]] = re.findall(
        r"(?<=;\n)  // ([A-Z_]+)\. (?:.*\n)(?:  //.*\n)*  (ERROR_REASON_\w+) =", contract
    )
    return found

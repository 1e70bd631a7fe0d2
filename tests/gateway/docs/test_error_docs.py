"""docs/errors.md lists all errors: every row of its tables is tested, and none is missing."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest
from grpc.aio import AioRpcError, Metadata

from gateway.dialects.anthropic.error import AnthropicErrors
from gateway.dialects.azure.error import AzureErrors
from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.mindie.error import MindieErrors
from gateway.dialects.openai.error import OpenAIErrors
from gateway.dialects.seam.failure import Failure, Reason, Violation
from gateway.upstream.errors import to_failure
from service.interceptors.status_table import TABLE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "errors.md"


def rows(num_columns: int) -> list[list[str]]:
    """Return the cells of each row of a reason in the tables with this number of columns."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    return [each for each in cells if len(each) == num_columns]


OVER_GRPC, OVER_HTTP = rows(4), rows(7)
# of RPCs that change what is loaded, which no REST path calls, and of a field that no REST request has
WITHOUT_REST = {
    "ADAPTER_EXISTS",
    "ADAPTER_NOT_FOUND",
    "ADAPTER_REFUSED",
    "CANNOT_SLEEP",
    "CHANGES_UNAVAILABLE",
    "CONVERSATION_CHANGED",
    "LOADING_OFF",
    "MODEL_EXISTS",
    "MODEL_REFUSED",
    "OPERATION_NOT_FOUND",
    "CACHE_EVENTS_LOST",
    "TOO_MANY_ADAPTERS",
}
# of calls whose client has left; a CANCELLED status without a reason comes from gRPC's library, to a client that waits
OF_NOBODY = {"CALLER_LEFT"}
REPORTED_BY_REST = [(reason, code) for reason, code, *_ in OVER_GRPC if reason not in WITHOUT_REST | OF_NOBODY]


def test_every_reason_of_the_service_has_a_row() -> None:
    """The first table has exactly the service's own reasons and codes."""
    assert sorted((reason, code) for reason, code, *_ in OVER_GRPC) == sorted(
        {(r.reason_name, r.code.name) for r in TABLE}
    )


def test_every_reason_over_http_has_a_row() -> None:
    """The other tables have every reason that the gateway can report, once."""
    assert sorted(reason for reason, *_ in OVER_HTTP) == sorted(Reason)


@pytest.mark.parametrize(("reason", "code"), REPORTED_BY_REST)
def test_status_follows_from_the_code(reason: str, code: str) -> None:
    """A reason's HTTP status is that of its gRPC code."""
    error = AioRpcError(grpc.StatusCode[code], Metadata(), Metadata(), "words")
    (status,) = [row[1] for row in OVER_HTTP if row[0] == reason]
    assert to_failure(error).status == int(status)


@pytest.mark.parametrize("row", OVER_HTTP, ids=[row[0] for row in OVER_HTTP])
def test_each_dialect_has_its_own_code(row: list[str]) -> None:
    """Each dialect's error has the code of its column, and Azure's and Anthropic's also their status."""
    reason, status, openai, azure, databricks, mindie, anthropic = row
    is_of_field = databricks == "INVALID_PARAMETER_VALUE"
    failure = Failure(Reason[reason], "words", violations=[Violation("f", "words")] if is_of_field else ())
    assert failure.status == int(status)
    rejection = AzureErrors().error_response(failure)
    azure_status = f"{rejection.status} `" if rejection.status != failure.status else ""
    message = AnthropicErrors().error_response(failure)
    message_status = f"{message.status} `" if message.status != failure.status else ""
    assert [openai, azure, databricks, mindie, anthropic] == [
        json.loads(OpenAIErrors().error_response(failure).body)["error"]["code"] or "",
        azure_status + dict(rejection.headers)[b"x-ms-error-code"].decode(),
        json.loads(DatabricksErrors().error_response(failure).body)["error_code"],
        json.loads(MindieErrors().error_response(failure).body)["error_type"],
        message_status + json.loads(message.body)["error"]["type"],
    ]

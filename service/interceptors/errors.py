"""End failed calls with their statuses and google.rpc details.

An exception that `service.interceptors.status_table` doesn't list is a fault of the service: it is logged, and its text
is not returned to the client. Runs on the event loop's thread only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc import aio
from grpc_status import rpc_status

from service.calls.call import current_call
from service.calls.errors import InvalidMessage
from service.generation.errors import InvalidRequest, ServiceError
from service.interceptors.policy import Behaviour, Context, Policy
from service.interceptors.status_table import Code, Row, row_of
from service.quota.errors import LimitReached

DOMAIN = "sluice"

# Clients accept 8 KiB of trailers. A text occurs there at least twice, percent-encoded if it isn't ASCII.
_MAX_TEXT_BYTES = 512
_MAX_FIELD_BYTES = 256  # of a field's path, which may contain a map's key from the client, and of any other value

_log = logging.getLogger(__name__)


class Errors(Policy):
    """Ends a call that raised with the status of its exception; a cancelled call stays cancelled."""

    async def apply(self, method: str, request: Any, context: Context, proceed: Behaviour) -> Any:  # noqa: ARG002  a policy's signature
        try:
            return await proceed(request, context)
        except (aio.AbortError, asyncio.CancelledError):
            raise
        except Exception as error:  # noqa: BLE001  the client gets a status in any case
            call = current_call()
            row = row_of(error)
            if call is not None:
                call.reason = row.reason_name
            if row.error is Exception:
                _log.exception("unexpected error")
            status = rpc_status.to_status(to_status(error, row, call.request_id if call else ""))
            trailing = (
                *(status.trailing_metadata or ()),
                *_pushback(error, row, context),
                ("x-sluice-reason", row.reason_name),  # as in ErrorInfo, for proxies that decide on headers
                *((*call.metadata, *call.report_load()) if call else ()),
            )
            try:
                await context.abort(status.code, status.details, trailing)
            except aio.InternalError as gone:
                # The client has disconnected, or the call's deadline has passed.
                raise asyncio.CancelledError from gone


def report_error(error: Exception) -> status_pb2.Status:
    """Return the status of an error that doesn't end its call, and log it if it is a fault of the service."""
    row, call = row_of(error), current_call()
    if row.error is Exception:
        _log.error("unexpected error", exc_info=error)
    return to_status(error, row, call.request_id if call else "")


def to_status(error: Exception, row: Row, request_id: str) -> status_pb2.Status:
    """Return the status of an error with its details: ErrorInfo always, the others where they apply."""
    text = str(error) if row.is_public else f"internal error; the request's id is {request_id}"
    if isinstance(error, InvalidRequest):
        text = f"{error.field}: {text}"
    status = status_pb2.Status(code=_number(row.code), message=_truncated(text))
    for detail in _details(error, row):
        status.details.add().Pack(detail)
    return status


def _details(error: Exception, row: Row) -> Iterator[Message]:
    """Yield the `google.rpc` details of an error."""
    given = error.values if isinstance(error, ServiceError) else {}
    values = {name: _truncated(value, _MAX_FIELD_BYTES) for name, value in given.items()}
    yield error_details_pb2.ErrorInfo(reason=row.reason_name, domain=DOMAIN, metadata=values)
    if isinstance(error, InvalidMessage):
        yield error_details_pb2.BadRequest(
            field_violations=[
                error_details_pb2.BadRequest.FieldViolation(
                    field=_truncated(each.field, _MAX_FIELD_BYTES),
                    description=_truncated(each.description),
                    reason=each.rule,
                )
                for each in error.violations
            ]
        )
    if isinstance(error, InvalidRequest):
        yield error_details_pb2.BadRequest(
            field_violations=[
                error_details_pb2.BadRequest.FieldViolation(
                    field=_truncated(error.field, _MAX_FIELD_BYTES),
                    description=_truncated(str(error)),
                    reason=row.reason_name,
                )
            ]
        )
    if isinstance(error, LimitReached):
        limit = error.limit
        violation = error_details_pb2.QuotaFailure.Violation(
            subject=_truncated(limit.subject, _MAX_FIELD_BYTES),
            description=_truncated(str(error)),
            quota_metric=limit.measure.value,
            quota_value=limit.value,
        )
        yield error_details_pb2.QuotaFailure(violations=[violation])
    if (retry_after_s := _retry_after_s(error, row)) is not None:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.FromNanoseconds(round(retry_after_s * 1e9))
        yield info


def _retry_after_s(error: Exception, row: Row) -> float | None:
    """Return the seconds after which a retry may succeed; None if a retry is pointless."""
    if row.code not in {Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE}:
        return None
    return error.retry_after_s if isinstance(error, ServiceError) else None


def _pushback(error: Exception, row: Row, context: Context) -> Iterator[tuple[str, str]]:
    """The delay of RetryInfo in ms for gRPC's own retries (gRFC A6); negative, for no retry, after the deadline."""
    if (retry_after_s := _retry_after_s(error, row)) is not None:
        remaining_s = context.time_remaining()
        is_too_late = remaining_s is not None and remaining_s <= retry_after_s
        yield "grpc-retry-pushback-ms", "-1" if is_too_late else str(round(retry_after_s * 1000))


def _truncated(text: str, max_bytes: int = _MAX_TEXT_BYTES) -> str:
    """Return the beginning of a text that fits into `max_bytes` of UTF-8."""
    return text.encode()[:max_bytes].decode(errors="ignore")


def _number(code: Code) -> int:
    number: int = code_pb2.Code.Value(code.name)
    return number

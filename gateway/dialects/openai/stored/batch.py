"""Batches in OpenAI's JSON: the body that creates one, and the objects of answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import orjson
from sluice.v1 import batch_pb2

from gateway.dialects.openai.stored.file import to_id as to_file_id
from gateway.dialects.openai.stored.file import written_id as written_file_id
from gateway.dialects.seam.contract_limit import check_length, put
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.request_id import IDEMPOTENCY_KEY, idempotency_key

PARAMETER: Final = "batch_id"  # of the path
ENDPOINTS: Final = {  # with the field of a line
    "/v1/chat/completions": "chat",
    "/v1/completions": "completion",
    "/v1/responses": "response",
    "/v1/embeddings": "embedding",
}

_PREFIX: Final = "batch_"
_WINDOW: Final = re.compile(r"(\d{1,9})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_ENTRY: Final = re.compile(r'description\.metadata\["(.*)"\]', re.DOTALL)
_STATUSES: Final = {
    batch_pb2.BATCH_STATUS_IN_PROGRESS: "in_progress",
    batch_pb2.BATCH_STATUS_COMPLETED: "completed",
    batch_pb2.BATCH_STATUS_EXPIRED: "expired",
    batch_pb2.BATCH_STATUS_CANCELLED: "cancelled",
}
_CALLER_NAMES: Final = {
    "id": PARAMETER,
    "page_size": "limit",
    "requests": "input_file_id",
    "description.metadata": "metadata",
    "description.completion_window_seconds": "completion_window",
    "description.request_id": IDEMPOTENCY_KEY,
    "description.output_expires_after_seconds": "output_expires_after.seconds",
    "description": "input_file_id",
}


class ResultsExpiry(msgspec.Struct, forbid_unknown_fields=True):
    """When the files with the results of a batch expire: `seconds` after their creation."""

    anchor: str
    seconds: int


class BatchBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /v1/batches`."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: dict[str, str] | None = None
    output_expires_after: ResultsExpiry | None = None


class BatchCounts(msgspec.Struct):
    """The numbers of a batch's requests."""

    total: int
    completed: int
    failed: int


class BatchAnswer(msgspec.Struct):
    """A batch."""

    id: str
    object: str
    endpoint: str
    input_file_id: str
    completion_window: str
    status: str
    created_at: int
    in_progress_at: int
    expires_at: int
    request_counts: BatchCounts
    output_file_id: str | None = None
    error_file_id: str | None = None
    completed_at: int | None = None
    expired_at: int | None = None
    cancelled_at: int | None = None
    metadata: dict[str, str] | None = None


class BatchesAnswer(msgspec.Struct):
    """A page of batches."""

    object: str
    data: list[BatchAnswer]
    has_more: bool
    first_id: str | None
    last_id: str | None


class DeletedBatchAnswer(msgspec.Struct):
    """The confirmation that a batch was deleted."""

    id: str
    object: str
    deleted: bool


_DECODER: Final = msgspec.json.Decoder(BatchBody)
_GIVEN: Final = msgspec.json.Decoder(tuple[str, str, str])
_NOTHING_GIVEN: Final = ("", "", "")


@dataclass(frozen=True, slots=True)
class ParsedBatch:
    """A parsed body: the first message of the call that creates the batch, and where its requests are."""

    request: batch_pb2.CreateBatchRequest
    file_id: str
    endpoint: str

    def caller_name(self, field: str) -> str:
        """Return the caller's name of a field."""
        return "input_file_id" if field == "id" else caller_name(field)


def caller_name(field: str) -> str:
    """Return the caller's name of a field of a request about batches."""
    if field.startswith("requests"):
        return "input_file_id"
    if (entry := _ENTRY.fullmatch(field)) is not None:
        return f"metadata.{entry[1]}"
    return _CALLER_NAMES.get(field, field)


def parse(http_request: HttpRequest) -> ParsedBatch:
    """Parse a request to create a batch. Raise Failure."""
    body = decode(http_request.body, _DECODER)
    if body.endpoint not in ENDPOINTS:
        raise Failure.of_field("endpoint", f"must be one of {', '.join(ENDPOINTS)}")
    window = _WINDOW.fullmatch(body.completion_window)
    if window is None:
        raise Failure.of_field("completion_window", "must be a number of hours such as 24h, or with s, m or d")
    check_length(batch_pb2.BatchDescription, "metadata", body.metadata or (), "metadata")
    client_data = orjson.dumps([body.endpoint, to_file_id(body.input_file_id), body.completion_window])
    description = batch_pb2.BatchDescription(
        metadata=body.metadata, client_data=client_data, request_id=idempotency_key(http_request.headers)
    )
    seconds = int(window[1]) * _SECONDS[window[2]]
    put(description, "completion_window_seconds", seconds, "completion_window")
    if (expiry := body.output_expires_after) is not None:
        if expiry.anchor != "created_at":
            raise Failure.of_field("output_expires_after.anchor", "must be created_at")
        put(description, "output_expires_after_seconds", expiry.seconds, "output_expires_after.seconds")
    request = batch_pb2.CreateBatchRequest(description=description)
    return ParsedBatch(request, to_file_id(body.input_file_id), body.endpoint)


def to_id(path: Mapping[str, str]) -> str:
    """Return the contract's id of a batch in a path."""
    return path[PARAMETER].removeprefix(_PREFIX)


def to_list(query: Mapping[str, str]) -> batch_pb2.ListBatchesRequest:
    """Return the contract's request for a page of batches. Raise Failure."""
    request = batch_pb2.ListBatchesRequest(after=query.get("after", "").removeprefix(_PREFIX))
    if (limit := query.get("limit")) is not None:
        if not (limit.isascii() and limit.isdigit()):
            raise Failure.of_field("limit", "must be a whole number", Reason.INVALID_TYPE)
        put(request, "page_size", int(limit[:20]), "limit")
    return request


def written_id(batch_id: str) -> str:
    """Return the caller's id of a batch."""
    return _PREFIX + batch_id


def endpoint_of(batch: batch_pb2.Batch) -> str:
    """Return the endpoint of a batch; empty if it was created over gRPC."""
    return _given(batch)[0]


def to_object(batch: batch_pb2.Batch) -> dict[str, Any]:
    """Return the object of a batch."""
    endpoint, file_id, window = _given(batch)
    status = _STATUSES[batch.status]
    ended = {"completed": None, "expired": None, "cancelled": None, status: batch.ended.seconds or None}
    return {
        "id": written_id(batch.id),
        "object": "batch",
        "endpoint": endpoint,
        "errors": None,
        "input_file_id": written_file_id(file_id) or "",
        "completion_window": window or f"{batch.expires.seconds - batch.created.seconds}s",
        "status": status,
        "output_file_id": written_file_id(batch.output_file_id),
        "error_file_id": written_file_id(batch.error_file_id),
        "created_at": batch.created.seconds,
        "in_progress_at": batch.created.seconds,
        "expires_at": batch.expires.seconds,
        "finalizing_at": None,
        "completed_at": ended["completed"],
        "failed_at": None,
        "expired_at": ended["expired"],
        "cancelling_at": ended["cancelled"],
        "cancelled_at": ended["cancelled"],
        "request_counts": {
            "total": batch.num_requests,
            "completed": batch.num_succeeded,
            "failed": batch.num_failed,
        },
        "metadata": dict(batch.description.metadata) or None,
    }


def to_page(batches: list[dict[str, Any]], *, has_more: bool) -> bytes:
    """Return the body of a page of batches."""
    return orjson.dumps(
        {
            "object": "list",
            "data": batches,
            "has_more": has_more,
            "first_id": batches[0]["id"] if batches else None,
            "last_id": batches[-1]["id"] if batches else None,
        }
    )


def to_deleted(batch_id: str) -> bytes:
    """Return the body of an answer to a deletion."""
    return orjson.dumps({"id": written_id(batch_id), "object": "batch", "deleted": True})


def _given(batch: batch_pb2.Batch) -> tuple[str, str, str]:
    """Return the endpoint, the input file and the completion window of a batch, empty if it was created over gRPC."""
    try:
        given = _GIVEN.decode(batch.description.client_data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _NOTHING_GIVEN
    return given if given[0] in ENDPOINTS else _NOTHING_GIVEN

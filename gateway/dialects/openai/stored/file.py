"""Files in OpenAI's JSON: the fields of an upload, pages of a list, and the objects of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import orjson
from sluice.v1 import file_pb2

from gateway.dialects.seam.contract_limit import check_values, put
from gateway.dialects.seam.failure import Failure, Reason

PARAMETER: Final = "file_id"  # of the path
PURPOSE: Final = "purpose"  # a field of the form

_PREFIX: Final = "file-"
_ANCHOR: Final = "expires_after[anchor]"
_SECONDS: Final = "expires_after[seconds]"
_ORDERS: Final = {"asc": False, "desc": True}
_PURPOSES: Final = {
    "batch": file_pb2.FILE_PURPOSE_BATCH,
    "batch_output": file_pb2.FILE_PURPOSE_BATCH_OUTPUT,
}
_NAMES: Final = {number: name for name, number in _PURPOSES.items()}
_CALLER_NAMES: Final = {
    "id": PARAMETER,
    "page_size": "limit",
    "description": "file",
    "description.filename": "file",
    "description.purpose": "purpose",
    "description.expires_after_seconds": _SECONDS,
    "content": "file",
}


class FileAnswer(msgspec.Struct):
    """A file."""

    id: str
    object: str
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: str
    expires_at: int | None = None


class FilesAnswer(msgspec.Struct):
    """A page of files."""

    object: str
    data: list[FileAnswer]
    has_more: bool
    first_id: str | None
    last_id: str | None


class DeletedFileAnswer(msgspec.Struct):
    """The confirmation that a file was deleted."""

    id: str
    object: str
    deleted: bool


def caller_name(field: str) -> str:
    """Return the caller's name of a field of a request about files."""
    return _CALLER_NAMES.get(field, field)


def to_id(given: str) -> str:
    """Return the contract's id of a file."""
    return given.removeprefix(_PREFIX)


def written_id(file_id: str) -> str | None:
    """Return the caller's id of a file, None for no file."""
    return _PREFIX + file_id if file_id else None


def check_purpose(fields: Mapping[str, str]) -> None:
    """Raise Failure unless the fields of an upload have the only purpose."""
    if PURPOSE not in fields:
        raise Failure.of_field(PURPOSE, "is required", Reason.MISSING_FIELD)
    if fields[PURPOSE] != "batch":
        raise Failure.of_field(PURPOSE, "must be batch; this server has no other use of files")


def to_description(filename: str, fields: Mapping[str, str]) -> file_pb2.FileDescription:
    """Return the description of an upload by the fields so far; others may follow its file. Raise Failure."""
    if PURPOSE in fields:
        check_purpose(fields)
    description = file_pb2.FileDescription(filename=filename, purpose=file_pb2.FILE_PURPOSE_BATCH)
    if fields.get(_ANCHOR, "created_at") != "created_at":
        raise Failure.of_field(_ANCHOR, "must be created_at")
    if (seconds := fields.get(_SECONDS)) is not None:
        put(description, "expires_after_seconds", _to_number(_SECONDS, seconds), _SECONDS)
    check_values(description, lambda name: caller_name(f"description.{name}"))
    return description


def to_list(query: Mapping[str, str]) -> file_pb2.ListFilesRequest:
    """Return the contract's request for a page of files. Raise Failure."""
    order, purpose = query.get("order", "desc"), query.get("purpose")
    if order not in _ORDERS:
        raise Failure.of_field("order", "must be asc or desc")
    request = file_pb2.ListFilesRequest(after=to_id(query.get("after", "")), descending=_ORDERS[order])
    if purpose is not None and purpose not in _PURPOSES:
        raise Failure.of_field("purpose", "must be batch or batch_output")
    if purpose is not None:
        request.purpose = _PURPOSES[purpose]
    if (limit := query.get("limit")) is not None:
        request.page_size = min(_to_number("limit", limit), 100)  # OpenAI's own limit is 10,000; pages may be shorter
    return request


def to_file(file: file_pb2.File, num_bytes: int) -> dict[str, Any]:
    """Return the object of a file, whose content has `num_bytes`."""
    return {
        "id": written_id(file.id),
        "object": "file",
        "bytes": num_bytes,
        "created_at": file.created.seconds,
        "filename": file.filename,
        "purpose": _NAMES[file.purpose],
        "status": "processed",
        "expires_at": file.expires.seconds if file.HasField("expires") else None,
    }


def to_page(files: list[dict[str, Any]], *, has_more: bool) -> bytes:
    """Return the body of a page of files."""
    return orjson.dumps(
        {
            "object": "list",
            "data": files,
            "has_more": has_more,
            "first_id": files[0]["id"] if files else None,
            "last_id": files[-1]["id"] if files else None,
        }
    )


def to_deleted(file_id: str) -> bytes:
    """Return the body of an answer to a deletion."""
    return orjson.dumps({"id": written_id(file_id), "object": "file", "deleted": True})


def _to_number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:20]) > 0):
        raise Failure.of_field(name, "must be a whole number above 0", Reason.INVALID_TYPE)
    return int(text[:20])

"""The operations of files in the OpenAI style."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, Final

import orjson
from google.protobuf.message import Message
from sluice.v1 import batch_pb2, file_pb2

from gateway.dialects.anthropic.header import VERSION
from gateway.dialects.openai.stored import batch, file
from gateway.dialects.openai.stored.batch_line import to_output
from gateway.dialects.openai.stored.file import DeletedFileAnswer, FileAnswer, FilesAnswer
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.http.multipart import PartBegin
from gateway.http.offload import offload
from gateway.routes.dialects.stored.stored_content import call_service
from gateway.routes.handling.handler import Lookup
from gateway.routes.handling.transfer import Download, Parts, Upload
from gateway.routes.surface.operation import Operation, Parameter
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller

_ID: Final = Parameter(file.PARAMETER, "path", "The id of a file.", "file-0af3")
_PAGE: Final = (
    Parameter("limit", "query", "How many files; 20 by default, at most 100 are returned.", "20",
              schema={"type": "integer", "minimum": 1}),
    Parameter("order", "query", "`desc`, the default, for the newest file first, or `asc`.", "asc",
              schema={"type": "string", "enum": ["asc", "desc"]}),
    Parameter("after", "query", "The id of the last file of the previous page.", "file-0af3"),
    Parameter("purpose", "query", "The purpose of the files.", "batch",
              schema={"type": "string", "enum": ["batch", "batch_output"]}),
)  # fmt: skip
_FORM: Final = {
    "type": "object",
    "properties": {
        "purpose": {"type": "string", "enum": ["batch"]},
        "file": {"type": "string", "format": "binary"},
        "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
        "expires_after[seconds]": {"type": "integer", "minimum": 3600, "maximum": 2592000},
    },
    "required": ["purpose", "file"],
}
_PART: Final = 256 * 1024  # bytes of a message
_MAX_FIELD: Final = 4096  # bytes of a field of the form
_MAX_FIELDS: Final = 16
# Why results have no size: they have no form as a file, or were deleted meanwhile.
_UNCOUNTED: Final = (Reason.INVALID_FIELD, Reason.FILE_NOT_FOUND, Reason.BATCH_NOT_FOUND)
_MAX_COUNT_S: Final = 5.0  # that a client waits for the sizes of results


async def _upload(upstream: Upstream, parts: Parts, caller: Caller) -> bytes:
    """Send the file of a form to the service while it arrives."""
    fields = _Fields()
    filename = await _until_file(parts, fields) or "upload"
    description = file.to_description(filename, fields.texts)
    try:
        async with upstream.client.upload(file_pb2.UploadFileRequest, caller) as upload:
            await upload.write(file_pb2.UploadFileRequest(description=description))
            data = bytearray()
            is_in_file = True
            async for part in parts:
                if isinstance(part, PartBegin):
                    is_in_file = False
                    if part.name == "file":
                        raise Failure.of_field(part.name, "must occur once")
                    fields.begin(part.name)
                elif is_in_file:
                    data += part
                else:
                    fields.add(part)
                while len(data) >= _PART:
                    await upload.write(file_pb2.UploadFileRequest(content=bytes(data[:_PART])))
                    del data[:_PART]
            file.check_purpose(fields.texts)
            last = file.to_description(filename, fields.texts)
            if data:
                await upload.write(file_pb2.UploadFileRequest(content=bytes(data)))
            if last != description:
                await upload.write(file_pb2.UploadFileRequest(description=last))
            stored = (await upload.answer()).file
    except Failure as failure:
        raise failure.renamed(file.caller_name) from None
    return orjson.dumps(file.to_file(stored, stored.num_bytes))


class _Fields:
    """The fields of a form, whose contents arrive in pieces."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self._name = ""

    def begin(self, name: str) -> None:
        """Begin the next field. Raise Failure if there are too many."""
        if len(self.texts) >= _MAX_FIELDS:
            raise Failure.of_field(name, f"the form must have at most {_MAX_FIELDS} fields")
        self._name = name
        self.texts[name] = ""

    def add(self, data: bytes) -> None:
        """Add a piece to the last field. Raise Failure if the field is too long."""
        self.texts[self._name] += data.decode("utf-8", "replace")
        if len(self.texts[self._name]) > _MAX_FIELD:
            raise Failure.of_field(self._name, f"must have at most {_MAX_FIELD} bytes")


async def _until_file(parts: Parts, fields: _Fields) -> str:
    """Read the fields before the file of a form, and return the file's name. Raise Failure."""
    async for part in parts:
        if not isinstance(part, PartBegin):
            fields.add(part)
        elif part.filename is not None and part.name == "file":
            return part.filename
        else:
            fields.begin(part.name)
    raise Failure.of_field("file", "is required", Reason.MISSING_FIELD)


async def _get(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    found = await _file(upstream, http_request, caller)
    return orjson.dumps(file.to_file(found, await _size(upstream, found, caller, _latest())))


async def _list(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    answer = await _call(upstream, file.to_list(http_request.query), caller)
    until = _latest()
    files = [file.to_file(each, await _size(upstream, each, caller, until)) for each in answer.files]
    return file.to_page(files, has_more=answer.has_more)


async def _delete(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    file_id = file.to_id(http_request.path[file.PARAMETER])
    await _call(upstream, file_pb2.DeleteFileRequest(id=file_id), caller)
    return file.to_deleted(file_id)


async def _content(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> AsyncGenerator[bytes]:
    found = await _file(upstream, http_request, caller)
    if found.batch_id:
        size = 0
        async with aclosing(_results(upstream, found, caller)) as lines:
            async for line in lines:
                size += len(line)
                yield line
        await _record(upstream, found, size, caller)
        return
    async with upstream.client.stream(file_pb2.DownloadFileRequest(id=found.id), caller) as messages:
        async for message in messages:
            yield message.content  # type: ignore[attr-defined]


async def _results(upstream: Upstream, found: file_pb2.File, caller: Caller) -> AsyncGenerator[bytes]:
    """Yield the results of a batch as lines."""
    of_batch = (await _call(upstream, batch_pb2.GetBatchRequest(id=found.batch_id), caller)).batch
    endpoint = batch.endpoint_of(of_batch)
    if not endpoint:
        raise Failure.of_field(file.PARAMETER, "has results of a batch that was created over gRPC: StreamBatchResults")
    request = batch_pb2.StreamBatchResultsRequest(id=found.batch_id, outcome=found.outcome)
    async with upstream.client.stream(request, caller) as results:
        async for result in results:
            yield await offload(result.ByteSize(), lambda: to_output(result, found.batch_id, endpoint))  # type: ignore[arg-type]  # noqa: B023  awaited here


async def _size(upstream: Upstream, found: file_pb2.File, caller: Caller, until: float) -> int:
    """Return the size of a file's content; that of results is counted once, by the first gateway that needs it.

    Return 0 if it isn't known `until` this time of the event loop: it is counted further, and stored.
    """
    if found.num_bytes or not found.batch_id:
        return found.num_bytes
    left_s = until - asyncio.get_running_loop().time()
    return await upstream.sizes.number(found.id, lambda: _count(upstream, found, caller), left_s) or 0


def _latest() -> float:
    """Return the time of the event loop until which a client waits for the sizes of results."""
    return asyncio.get_running_loop().time() + _MAX_COUNT_S


async def _count(upstream: Upstream, found: file_pb2.File, caller: Caller) -> int:
    """Return the size of results, and store it. Raise Failure."""
    size = 0
    try:
        async for line in _results(upstream, found, caller):
            size += len(line)
    except Failure as failure:
        if failure.reason not in _UNCOUNTED:
            raise
        return 0
    await _record(upstream, found, size, caller)
    return size


async def _record(upstream: Upstream, found: file_pb2.File, size: int, caller: Caller) -> None:
    """Store the size of a file with results, unless it is stored already; it is counted again if that fails."""
    if found.num_bytes != size:
        with suppress(Failure):
            await upstream.client.call(file_pb2.RecordFileSizeRequest(id=found.id, num_bytes=size), caller)


async def _file(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> file_pb2.File:
    request = file_pb2.GetFileRequest(id=file.to_id(http_request.path[file.PARAMETER]))
    answer: file_pb2.GetFileResponse = await _call(upstream, request, caller)
    return answer.file


async def _call(upstream: Upstream, request: Message, caller: Caller) -> Any:
    return await call_service(upstream, request, caller, file.caller_name)


def files(base: str) -> tuple[Operation, ...]:
    """Return the operations of files below a path."""
    every = f"{base}/files"
    one = f"{every}/{{{file.PARAMETER}}}"
    operations = (
        Operation("POST", every, "Uploads a file.", Upload(_upload), answer=FileAnswer, form=_FORM),
        Operation("GET", every, "Lists files.", Lookup(_list), answer=FilesAnswer, parameters=_PAGE),
        Operation("GET", one, "Returns a file without its content.", Lookup(_get), answer=FileAnswer,
                  parameters=[_ID]),
        Operation("GET", f"{one}/content", "Returns the content of a file.", Download(_content), parameters=[_ID],
                  media="application/jsonl"),
        Operation("DELETE", one, "Deletes a file.", Lookup(_delete), answer=DeletedFileAnswer, parameters=[_ID]),
    )  # fmt: skip
    return tuple(replace(each, unmarked_by=VERSION) for each in operations)  # Anthropic's files are not served

"""The operations of batches in the OpenAI style."""

from __future__ import annotations

import asyncio
from codecs import BOM_UTF8
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import orjson
from google.protobuf.message import Message
from sluice.v1 import batch_pb2, file_pb2

from gateway.dialects.openai.stored import batch
from gateway.dialects.openai.stored.batch import (
    ENDPOINTS,
    BatchAnswer,
    BatchBody,
    BatchesAnswer,
    DeletedBatchAnswer,
    ParsedBatch,
)
from gateway.dialects.openai.stored.batch_line import line_failure, to_line
from gateway.dialects.seam.http_request import HttpRequest
from gateway.http.offload import offload
from gateway.routes.dialects.stored.stored_content import call_service
from gateway.routes.handling.handler import Action, Command, Lookup
from gateway.routes.surface.operation import Body, Operation, Parameter
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller

_ID: Final = Parameter(batch.PARAMETER, "path", "The id of a batch.", "batch_0af3")
_PAGE: Final = (
    Parameter("limit", "query", "How many batches; 20 by default.", "20",
              schema={"type": "integer", "minimum": 1, "maximum": 100}),
    Parameter("after", "query", "The id of the last batch of the previous page.", "batch_0af3"),
)  # fmt: skip
_NEW: Final = Body(
    BatchBody,
    {"input_file_id": "file-0af3", "endpoint": "/v1/chat/completions", "completion_window": "24h"},
    BatchAnswer,
)
_MESSAGE: Final = 256 * 1024  # bytes of lines in one message
_MAX_LINE: Final = 8 * 1024 * 1024  # bytes; a message has a line as it is and translated, and at most 20 MiB


class _Line(NamedTuple):
    """A line of an input file; the first one has the number 1."""

    number: int
    text: bytes


async def _create(upstream: Upstream, parsed: ParsedBatch, caller: Caller) -> bytes:
    """Create a batch with the lines of its input file."""
    async with upstream.client.upload(batch_pb2.CreateBatchRequest, caller) as upload:
        await upload.write(parsed.request)
        group: list[_Line] = []
        size = 0
        async with aclosing(_lines(upstream, parsed.file_id, caller)) as lines:
            async for line in lines:
                group.append(line)
                size += len(line.text)
                if size >= _MESSAGE:
                    await upload.write(await _message(upstream, group, size, parsed.endpoint, caller))
                    group, size = [], 0
        if group:
            await upload.write(await _message(upstream, group, size, parsed.endpoint, caller))
        answer = await upload.answer()
    return orjson.dumps(batch.to_object(answer.batch))


async def _message(
    upstream: Upstream, group: list[_Line], size: int, endpoint: str, caller: Caller
) -> batch_pb2.CreateBatchRequest:
    """Return the message with the next lines of an input file. Raise Failure."""

    def convert() -> list[batch_pb2.BatchLine]:
        return [to_line(text, number, endpoint) for number, text in group]

    lines = await offload(size, convert)
    for line in lines:
        if not line.HasField("rejected"):
            await upstream.choice.complete(getattr(line, ENDPOINTS[endpoint]), caller)
    return batch_pb2.CreateBatchRequest(requests=batch_pb2.BatchLines(lines=lines))


async def _lines(upstream: Upstream, file_id: str, caller: Caller) -> AsyncGenerator[_Line]:
    """Yield the lines of a file that are not blank. Raise Failure."""
    rest, number = b"", 0
    async with upstream.client.stream(file_pb2.DownloadFileRequest(id=file_id), caller) as messages:
        async for message in messages:
            *lines, rest = (rest + message.content).split(b"\n")  # type: ignore[attr-defined]
            if lines and not number:
                lines[0] = lines[0].removeprefix(BOM_UTF8)
            # A message may have hundreds of thousands of blank lines, which are skipped at little cost.
            for each in [_Line(*pair) for pair in enumerate(lines, number + 1) if pair[1] and not pair[1].isspace()]:
                _check_length(each.text, each.number)
                yield each
            number += len(lines)
            _check_length(rest, number + 1)
            await asyncio.sleep(0)  # for others, if the next message is here already
    rest = rest if number else rest.removeprefix(BOM_UTF8)
    if rest and not rest.isspace():
        yield _Line(number + 1, rest)


def _check_length(line: bytes, number: int) -> None:
    """Raise Failure if a line is too long."""
    if len(line) > _MAX_LINE:
        raise line_failure(number, f"must have at most {_MAX_LINE} bytes")


async def _get(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    request = batch_pb2.GetBatchRequest(id=batch.to_id(http_request.path))
    return orjson.dumps(batch.to_object((await _call(upstream, request, caller)).batch))


async def _list(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    answer = await _call(upstream, batch.to_list(http_request.query), caller)
    return batch.to_page([batch.to_object(each) for each in answer.batches], has_more=answer.has_more)


async def _cancel(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    request = batch_pb2.CancelBatchRequest(id=batch.to_id(http_request.path))
    return orjson.dumps(batch.to_object((await _call(upstream, request, caller)).batch))


async def _delete(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    batch_id = batch.to_id(http_request.path)
    await _call(upstream, batch_pb2.DeleteBatchRequest(id=batch_id), caller)
    return batch.to_deleted(batch_id)


async def _call(upstream: Upstream, request: Message, caller: Caller) -> Any:
    return await call_service(upstream, request, caller, batch.caller_name)


def batches(base: str) -> tuple[Operation, ...]:
    """Return the operations of batches below a path."""
    every = f"{base}/batches"
    one = f"{every}/{{{batch.PARAMETER}}}"
    return (
        Operation("POST", every, "Creates a batch.", Command(batch.parse, _create), [_NEW]),
        Operation("GET", every, "Lists batches.", Lookup(_list), answer=BatchesAnswer, parameters=_PAGE),
        Operation("GET", one, "Returns a batch.", Lookup(_get), answer=BatchAnswer, parameters=[_ID]),
        Operation("POST", f"{one}/cancel", "Stops a batch.", Action(_cancel), answer=BatchAnswer, parameters=[_ID]),
        Operation("DELETE", one, "Deletes a batch with its requests and results.", Lookup(_delete),
                  answer=DeletedBatchAnswer, parameters=[_ID]),
    )  # fmt: skip

"""Answer the requests of one bidirectional stream concurrently.

Each request runs in its own task, with its own record of a call and its own line in the log: the responses of several
requests may alternate. A client that doesn't read stops all of them, since responses wait in a queue of limited length.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, TypeAlias

from google.rpc import code_pb2, error_details_pb2, status_pb2
from sluice.inference import inference_pb2

from service.calls.call import current_call, enter_call
from service.calls.errors import Draining
from service.contract.inference.answers import final
from service.generation.errors import DeadlineExceeded

Answer: TypeAlias = Callable[[inference_pb2.ModelInferRequest], AsyncGenerator[inference_pb2.ModelInferResponse, None]]
ReportError: TypeAlias = Callable[[Exception], status_pb2.Status]

_MAX_OPEN: Final = 64  # requests of one stream; further ones are read when others have ended
_MAX_QUEUED: Final = 16  # responses that wait for the client
_RETRY_AFTER_S: Final = 1.0

_log = logging.getLogger("sluice.access")

_Item: TypeAlias = inference_pb2.ModelStreamInferResponse | Exception | None


class InferenceStream:
    """The requests of one call and their responses."""

    def __init__(
        self,
        answer: Answer,
        report_error: ReportError,
        until_draining: Callable[[], Awaitable[object]],
        *,
        ends_with_error: bool,
        max_idle_s: float = 600.0,
    ) -> None:
        """`answer` yields the responses of a request. With `ends_with_error` the first error ends the stream.

        The stream reads no further requests once `until_draining` returns, and ends when it has had none to answer for
        `max_idle_s` seconds.
        """
        self._answer = answer
        self._report_error = report_error
        self._ends_with_error = ends_with_error
        self._max_idle_s = max_idle_s
        self._until_draining = until_draining
        self._slots = asyncio.Semaphore(_MAX_OPEN)
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(_MAX_QUEUED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    async def responses(
        self, requests: AsyncIterator[inference_pb2.ModelInferRequest]
    ) -> AsyncGenerator[inference_pb2.ModelStreamInferResponse, None]:
        """Yield the responses until all requests are answered. Raise Draining or DeadlineExceeded."""
        self._start(self._read(requests))
        try:
            while (item := await self._queue.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Awaitable[None]) -> None:
        """Run work in a task. The last task ends the stream."""

        async def run() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001  raised by `responses`
                await self._queue.put(error)
            self._tasks.discard(task)
            if not self._tasks:
                await self._queue.put(None)

        task = asyncio.create_task(run())
        self._tasks.add(task)

    async def _read(self, requests: AsyncIterator[inference_pb2.ModelInferRequest]) -> None:
        """Start each request as it arrives. Raise Draining, and DeadlineExceeded for an idle stream."""
        draining = asyncio.ensure_future(self._until_draining())
        iterator = aiter(requests)
        try:
            while True:
                await self._slots.acquire()
                arriving = asyncio.ensure_future(anext(iterator, None))
                try:
                    await self._until_either(arriving, draining)
                    if (request := arriving.result()) is None:
                        return
                finally:
                    arriving.cancel()
                self._start(self._serve(request))
        finally:
            draining.cancel()

    async def _until_either(self, arriving: asyncio.Future[Any], draining: asyncio.Future[Any]) -> None:
        """Return when the next request has arrived. Raise Draining or DeadlineExceeded if none comes."""
        while not arriving.done():
            done, _ = await asyncio.wait(
                {arriving, draining}, timeout=self._max_idle_s, return_when=asyncio.FIRST_COMPLETED
            )
            if done == {draining}:
                while others := self._open():
                    await asyncio.wait(others)
                raise Draining(_RETRY_AFTER_S)
            if not done and not self._open():
                raise DeadlineExceeded(f"the stream had no request for {self._max_idle_s:g} s")

    def _open(self) -> set[asyncio.Task[None]]:
        """Return the tasks of requests that are not answered yet."""
        return {task for task in self._tasks if task is not asyncio.current_task()}

    async def _serve(self, request: inference_pb2.ModelInferRequest) -> None:
        """Send the responses of one request, or its error."""
        began, status = time.monotonic(), "CANCELLED"
        if (call := current_call()) is not None:
            call = replace(call, request_id=f"{call.request_id}.{next(self._numbers)}", fields={}, reason="")
            enter_call(call)
        try:
            async with aclosing(self._answer(request)) as responses:
                async for response in responses:
                    await self._queue.put(inference_pb2.ModelStreamInferResponse(infer_response=response))
            status = "OK"
        except Exception as error:
            reported = self._report_error(error)
            status = code_pb2.Code.Name(reported.code)
            if self._ends_with_error:
                raise
            await self._queue.put(_failed(request, reported))
        finally:
            self._slots.release()
            if call is not None:
                fields = {"method": call.method, "status": status, "duration_s": round(time.monotonic() - began, 6)}
                _log.info("call", extra={"fields": {**fields, **call.fields}})


def _failed(
    request: inference_pb2.ModelInferRequest, status: status_pb2.Status
) -> inference_pb2.ModelStreamInferResponse:
    """Return the last response of a failed request."""
    response = inference_pb2.ModelInferResponse(
        model_name=request.model_name, model_version=request.model_version, id=request.id
    )
    response.parameters["status"].string_param = code_pb2.Code.Name(status.code)
    info = error_details_pb2.ErrorInfo()
    if any(each.Unpack(info) for each in status.details):
        response.parameters["reason"].string_param = info.reason
    return inference_pb2.ModelStreamInferResponse(error_message=status.message, infer_response=final(response))

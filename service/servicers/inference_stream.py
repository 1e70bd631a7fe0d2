"""Answer the requests of one bidirectional stream concurrently.

Each request runs in its own task, with its own record of a call: the responses of several requests may alternate. A
client that doesn't read stops all of them, since responses wait in a queue of limited length.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final, TypeAlias

from google.rpc import code_pb2, error_details_pb2, status_pb2
from sluice.inference import inference_pb2

from service.calls.call import current_call, enter_call
from service.calls.errors import Draining
from service.contract.inference.answers import final

Answer: TypeAlias = Callable[[inference_pb2.ModelInferRequest], AsyncGenerator[inference_pb2.ModelInferResponse, None]]
ReportError: TypeAlias = Callable[[Exception], status_pb2.Status]

_MAX_OPEN: Final = 64  # requests of one stream; further ones are read when others have ended
_MAX_QUEUED: Final = 16  # responses that wait for the client
_RETRY_AFTER_S: Final = 1.0

_Item: TypeAlias = inference_pb2.ModelStreamInferResponse | Exception | None


class InferenceStream:
    """The requests of one call and their responses."""

    def __init__(
        self, answer: Answer, report_error: ReportError | None, until_draining: Callable[[], Awaitable[None]]
    ) -> None:
        """`answer` yields the responses of a request. Without `report_error` the first error ends the stream.

        The stream reads no further requests once `until_draining` returns.
        """
        self._answer = answer
        self._report_error = report_error
        self._until_draining = until_draining
        self._slots = asyncio.Semaphore(_MAX_OPEN)
        self._queue: asyncio.Queue[_Item] = asyncio.Queue(_MAX_QUEUED)
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    async def responses(
        self, requests: AsyncIterator[inference_pb2.ModelInferRequest]
    ) -> AsyncGenerator[inference_pb2.ModelStreamInferResponse, None]:
        """Yield the responses until all requests are answered. Raise Draining if the process shuts down before."""
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
        """Start each request as it arrives. Raise Draining."""
        draining = asyncio.ensure_future(self._until_draining())
        iterator = aiter(requests)
        try:
            while True:
                await self._slots.acquire()
                arriving = asyncio.ensure_future(anext(iterator, None))
                try:
                    await asyncio.wait({arriving, draining}, return_when=asyncio.FIRST_COMPLETED)
                    if not arriving.done():
                        await self._until_answered()
                        raise Draining(_RETRY_AFTER_S)
                    if (request := arriving.result()) is None:
                        return
                finally:
                    arriving.cancel()
                self._start(self._serve(request))
        finally:
            draining.cancel()

    async def _until_answered(self) -> None:
        """Return when all requests that were read are answered."""
        own = {asyncio.current_task()}
        while others := self._tasks - own:
            await asyncio.wait(others)

    async def _serve(self, request: inference_pb2.ModelInferRequest) -> None:
        """Send the responses of one request, or its error."""
        try:
            if (call := current_call()) is not None:
                number = next(self._numbers)
                enter_call(replace(call, request_id=f"{call.request_id}.{number}", fields={}, reason=""))
            async with aclosing(self._answer(request)) as responses:
                async for response in responses:
                    await self._queue.put(inference_pb2.ModelStreamInferResponse(infer_response=response))
        except Exception as error:
            if self._report_error is None:
                raise
            await self._queue.put(_failed(request, self._report_error(error)))
        finally:
            self._slots.release()


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

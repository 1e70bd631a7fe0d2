"""Generated output that one reader has not read yet. Used by the event loop only."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from service.engine.client.wakeups import WakeupLimiter
from service.generation.errors import EngineError
from service.generation.output import GenerationOutput, merged


class OutputStream(AsyncIterator[GenerationOutput]):
    """Outputs in the order in which they arrive, until each choice has had its last, or one error for the whole.

    What the reader has not fetched is merged to one output a choice, so a slow reader costs no more than the text.
    For one reader.
    """

    def __init__(self, num_choices: int, wakeups: WakeupLimiter | None = None) -> None:
        """`wakeups` is shared by all streams of an engine."""
        self._wakeups = wakeups or WakeupLimiter()
        self.num_tokens = 0  # of all that was delivered, read or not
        self._num_unfinished = num_choices
        self._is_broken = False
        self._has_begun = False
        self._error: EngineError | None = None
        self._pending: dict[tuple[int, int], list[GenerationOutput]] = {}  # by request and choice
        self._whole: deque[GenerationOutput] = deque()
        self._news = asyncio.Event()

    @property
    def is_ended(self) -> bool:
        """Whether no more will be delivered; there may be something left to read."""
        return self._is_broken or self.is_complete

    @property
    def is_complete(self) -> bool:
        """Whether each choice has had its last output."""
        return self._num_unfinished == 0

    def start(self) -> None:
        """Something of one of its requests was computed."""
        self._has_begun = True
        self._news.set()

    async def begun(self) -> None:
        """Return when something was computed of one of the requests. Raises what ended all before."""
        while not (self._has_begun or self._pending or self.is_ended):
            self._news.clear()
            await self._news.wait()
        if not self._pending:
            self._raise_error()

    def put(self, output: GenerationOutput) -> None:
        """Deliver what a step added to one choice. After the end it does nothing."""
        if self.is_ended:
            return
        self.num_tokens += len(output.token_ids)
        if output.finish_reason is not None:
            self._num_unfinished -= 1
        if output.is_whole:  # what follows of its choice is not
            self._whole.append(output)
        else:
            self._pending.setdefault((output.request_index, output.choice_index), []).append(output)
        self._wakeups.wake(self._news)

    def end(self, error: EngineError) -> None:
        """End the stream, with an error after what is left to read. After the end it does nothing."""
        if self.is_ended:
            return
        self._is_broken = True
        self._error = error
        self._news.set()

    def close(self) -> None:
        """Forget what is left: the reader is gone. Who reads all the same is told of the end."""
        self._is_broken = True
        self._error = None
        self._pending.clear()
        self._whole.clear()
        self._news.set()

    async def __anext__(self) -> GenerationOutput:
        while not (self._pending or self._whole):
            self._raise_error()
            if self.is_ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()
        if self._whole:
            return self._whole.popleft()
        return merged(self._pending.pop(next(iter(self._pending))))

    def _raise_error(self) -> None:
        """Once."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

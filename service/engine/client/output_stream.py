"""The buffer between an engine and the reader of one stream. Used by the event loop only."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from service.engine.client.wakeups import WakeupLimiter
from service.generation.errors import EngineError
from service.generation.outputs.output import GenerationOutput, PrefillProgress, merged


class OutputStream(AsyncIterator[GenerationOutput]):
    """The outputs of a stream in order of arrival, until the last output of each choice or an error.

    Unread outputs are merged to one per choice, so a slow reader takes no more memory than its text.
    """

    def __init__(self, num_choices: int, wakeups: WakeupLimiter | None = None) -> None:
        """`wakeups` is shared by all streams of an engine."""
        self._wakeups = wakeups or WakeupLimiter()
        self.num_tokens = 0  # delivered, read or not
        self._num_unfinished = num_choices
        self._is_broken = False
        self._has_started = False
        self._error: EngineError | None = None
        self._pending: dict[tuple[int, int], list[GenerationOutput]] = {}  # by request and choice
        self._whole: deque[GenerationOutput] = deque()
        self._progress: dict[int, PrefillProgress] = {}  # by request, the newest that was not read
        self._changed = asyncio.Event()

    @property
    def is_ended(self) -> bool:
        """True if nothing more will be delivered; unread outputs may be left."""
        return self._is_broken or self.is_complete

    @property
    def is_complete(self) -> bool:
        """True if the last output of each choice was delivered."""
        return self._num_unfinished == 0

    def start(self) -> None:
        """Record that the first step of one of its requests was computed."""
        self._has_started = True
        self._changed.set()

    async def until_started(self) -> None:
        """Return when the first step of one of the requests was computed.

        Raise the error that ended all of them before that.
        """
        while not (self._has_started or self._pending or self.is_ended):
            self._changed.clear()
            await self._changed.wait()
        if not self._pending:
            self._raise_error()

    def put(self, output: GenerationOutput) -> None:
        """Deliver an output of one choice. Do nothing after the end."""
        if self.is_ended:
            return
        self.num_tokens += len(output.token_ids)
        if output.finish_reason is not None:
            self._num_unfinished -= 1
        if output.is_whole:  # whole outputs precede all other outputs of their choice
            self._whole.append(output)
        else:
            self._pending.setdefault((output.request_index, output.choice_index), []).append(output)
        self._wakeups.wake(self._changed)

    def put_progress(self, progress: PrefillProgress) -> None:
        """Deliver the progress of a prompt instead of its previous one. Do nothing after the end."""
        if not self.is_ended:
            self._progress[progress.request_index] = progress
            self._wakeups.wake(self._changed)

    def end(self, error: EngineError) -> None:
        """End the stream with an error, which is raised after the unread outputs. Do nothing after the end."""
        if self.is_ended:
            return
        self._is_broken = True
        self._error = error
        self._changed.set()

    def close(self) -> None:
        """Discard unread outputs after the reader has left. Reading raises StopAsyncIteration from now on."""
        self._is_broken = True
        self._error = None
        self._pending.clear()
        self._whole.clear()
        self._progress.clear()
        self._changed.set()

    def with_progress(self) -> AsyncIterator[GenerationOutput | PrefillProgress]:
        """Return an iterator over the outputs and, before them, the progress of the prompts."""
        return _WithProgress(self)

    async def __anext__(self) -> GenerationOutput:
        while not (self._pending or self._whole):
            await self._until_changed()
        if self._whole:
            return self._whole.popleft()
        return merged(self._pending.pop(next(iter(self._pending))))

    async def next_or_progress(self) -> GenerationOutput | PrefillProgress:
        """Return the progress of a prompt, or the next output if there is none."""
        while not (self._pending or self._whole or self._progress):
            await self._until_changed()
        if self._progress:
            return self._progress.pop(next(iter(self._progress)))
        return await anext(self)

    async def _until_changed(self) -> None:
        """Return when something may have been delivered. Raise the error or StopAsyncIteration after the end."""
        self._raise_error()
        if self.is_ended:
            raise StopAsyncIteration
        self._changed.clear()
        await self._changed.wait()

    def _raise_error(self) -> None:
        """Raise the error, if any, unless it was raised before."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error


class _WithProgress(AsyncIterator[GenerationOutput | PrefillProgress]):
    """The outputs of a stream, and the progress of its prompts."""

    def __init__(self, stream: OutputStream) -> None:
        self._stream = stream

    async def __anext__(self) -> GenerationOutput | PrefillProgress:
        return await self._stream.next_or_progress()

"""Calls with an id of the client's: one that is repeated gets the answer of the first one, finished or running."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final, Generic, TypeAlias, TypeVar

from service.answering.kind import Sized
from service.calls.call import Timed, current_caller, deadline_of
from service.generation.errors import InvalidRequest

Request = TypeVar("Request", bound=Any)  # a message with the fields `serving`, `sampling` and `resume`
Message = TypeVar("Message", bound=Sized)

_Key: TypeAlias = tuple[str, str, str]  # the caller, the kind of the call, and the id
_SEED_SIZE: Final = 4  # bytes
_OTHER: Final = "is the id of another request"
_LEAST_BYTES: Final = 1024  # that a call counts, so that the number of calls is limited, too


class IdempotentCalls:
    """The recent calls with an id. Used on the event loop's thread only.

    A call runs in a task of its own: it ends also if its client disconnects, so that a repeated call finds its answer.
    One that fails is forgotten. A request without a seed gets one that follows from the caller and the id, so that the
    tokens are the same if it is generated again by another process.

    A call is kept as the messages of its stream, so that it can be repeated in the other form, streamed or whole.
    """

    def __init__(self, *, window_s: float, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Answers are kept for `window_s` after their end.

        Above `max_bytes` the oldest answers of the caller with the most bytes are dropped.
        """
        self._window_s = window_s
        self._max_bytes = max_bytes
        self._clock = clock
        self._calls: dict[_Key, _Call[Any]] = {}
        self._ended = _EndedCalls()
        self._reserved: Counter[_Key] = Counter()

    async def messages(
        self,
        kind: str,
        request: Any,
        context: Timed,
        messages: Callable[[Any, Timed], AsyncGenerator[Message, None]],
    ) -> AsyncGenerator[Message, None]:
        """Yield the messages of a call, streamed or to be folded. Raise what they raise, and InvalidRequest.

        The id of a request belongs to the calls of its `kind`, in both forms.
        """
        if not request.serving.request_id or request.HasField("resume"):
            source = messages(request, context)
        else:
            source = self._joined(kind, request, context, messages).messages()
        async with aclosing(source) as found:
            async for message in found:
                yield message

    @contextmanager
    def reserved(self, kind: str, request: Any) -> Iterator[None]:
        """Reserve the id of a request that is not answered as a call of its kind, while the block has an effect.

        Raise InvalidRequest if the id is that of a call. Calls with the id that begin meanwhile are rejected.
        """
        if not request.serving.request_id:
            yield
            return
        self._forget_old()
        key = _key_of(kind, request)
        if key in self._calls:
            raise InvalidRequest("serving.request_id", _OTHER)
        self._reserved[key] += 1
        try:
            yield
        finally:
            self._reserved -= Counter([key])

    async def close(self) -> None:
        """Stop all calls."""
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _joined(
        self,
        kind: str,
        request: Any,
        context: Timed,
        messages: Callable[[Any, Timed], AsyncGenerator[Message, None]],
    ) -> _Call[Message]:
        """Return the call of a request's id, which is begun if there is none. Raise InvalidRequest."""
        self._forget_old()
        key = _key_of(kind, request)
        digest = hashlib.blake2b(undivided(request).SerializeToString(deterministic=True)).digest()
        call: _Call[Message] | None = self._calls.get(key)
        if key in self._reserved:
            raise InvalidRequest("serving.request_id", _OTHER)
        if call is None:
            seeded = type(request)()
            seeded.CopyFrom(request)
            if not seeded.sampling.HasField("seed"):
                seeded.sampling.seed = _seed(key)
            source = messages(seeded, _Deadline(deadline_of(context), self._clock))
            call = self._calls[key] = _Call(digest, source, lambda ended: self._end(key, ended))
        elif call.digest != digest:
            raise InvalidRequest("serving.request_id", _OTHER)
        return call

    def _end(self, key: _Key, call: _Call[Any]) -> None:
        """Keep an answer that is complete, and forget any other."""
        if call.error is not None:
            del self._calls[key]
            return
        self._ended.add(key, call.num_bytes, self._clock())
        self._forget_old()

    def _forget_old(self) -> None:
        """Forget the answers that ended too long ago, and those above the limit of bytes."""
        latest = self._clock() - self._window_s
        while (key := self._ended.first_of_all(latest)) is not None:
            self._forget(key)
        while self._ended.num_bytes > self._max_bytes:
            self._forget(self._ended.first_of_largest())

    def _forget(self, key: _Key) -> None:
        self._ended.remove(key)
        del self._calls[key]


class _EndedCalls:
    """The calls that have ended, in this order: their sizes, in total and by caller."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self._ends: OrderedDict[_Key, float] = OrderedDict()
        self._sizes: dict[str, OrderedDict[_Key, int]] = {}  # by caller
        self._totals: dict[str, int] = {}

    def add(self, key: _Key, num_bytes: int, ended: float) -> None:
        """Add a call that ends now."""
        self.num_bytes += num_bytes
        self._ends[key] = ended
        self._sizes.setdefault(key[0], OrderedDict())[key] = num_bytes
        self._totals[key[0]] = self._totals.get(key[0], 0) + num_bytes

    def remove(self, key: _Key) -> None:
        """Remove a call."""
        caller_id = key[0]
        num_bytes = self._sizes[caller_id].pop(key)
        self.num_bytes -= num_bytes
        self._totals[caller_id] -= num_bytes
        del self._ends[key]
        if not self._sizes[caller_id]:
            del self._sizes[caller_id], self._totals[caller_id]

    def first_of_all(self, latest: float) -> _Key | None:
        """Return the call that ended first, if it ended at `latest` or before; else None."""
        key = next(iter(self._ends), None)
        return key if key is not None and self._ends[key] <= latest else None

    def first_of_largest(self) -> _Key:
        """Return the call that ended first of the caller with the most bytes."""
        largest = max(self._totals, key=self._totals.__getitem__)
        return next(iter(self._sizes[largest]))


class _Call(Generic[Message]):
    """A call that runs in a task, with its messages so far."""

    def __init__(
        self, digest: bytes, source: AsyncGenerator[Message, None], on_end: Callable[[_Call[Message]], None]
    ) -> None:
        """`on_end` is called when the call has ended, before those that wait for it continue."""
        self._on_end = on_end
        self.digest = digest
        self.error: BaseException | None = None
        self.num_bytes = _LEAST_BYTES
        self._messages: list[Message] = []
        self._is_complete = False
        self._changed = asyncio.Event()
        self.task = asyncio.create_task(self._run(source))

    async def messages(self) -> AsyncGenerator[Message, None]:
        """Yield all messages from the first one, except old progress. Raise the error that ended the call."""
        index, num_old = 0, len(self._messages)
        while True:
            changed = self._changed
            while index < len(self._messages):
                if index >= num_old or not _is_progress(self._messages[index]):
                    yield self._messages[index]
                index += 1
            if self.error is not None:
                raise self.error
            if self._is_complete:
                return
            await changed.wait()

    async def _run(self, source: AsyncGenerator[Message, None]) -> None:
        try:
            async with aclosing(source) as messages:
                async for message in messages:
                    self._messages.append(message)
                    self.num_bytes += message.ByteSize()
                    self._notify()
        except BaseException as error:  # noqa: BLE001  raised in the calls that wait
            self.error = error
        self._is_complete = True
        self._on_end(self)
        self._notify()

    def _notify(self) -> None:
        """Continue all that wait."""
        self._changed.set()
        self._changed = asyncio.Event()


class _Deadline:
    """The context of a call whose client may leave: its deadline only."""

    def __init__(self, deadline: float | None, clock: Callable[[], float]) -> None:
        self._deadline = deadline
        self._clock = clock

    def time_remaining(self) -> float | None:
        """Return the seconds until the deadline; None if there is none."""
        return None if self._deadline is None else self._deadline - self._clock()


def _key_of(kind: str, request: Any) -> _Key:
    return (current_caller().id, kind, request.serving.request_id)


def call_name(caller_id: str, request: Any) -> str:
    """Return a text that is the same whenever a call with an id is repeated; empty for a call without one."""
    request_id = request.serving.request_id if "serving" in request.DESCRIPTOR.fields_by_name else ""
    return f"{request.DESCRIPTOR.full_name}\0{caller_id}\0{request_id}" if request_id else ""


def undivided(request: Request) -> Request:
    """Return a copy of a request without the options that only change how a stream of its answer is divided."""
    found: Request = type(request)()
    found.CopyFrom(request)
    for name in ("separate_tokens", "report_progress"):
        found.serving.ClearField(name)
    return found


def _is_progress(message: Any) -> bool:
    """Return whether a message is the progress of a prompt, which is of no use later."""
    return "prompt_progress" in message.DESCRIPTOR.fields_by_name and message.HasField("prompt_progress")


def _seed(key: _Key) -> int:
    """Return the seed of a request without one."""
    caller_id, _, request_id = key
    digest = hashlib.blake2b(f"{caller_id}\0{request_id}".encode(), digest_size=_SEED_SIZE).digest()
    return int.from_bytes(digest, "big")

"""One open request of a generator."""

from __future__ import annotations

from collections import abc
from dataclasses import replace

from service.engine.client.output_stream import OutputStream
from service.engine.client.queue_wait import QueueWaitEstimator
from service.engine.messages import Output
from service.generation.errors import EngineError
from service.generation.output import GenerationOutput
from service.generation.request import GenerationRequest


class OpenGeneration:
    """One request behind a stream, which may have several."""

    def __init__(
        self,
        request: GenerationRequest,
        stream: OutputStream,
        arrived: float,
        queue_wait: QueueWaitEstimator,
        clock: abc.Callable[[], float],
    ) -> None:
        self.request = request
        self.arrived = arrived
        self.is_waiting = True
        self.began = arrived  # until it has, unknown
        self.num_running = 0  # choices that have begun, as far as is known here, and not ended
        self._stream = stream
        self._queue_wait = queue_wait
        self._clock = clock

    @property
    def is_complete(self) -> bool:
        """Whether all requests of the stream have ended."""
        return self._stream.is_complete

    def words(self) -> str | None:
        """The request, if it isn't done."""
        return None if self.is_complete else words_of(self.request)

    def start(self) -> None:
        """Its first step was computed."""
        self.is_waiting = False
        self.began = self._clock()
        self.num_running = self.request.n
        self._stream.start()

    def put(self, output: Output) -> None:
        """A step has added something."""
        if isinstance(output, GenerationOutput):
            if output.finish_reason is not None and self.num_running:
                self.num_running -= 1
                self._queue_wait.ended(self._clock() - self.began)
            self._stream.put(output)

    def end(self, error: EngineError) -> None:
        """It has failed, and the stream with it."""
        self.is_waiting = False
        self.num_running = 0
        self._stream.end(error)


def words_of(request: GenerationRequest) -> str:
    """What makes a request the same when it is asked again, by whomever and with whatever seed."""
    sampling = replace(request.sampling, seed=None)
    same = replace(
        request, request_id="", caller_id="", weight=1, priority=0, deadline=None, sampling=sampling, cuts={},
        prompt_token_ids=[],
    )  # fmt: skip
    return f"{same!r} {list(request.prompt_token_ids)!r}"

"""An open request of a generator."""

from __future__ import annotations

from collections import abc
from dataclasses import replace

from service.engine.client.output_stream import OutputStream
from service.engine.client.queue_wait import QueueWaitEstimator
from service.engine.interface.messages import Output
from service.generation.errors import EngineError
from service.generation.outputs.output import GenerationOutput, PrefillProgress
from service.generation.requests.request import GenerationRequest
from service.generation.service_level import BATCH


class OpenGeneration:
    """An open request. Its outputs go to a stream, which several requests may share."""

    def __init__(
        self,
        request: GenerationRequest,
        stream: OutputStream,
        arrived: float,
        queue_wait: QueueWaitEstimator,
        clock: abc.Callable[[], float],
        *,
        record_answer: abc.Callable[[float, float, float], None] | None = None,
    ) -> None:
        """`record_answer` gets a whole answer's computed prompt tokens, the tokens of each choice, and its time."""
        self.request = request
        self.arrived = arrived
        self.is_waiting = True
        self.began = arrived  # set when it starts
        self.num_running = 0  # choices that have started and not ended
        self.has_output = False
        self._num_tokens = 0  # of all choices
        self._stream = stream
        self._queue_wait = queue_wait
        self._clock = clock
        self._record_answer = record_answer

    @property
    def is_complete(self) -> bool:
        """True if all requests of the stream are complete."""
        return self._stream.is_complete

    def description(self) -> str | None:
        """Return the description of the request, or None if it is complete."""
        return None if self.is_complete else description_of(self.request)

    def start(self) -> None:
        """Record that its first step was computed."""
        self.is_waiting = False
        self.began = self._clock()
        self.num_running = self.request.n
        self._stream.start()

    def put(self, output: Output) -> None:
        """Deliver an output."""
        if isinstance(output, GenerationOutput):
            self.has_output = True
            self._num_tokens += len(output.token_ids)
            if output.finish_reason is not None and self.num_running:
                self.num_running -= 1
                if not self.request.is_batch:
                    self._record_end(output)
            self._stream.put(output)
        elif isinstance(output, PrefillProgress):
            self._stream.put_progress(output)

    def _record_end(self, output: GenerationOutput) -> None:
        """Record the end of a choice, and of the answer if it was the last one."""
        now = self._clock()
        self._queue_wait.record_end(now - self.began)
        if not self.num_running and self._record_answer is not None:
            num_prompt_tokens = len(self.request.prompt_token_ids) - output.num_cached_tokens
            self._record_answer(num_prompt_tokens, self._num_tokens / self.request.n, now - self.arrived)

    def end(self, error: EngineError) -> None:
        """End the request and its stream with an error."""
        self.is_waiting = False
        self.num_running = 0
        self._stream.end(error)


def description_of(request: GenerationRequest) -> str:
    """Return a description that does not depend on the client, the seed or the deadline."""
    sampling = replace(request.sampling, seed=None)
    same = replace(
        request, request_id="", caller_id="", weight=1, priority=0, service_level=BATCH, deadline=None,
        is_batch=False, reports_progress=False,
        sampling=sampling, output_ends={}, separates_tokens=False, prompt_token_ids=[],
    )  # fmt: skip
    return f"{same!r} {list(request.prompt_token_ids)!r}"

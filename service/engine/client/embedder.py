"""The client of an embedding engine: `service.engine.interface.port.Embedder` on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections import abc
from functools import partial

from service.engine.client.admission.queue_share import QueuedRequest, QueueShare
from service.engine.client.admission.queue_wait_limit import QueueWaitLimit
from service.engine.client.engine_client import EngineClient
from service.engine.interface.config import EngineConfig
from service.engine.interface.messages import Add, InputVector, Output, Report
from service.engine.interface.port import StepObserver
from service.engine.interface.retry import retry_after_s
from service.engine.link.link import Link
from service.generation.errors import EngineError, EngineOverloaded, InvalidRequest, PromptTooLong
from service.generation.requests.embedding import EmbeddingOutput, EmbeddingRequest, Vector


class OpenEmbedding:
    """An open request, and its vectors so far."""

    def __init__(self, request: EmbeddingRequest, arrived: float, clock: abc.Callable[[], float]) -> None:
        self.arrived = arrived
        self.caller_id = request.caller_id
        self.is_batch = request.is_batch
        self.weight = request.weight
        self.num_left_tokens = sum(map(len, request.inputs))  # tokens of inputs without a vector
        self.done: asyncio.Future[EmbeddingOutput] = asyncio.get_running_loop().create_future()
        self._inputs = request.inputs
        self._vectors: dict[int, Vector] = {}
        self._scheduled = arrived
        self._compute_s = 0.0
        self._clock = clock

    @property
    def is_complete(self) -> bool:
        """True if each input has its vector."""
        return len(self._vectors) == len(self._inputs)

    def description(self) -> None:
        """Return None: an encoder computes all texts alike, so no text is quarantined after a crash."""
        return

    def start(self) -> None:
        """Do nothing: the first vector has the start time."""

    def put(self, output: Output) -> None:
        """Store a vector, and set the result if it is the last one."""
        if not isinstance(output, InputVector):
            return
        if not self._vectors:
            self._scheduled = output.began
        self._vectors[output.input_index] = output.vector
        self._compute_s += output.compute_s
        self.num_left_tokens -= len(self._inputs[output.input_index])
        if self.is_complete and not self.done.done():
            vectors = [self._vectors[index] for index in range(len(self._inputs))]
            now = self._clock()
            self.done.set_result(EmbeddingOutput(vectors, self.arrived, self._scheduled, now, self._compute_s))

    def end(self, error: EngineError) -> None:
        """Set the error, unless the result is set."""
        if not self.done.done():
            self.done.set_exception(error)


class EmbedderClient(EngineClient[OpenEmbedding]):
    """Computes the vectors of concurrent requests."""

    def __init__(
        self,
        link: Link,
        config: EngineConfig,
        *,
        vocab_size: int,
        observer: StepObserver | None = None,
        clock: abc.Callable[[], float] = time.monotonic,
        is_asleep: bool = False,
    ) -> None:
        """`config` must have a `max_model_len`; ValueError otherwise. Its cache settings are ignored."""
        if config.max_model_len is None:
            raise ValueError("max_model_len must be known before the engine is made")
        super().__init__(link, max_model_len=config.max_model_len, observer=observer, clock=clock, is_asleep=is_asleep)
        self._config = config
        self._vocab_size = vocab_size
        self._wait_limit = QueueWaitLimit(config.max_queue_wait_s)

    def on_report(self, report: Report) -> None:
        """Deliver a report, and measure the speed."""
        super().on_report(report)
        for stats in report.stats:
            self._wait_limit.record_step(stats)

    def reject_if_overloaded(self, caller_id: str, weight: float, least_tokens: int) -> None:
        """Raise EngineOverloaded if a request of `caller_id` would be queued for too long. Call it before tokenization.

        The request has at least `least_tokens` tokens.
        """
        self._check_capacity(caller_id, weight, least_tokens, self._clock())

    async def embed(self, request: EmbeddingRequest) -> EmbeddingOutput:
        """Return the vectors of all inputs. Cancellation aborts the request.

        Raise InvalidRequest or PromptTooLong, which name the input as `inputs[i]`, EngineOverloaded, EngineRestarting,
        EngineClosed, EngineFailed or DeadlineExceeded.
        """
        self._reject_if_unavailable(request.deadline)
        self._check(request)
        now = self._clock()
        opened = OpenEmbedding(request, now, self._clock)
        if not request.is_batch:
            self._check_capacity(request.caller_id, request.weight, opened.num_left_tokens, now)
        serial = self._open(opened, partial(Add, request=request, arrived=now))
        try:
            return await opened.done
        finally:
            self._leave(serial)

    def _check(self, request: EmbeddingRequest) -> None:
        if not request.inputs:
            raise InvalidRequest("inputs", "inputs must not be empty")
        for index, token_ids in enumerate(request.inputs):
            if not len(token_ids):
                raise InvalidRequest(f"inputs[{index}]", "the input has no tokens")
            if len(token_ids) > self.max_model_len:
                raise PromptTooLong(f"inputs[{index}]", len(token_ids), self.max_model_len)
            if token_ids.min() < 0 or token_ids.max() >= self._vocab_size:
                message = f"a token id of the input is not below the vocabulary's size, {self._vocab_size}"
                raise InvalidRequest(f"inputs[{index}]", message)

    def _check_capacity(self, caller_id: str, weight: float, num_tokens: int, now: float) -> None:
        others = [each for each in self._requests() if not each.is_batch]
        if not others:
            return  # a request that exceeds the whole queue may still run alone
        num_before = _num_before(caller_id, weight, num_tokens, others)
        wait_s = num_before * self._stats.last.step_time_s / max(self._stats.last.step_tokens, 1)
        limit_s = self._wait_limit.seconds
        queued = (QueuedRequest(each.caller_id, each.weight, 1) for each in others)
        is_full = not QueueShare(self._config.max_queue_requests, queued, caller_id, weight).has_capacity(1)
        if is_full:
            message, retry_s = f"{len(others)} requests wait already", now - others[0].arrived
        elif num_before + num_tokens > self._config.max_queue_tokens:
            message, retry_s = f"{num_before} tokens of other requests would be computed first", now - others[0].arrived
        elif wait_s > limit_s:
            message = f"the request would wait for about {wait_s:.1f} s for others; the limit is {limit_s:.1f} s"
            retry_s = wait_s - limit_s
        else:
            return
        raise EngineOverloaded(message, retry_after_s(retry_s), for_all=is_full)


def _num_before(caller_id: str, weight: float, num_tokens: int, others: abc.Sequence[OpenEmbedding]) -> int:
    """Return the number of tokens that are computed for other requests before a request of a key ends.

    Requests of one key take turns, so up to the request's own number of tokens is computed for each of them in the
    meantime. Tokens are computed for another key in proportion to its weight.
    """
    own, by_key = 0, dict[str, tuple[float, int]]()
    for each in others:
        if each.caller_id == caller_id:
            own += min(each.num_left_tokens, num_tokens)
        else:
            by_key[each.caller_id] = each.weight, by_key.get(each.caller_id, (0.0, 0))[1] + each.num_left_tokens
    due = [min(num, round((own + num_tokens) * other_weight / weight)) for other_weight, num in by_key.values()]
    return own + sum(due)

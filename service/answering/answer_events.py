"""Convert the engine's outputs for one request to events."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from typing import Final

from service.answering.receipts import OpenReceipt
from service.generation.outputs.events import Completed, Event, PromptProgress, Started, Usage
from service.generation.outputs.output import GenerationOutput, PrefillProgress
from service.generation.requests.request import PROGRESS_INTERVAL_S
from service.generation.requests.resume import ResumePoint, StreamIdentity
from service.output.answers.answer import AnswerReader
from service.prompting.preparation import PreparedAnswer
from service.registry.models import ServedGenerator

# More logprobs are read and rendered on a worker thread, so that they do not block the event loop. This number of
# logprobs with twenty candidates each takes about five milliseconds.
MAX_INLINE_LOGPROBS: Final = 128


class AnswerEvents:
    """Converts one answer's outputs: call `begin`, `read` for each output, then `end`, or `fail` after an error."""

    def __init__(
        self,
        model: ServedGenerator,
        prepared: PreparedAnswer,
        identity: StreamIdentity,
        point: ResumePoint | None,
        receipt: OpenReceipt | None = None,
        *,
        load_wait_s: float = 0.0,
    ) -> None:
        """`point` is the position at which the stream is resumed; None for a new stream.

        `receipt` is None unless the request asks for one. `load_wait_s` is how long it waited for its model.
        """
        self._receipt = receipt
        self._reader = AnswerReader(prepared.requests, prepared.forms, model.tokenizer, answer_id=identity.id)
        self._requests = prepared.requests
        self._lacks_prompt = {index for index, each in enumerate(self._requests) if each.prompt_logprobs is not None}
        # Outputs of other choices that arrived before the prompt's logprobs.
        self._early: list[GenerationOutput] = []
        self._progress: dict[int, PrefillProgress] = {}  # by prompt
        self._progress_due = -math.inf  # an instant of the engine's clock
        self._started = _started(model, prepared, identity, load_wait_s)
        if point is not None:
            n = prepared.requests[0].n
            started_prompts = {index // n for index, count in enumerate(point.position.ends) if count}
            self._reader.report_cached(sorted(started_prompts), point.position.num_cached_tokens)

    def usage(self) -> Usage:
        """Return the token usage of the outputs read so far."""
        images = [image for request in self._requests for image in request.images]
        return self._reader.usage()._replace(image_tokens=sum(image.end - image.start for image in images))

    def begin(self) -> Sequence[Event]:
        """Return the events of an admitted request."""
        return (self._started,)

    async def read(self, output: GenerationOutput) -> Sequence[Sequence[Event]]:
        """Return the events of an output and of those held back until it arrived, one group per output.

        If a prompt's logprobs are requested, they come with its first choice and must precede the text of every choice.
        Outputs of the other choices are held back until then.
        """
        prompt_index = output.request_index
        if prompt_index not in self._lacks_prompt:
            return (await self._read(output),)
        if output.choice_index:
            self._early.append(output)
            return ()
        self._lacks_prompt.remove(prompt_index)
        waiting = [each for each in self._early if each.request_index == prompt_index]
        self._early = [each for each in self._early if each.request_index != prompt_index]
        return [await self._read(each) for each in (output, *waiting)]

    def progress(self, progress: PrefillProgress) -> Sequence[Event]:
        """Return the event of all prompts for the progress of one. Return none if less than an interval has passed."""
        self._progress[progress.request_index] = progress
        num_tokens = sum(len(request.prompt_token_ids) for request in self._requests)
        num_computed = sum(each.num_computed_tokens for each in self._progress.values())
        if num_computed < num_tokens and progress.now < self._progress_due:
            return ()
        self._progress_due = progress.now + PROGRESS_INTERVAL_S
        began = min(each.scheduled for each in self._progress.values())
        num_cached = sum(each.num_cached_tokens for each in self._progress.values())
        return (PromptProgress(num_tokens, num_cached, num_computed, max(progress.now - began, 0.0)),)

    async def _read(self, output: GenerationOutput) -> Sequence[Event]:
        """Return the events of an output. Many logprobs are read on another thread."""
        if max(len(output.prompt_logprobs), len(output.logprobs)) > MAX_INLINE_LOGPROBS:
            events = await asyncio.to_thread(self._reader.read, output)
        else:
            events = self._reader.read(output)
        if self._receipt is not None:
            self._receipt.add(events)
        return events

    def fail(self) -> Sequence[Event]:
        """Return the events of an answer that fails after its first output."""
        return (self.usage(),)

    def end(self) -> Sequence[Event]:
        """Return the events of an answer whose choices have all ended."""
        receipt = "" if self._receipt is None else self._receipt.signed()
        return (self.usage(), Completed(time.time_ns(), receipt))


def _started(model: ServedGenerator, prepared: PreparedAnswer, identity: StreamIdentity, load_wait_s: float) -> Started:
    """Return the first event of an answer."""
    return Started(
        id=identity.id,
        created_ns=identity.created_ns,
        model=model.name,
        model_version=model.description.version,
        fingerprint=model.description.fingerprint,
        sampling=prepared.sampling,
        stopping=prepared.stopping,
        n=prepared.requests[0].n,
        num_prompts=len(prepared.requests),
        prompt_texts=prepared.prompt_texts,
        prompt_token_ids=[request.prompt_token_ids for request in prepared.requests],
        reasoning_effort=prepared.reasoning_effort,
        load_wait_s=load_wait_s,
    )

"""From a raw prompt to what the engine runs, and from its outputs to text with timings.

Owns the defaults of text generation, and the reading of the engine's instants as times. `prepare_text` is called on the
event loop; a `PreparedText` is one object a request, on the loop. Knows no gRPC: it takes and gives messages, and
raises the engine's errors with paths of proto names.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from google.protobuf import duration_pb2
from sluice.v1 import chat_pb2, sampling_pb2, text_generation_pb2, usage_pb2

from service.engine.tokenizer import Tokenizer
from service.generation.errors import InvalidRequest
from service.generation.output import GenerationOutput
from service.generation.request import GenerationRequest
from service.pipeline.choice import FINISH_REASONS
from service.pipeline.parameters import resolve_sampling, resolve_stopping, to_engine_sampling, to_engine_stopping
from service.pipeline.prepared import Identity
from service.pipeline.serving import resolve_serving
from service.pipeline.truncation import PromptRoom, fit_text
from service.pipeline.workers import Workers

DEFAULT_MAX_TOKENS = 20  # as inference servers of the Triton kind have it


async def prepare_text(
    request: text_generation_pb2.GenerateTextRequest,
    request_id: str,
    deadline: float | None,
    *,
    tokenizer: Tokenizer,
    max_model_len: int,
    workers: Workers,
) -> PreparedText:
    """Make a validated request ready to run. `deadline` is a `time.monotonic()` instant in seconds.

    Raises InvalidRequest, naming the field, PromptTooLong and DeadlineExceeded.
    """
    serving = resolve_serving(request.serving, deadline)
    wanted = sampling_pb2.StopParams(max_tokens=DEFAULT_MAX_TOKENS)
    wanted.MergeFrom(request.stopping)
    room = PromptRoom.of(max_model_len, wanted, truncates=serving.truncates)
    token_ids = await workers.render(
        lambda: fit_text(tokenizer, request.text_input, room, "text_input"),
        deadline,
        InvalidRequest("text_input", f"the text took longer than {workers.limits.max_render_s:g} s to encode"),
    )
    vocab_size = tokenizer.vocab_size
    sampling = resolve_sampling(request.sampling if request.do_sample else _greedy(request.sampling), vocab_size)
    stopping = resolve_stopping(wanted, vocab_size=vocab_size, max_new_tokens=max_model_len - len(token_ids))
    generation = GenerationRequest(
        request_id=request_id,
        prompt_token_ids=token_ids,
        sampling=to_engine_sampling(sampling),
        stopping=to_engine_stopping(stopping),
        deadline=serving.deadline,
        priority=serving.priority,
        cache_salt=serving.cache_salt,
        truncates_at_deadline=serving.truncates,
    )
    return PreparedText(generation, sampling, stopping, times_tokens=request.perf_stat)


class PreparedText:
    """A raw prompt that the engine can run, a `Prepared`. `sampling` and `stopping` have every default filled in."""

    prompt_fields = ("text_input",)

    def __init__(
        self,
        generation: GenerationRequest,
        sampling: sampling_pb2.SamplingParams,
        stopping: sampling_pb2.StopParams,
        *,
        times_tokens: bool,
    ) -> None:
        """`times_tokens` is whether the end tells the time of each token."""
        self.generation = generation
        self.sampling = sampling
        self.stopping = stopping
        self._num_tokens = 0
        self._num_cached_tokens = 0
        self._newest_token: float | None = None  # its instant, as those of the engine's timings
        self._token_times: list[float] | None = [] if times_tokens else None
        self._finish_reason: chat_pb2.FinishReason | None = None

    @property
    def generations(self) -> Sequence[GenerationRequest]:
        """The one request of a text."""
        return (self.generation,)

    def started(self, identity: Identity) -> list[text_generation_pb2.StreamGenerateTextResponse]:
        """The event that a stream begins with."""
        started = text_generation_pb2.TextGenerationStarted(
            id=identity.id,
            model=identity.model.name,
            model_version=identity.model.version,
            sampling=self.sampling,
            stopping=self.stopping,
        )
        return [text_generation_pb2.StreamGenerateTextResponse(started=started)]

    def events(self, output: GenerationOutput) -> list[text_generation_pb2.StreamGenerateTextResponse]:
        """What the engine's next output adds to the stream, without sequence numbers."""
        self._num_tokens += len(output.token_ids)
        self._num_cached_tokens = output.num_cached_tokens
        if output.token_times:
            self._newest_token = output.token_times[-1]
        if self._token_times is not None:
            self._token_times.extend(output.token_times)
        timings = self._timings(output)
        events = []
        if output.text or output.finish_reason is None:
            delta = text_generation_pb2.TextGenerationDelta(
                text=output.text, num_generated_tokens=self._num_tokens, timings=timings
            )
            events.append(text_generation_pb2.StreamGenerateTextResponse(delta=delta))
        if output.finish_reason is not None:
            events.append(self._finished(output, timings))
        return events

    def completed(self) -> list[text_generation_pb2.StreamGenerateTextResponse]:
        """The events that a stream ends with whose text has ended."""
        completed = text_generation_pb2.TextGenerationCompleted()
        return [*self.broken_off(), text_generation_pb2.StreamGenerateTextResponse(completed=completed)]

    def broken_off(self) -> list[text_generation_pb2.StreamGenerateTextResponse]:
        """The event that a stream ends with before its error."""
        return [text_generation_pb2.StreamGenerateTextResponse(usage=self.usage())]

    def finish_reasons(self) -> list[chat_pb2.FinishReason]:
        """Why the text ended, if it did."""
        return [] if self._finish_reason is None else [self._finish_reason]

    def usage(self) -> usage_pb2.Usage:
        """What the outputs so far cost."""
        return usage_pb2.Usage(
            prompt_tokens=len(self.generation.prompt_token_ids),
            completion_tokens=self._num_tokens,
            cached_tokens=self._num_cached_tokens,
        )

    def _finished(
        self, output: GenerationOutput, timings: text_generation_pb2.GenerationTimings
    ) -> text_generation_pb2.StreamGenerateTextResponse:
        assert output.finish_reason is not None  # noqa: S101
        self._finish_reason = FINISH_REASONS[output.finish_reason]
        finished = text_generation_pb2.TextGenerationFinished(
            finish_reason=self._finish_reason,
            stop_sequence=output.stop_sequence,
            num_generated_tokens=self._num_tokens,
            timings=timings,
        )
        if self._token_times is not None:
            instants = pairwise([output.timings.arrived, *self._token_times])
            finished.timings.tokens.extend(_duration(began, ended) for began, ended in instants)
        return text_generation_pb2.StreamGenerateTextResponse(finished=finished)

    def _timings(self, output: GenerationOutput) -> text_generation_pb2.GenerationTimings:
        measured = output.timings
        return text_generation_pb2.GenerationTimings(
            queue_wait=_duration_if_over(measured.arrived, measured.scheduled),
            first_token=_duration_if_over(measured.arrived, measured.first_token),
            decode=_duration_if_over(measured.first_token, self._newest_token),
            batch_size=output.batch_size,
        )


def _greedy(given: sampling_pb2.SamplingParams) -> sampling_pb2.SamplingParams:
    """`given` without what only matters to a draw: the most likely token is taken."""
    greedy = sampling_pb2.SamplingParams()
    greedy.CopyFrom(given)
    for name in ("top_k", "top_p", "min_p", "typical_p"):
        greedy.ClearField(name)
    greedy.temperature = 0.0
    return greedy


def _duration_if_over(began: float | None, ended: float | None) -> duration_pb2.Duration | None:
    """The time between two instants; None if one of them has not come."""
    return None if began is None or ended is None else _duration(began, ended)


def _duration(began: float, ended: float) -> duration_pb2.Duration:
    """The time between two instants in seconds."""
    duration = duration_pb2.Duration()
    duration.FromNanoseconds(round((ended - began) * 1e9))
    return duration

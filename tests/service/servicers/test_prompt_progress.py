"""The progress of prompts in the streams of a real server, with a scripted model that computes them in parts."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sluice.v1 import (
    completion_pb2,
    completion_pb2_grpc,
    serving_pb2,
    text_generation_pb2,
    text_generation_pb2_grpc,
)

from service.engine.core.engine_core import SampledToken
from service.engine.core.step import Step
from service.generation.errors import SequenceError
from tests.service.fakes import MODEL, ScriptedRunner, request, running
from tests.service.servicers.test_resume import read, resumed, whole
from tests.waiting import GUARD_S

pytestmark = pytest.mark.slow  # each waits for several steps

PROMPT = "0123456789" * 2
ENGINE = {"max_batch_tokens": 8, "max_batch_sequences": 4}
DELAY_S = 0.11  # of a step, above the interval of progress
SERVING = {"report_progress": True}


def slow(*texts: str) -> ScriptedRunner:
    runner = ScriptedRunner(*texts)
    runner.delay_s = DELAY_S
    return runner


class FollowedRunner(ScriptedRunner):
    """A slow model that continues with a prompt only when the progress so far was read.

    A reader that is late gets the newest progress only.
    """

    def __init__(self, *texts: str) -> None:
        super().__init__(*texts)
        self.delay_s = DELAY_S
        self._was_read = threading.Semaphore(0)
        self._is_reported = False

    def run(self, step: Step) -> list[SampledToken | SequenceError | None]:
        if self._is_reported:
            assert self._was_read.acquire(timeout=GUARD_S)
        self._is_reported = any(each.sequence.progress_due is not None and not each.samples for each in step.items)
        return super().run(step)

    async def events_of(self, call: Any) -> list[Any]:
        """Return the events of a stream with progress."""
        events = []
        async for event in call:
            events.append(event)
            if event.HasField("prompt_progress"):
                self._was_read.release()
        return events


def numbers(progress: list[serving_pb2.PromptProgress]) -> list[tuple[int, int, int]]:
    return [(each.total_tokens, each.cached_tokens, each.processed_tokens) for each in progress]


def progress_of(events: list[Any]) -> list[serving_pb2.PromptProgress]:
    return [event.prompt_progress for event in events if event.HasField("prompt_progress")]


async def test_progress_of_a_chat_has_no_place_in_the_stream() -> None:
    """It follows `started`; without it the stream is the same, with the same numbers and positions."""
    runner = FollowedRunner("ok")
    async with running(runner, engine=ENGINE) as run:
        plain = await read(run, request(PROMPT))
        message = request(PROMPT + "abcdefghij", n=2, serving=SERVING)
        events = await runner.events_of(run.chat.StreamChat(message))
        assert [event.WhichOneof("event") for event in events[:3]] == ["started", *["prompt_progress"] * 2]
        assert numbers(progress_of(events)) == [(30, 20, 28), (30, 20, 30)]
        assert all(event.sequence_number == 0 for event in events[:3])
        assert len({event.position for event in events[:3]}) == 1
        others = [event for event in events if not event.HasField("prompt_progress")]
        assert [event.sequence_number for event in others] == list(range(len(others)))
        assert not progress_of(plain)


async def test_stream_is_resumed_after_an_event_of_progress() -> None:
    """Nothing is lost or repeated, and the resumed stream has no progress."""
    async with running(slow("hello", "you"), engine=ENGINE) as run:
        message = request(PROMPT, n=2, serving=SERVING)
        events = await read(run, message)
        cut = max(index for index, event in enumerate(events) if event.HasField("prompt_progress")) + 1
        rest = await read(run, resumed(message, events[:cut]))
        assert not progress_of(rest)
        assert whole(events[:cut] + rest).choices == whole(events).choices
        assert [event.sequence_number for event in rest] == list(range(1, len(rest) + 1))


async def test_progress_of_several_prompts_is_their_sum() -> None:
    """The last event has the tokens of all prompts, each counted once for its choices."""
    async with running(slow("ok"), engine=ENGINE) as run:
        message = completion_pb2.CompleteRequest(
            model=MODEL, prompts=[{"text": PROMPT}, {"text": "abcdefghijkl"}], n=2, serving=SERVING
        )
        stub: Any = completion_pb2_grpc.CompletionServiceStub(run.channel)
        found = numbers(progress_of([event async for event in stub.StreamComplete(message)]))
        assert {total for total, _, _ in found} == {32}
        assert [processed for _, _, processed in found] == sorted({processed for _, _, processed in found})
        assert found[-1] == (32, 0, 32)


async def test_generated_text_has_progress_and_a_whole_answer_ignores_it() -> None:
    """The times of its events grow."""
    runner = FollowedRunner("ok")
    async with running(runner, engine=ENGINE) as run:
        message = text_generation_pb2.GenerateTextRequest(model=MODEL, text_input=PROMPT, serving=SERVING)
        stub: Any = text_generation_pb2_grpc.TextGenerationServiceStub(run.channel)
        found = progress_of(await runner.events_of(stub.StreamGenerateText(message)))
        assert [each.processed_tokens for each in found] == [8, 16, 20]
        times = [each.elapsed.ToMilliseconds() for each in found]
        assert times == sorted(set(times))
        assert (await stub.GenerateText(message)).text == "ok"


async def test_repeated_stream_has_no_old_progress() -> None:
    """A call with the id of one that has ended gets its answer only."""
    async with running(slow("ok"), engine=ENGINE) as run:
        message = request(PROMPT, serving={**SERVING, "request_id": "r1"})
        first, again = await read(run, message), await read(run, message)
        assert progress_of(first)
        assert again == [event for event in first if not event.HasField("prompt_progress")]

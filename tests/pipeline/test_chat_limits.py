"""What a chat's preparation may cost, and whom."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from service.pipeline.chat import ChatPipeline
from service.pipeline.template import ChatTemplate
from service.pipeline.workers import PipelineLimits
from sluice.v1 import sampling_pb2

from service.generation.errors import DeadlineExceeded, EngineOverloaded, TemplateRefused, UnsupportedConstraint
from tests.pipeline.fakes import (
    pipeline_of,
    request_of,
    user,
)


async def test_endless_template_ends_its_request_only() -> None:
    """A template that never ends is left to its thread; the loop goes on, and so do other requests."""
    release = threading.Event()
    template = pipeline_of()._template
    pipeline = pipeline_of(limits=PipelineLimits(max_render_s=0.2))
    pipeline._template = _Stuck(template, release)  # type: ignore[assignment]
    try:
        with pytest.raises(TemplateRefused, match=r"longer than 0\.2 s"):
            await pipeline.prepare(request_of(user("stuck")), "r")
        pipeline.workers.limits = PipelineLimits()
        assert (await pipeline.prepare(request_of(user("fine")), "r")).generation.prompt_token_ids
    finally:
        release.set()
        pipeline.close()


class _Stuck:
    """A template that hangs on one message until it is released."""

    def __init__(self, template: ChatTemplate, release: threading.Event) -> None:
        self.source, self.variables = template.source, template.variables
        self._template, self._release = template, release

    def render(self, messages: list[dict[str, Any]], *rest: Any) -> str:
        if messages[-1]["content"] == "stuck":
            self._release.wait(30)
        return self._template.render(messages, *rest)


async def test_busy_threads_are_not_the_fault_of_who_waits_for_them() -> None:
    """Who gets no thread in time is told to come back; who gets one late has all of his time from then on."""
    release = threading.Event()
    pipeline = pipeline_of(limits=PipelineLimits(max_render_s=0.3, num_threads=1))
    pipeline._template = _Stuck(pipeline._template, release)  # type: ignore[assignment]
    stuck = asyncio.create_task(pipeline.prepare(request_of(user("stuck")), "r"))
    await asyncio.sleep(0)  # so that it has the thread
    with pytest.raises(EngineOverloaded, match="busy") as refusal:
        await pipeline.prepare(request_of(user("fine")), "r")
    assert refusal.value.retry_after_s == 1
    with pytest.raises(TemplateRefused):
        await stuck
    pipeline.workers.limits = PipelineLimits()
    waiting = asyncio.create_task(pipeline.prepare(request_of(user("fine")), "r"))
    await asyncio.sleep(0.01)
    assert not waiting.done()
    release.set()
    assert (await waiting).generation.prompt_token_ids
    pipeline.close()


async def test_deadline_ends_the_preparation(pipeline: ChatPipeline) -> None:
    """A request whose deadline has passed isn't prepared."""
    with pytest.raises(DeadlineExceeded):
        await pipeline.prepare(request_of(), "r", time.monotonic() - 1)


async def test_compilation_has_a_time_limit() -> None:
    """A constraint that takes too long is the request's fault, and named."""
    pipeline = pipeline_of(limits=PipelineLimits(max_compile_s=0.1))
    release = threading.Event()
    pipeline.compiler.compile = lambda grammar: release.wait(30)  # type: ignore[assignment, method-assign, return-value]
    request = request_of(output_constraint=sampling_pb2.OutputConstraint(regex="a"))
    with pytest.raises(UnsupportedConstraint, match=r"longer than 0\.1 s") as refusal:
        await pipeline.prepare(request, "r")
    assert refusal.value.field == "output_constraint.regex"
    release.set()
    pipeline.close()


async def test_loop_runs_while_a_template_does() -> None:
    """Nothing of the preparation's work holds up the loop."""
    pipeline = pipeline_of()
    release = threading.Event()
    pipeline._template = _Stuck(pipeline._template, release)  # type: ignore[assignment]
    preparing = asyncio.create_task(pipeline.prepare(request_of(user("stuck")), "r"))
    await asyncio.sleep(0.01)
    assert not preparing.done()
    release.set()
    await preparing
    pipeline.close()

"""The cost of a call, as reported to clients that request it and to operators."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from tests.engine.fakes import until
from tests.service.fakes import MODEL, rejection_of, request, rest_of, running
from tests.service.observability.test_observation import samples

ASKING = (("x-sluice-cost", "true"),)
FORM = re.compile(r"compute_s=(\d+\.\d{6}), block_s=(\d+\.\d{6}), cached_tokens=(\d+)")


async def cost_of(call: Any) -> str | None:
    """Return the cost in a call's trailers."""
    return dict(await call.trailing_metadata()).get("x-sluice-cost")


async def test_requested_cost_is_in_the_trailers() -> None:
    """Streamed and unstreamed calls report it; a repeated prompt is reported as cached, in whole blocks."""
    async with running() as run:
        whole = run.chat.Chat(request("tulips and roses"), metadata=ASKING)
        await whole
        found = FORM.fullmatch(await cost_of(whole) or "")
        assert found is not None
        assert float(found[1]) > 0
        assert float(found[2]) > 0
        assert found[3] == "0"
        stream = run.chat.StreamChat(request("tulips and roses"), metadata=ASKING)
        assert [event async for event in rest_of(stream)]
        found = FORM.fullmatch(await cost_of(stream) or "")
        assert found is not None
        assert int(found[3]) > 0


async def test_cost_is_not_sent_unless_requested() -> None:
    """A call without the metadata, or with another value than `true`, gets no cost."""
    async with running() as run:
        for metadata in ((), (("x-sluice-cost", "yes"),)):
            call = run.chat.Chat(request(), metadata=metadata)
            await call
            assert await cost_of(call) is None


async def test_failed_generation_reports_its_cost() -> None:
    """A failed generation reports the cost of the tokens computed so far."""
    async with running() as run:
        with run.runner.paused(after=2):
            call = run.chat.StreamChat(request(), metadata=ASKING)
            await call.read()
            await until(lambda: run.runner.num_steps == 2)
            run.runner.fail_with = ValueError()
        failure = await rejection_of(call)
    cost = dict(failure.error.trailing_metadata() or ())["x-sluice-cost"]
    assert FORM.fullmatch(str(cost))


@pytest.mark.slow
async def test_cost_is_in_span_metrics_and_access_log(caplog: pytest.LogCaptureFixture) -> None:
    """The span, the counters and the access log line report the same cost; the line also names the route."""
    with caplog.at_level(logging.INFO):
        async with running() as run:
            await run.chat.Chat(request("tulip"))
            spans = await run.ended_spans(5)
            (computed,) = samples(run, "sluice_server_compute_time_seconds_total").items()
            busy = samples(run, "sluice_engine_busy_time_seconds_total")
    span = dict(spans[f"chat {MODEL}"].attributes or {})
    (line,) = [vars(record)["fields"] for record in caplog.records if record.name == "sluice.access"]
    assert (line["endpoint"], line["entity"], line["completion_tokens"]) == (MODEL, MODEL, len("hello") + 1)
    assert line["compute_s"] == pytest.approx(span["sluice.cost.compute"], abs=1e-6)
    assert line["block_s"] == pytest.approx(span["sluice.cost.block"], abs=1e-6)
    labels, value = computed
    assert {("sluice_key", "anonymous"), ("gen_ai_request_model", MODEL)} < labels
    assert value == pytest.approx(span["sluice.cost.compute"])
    assert value == pytest.approx(sum(busy.values()), rel=0.01)

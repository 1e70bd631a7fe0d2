"""The newest names of the GenAI conventions: what a collector receives with and without the opt-in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sluice.v1 import sampling_pb2

from service.observability.inference_usage import is_opted_in
from tests.e2e.collector import Collector, value
from tests.service.fakes import MODEL, ScriptedRunner, rejection_of, request, running

PREFIX = "gen_ai.client.inference."
COMMON = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "sluice",
    "gen_ai.request.model": MODEL,
    "sluice.endpoint": MODEL,
    "sluice.entity": MODEL,
}
ANSWERED = COMMON | {"gen_ai.response.model": MODEL}
DOCS = (Path(__file__).parents[3] / "docs" / "operation" / "telemetry_names.md").read_text()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A listening collector."""
    found = Collector()
    yield found
    found.stop()


def attributes(point: Any) -> dict[str, object]:
    """Return the attributes of a data point."""
    return {each.key: value(each.value) for each in point.attributes}


def counted(collector: Collector) -> dict[str, dict[str, int]]:
    """Return the counters by name, and each by modality."""
    return {
        name.removeprefix(f"{PREFIX}usage."): {
            str(attributes(point)["gen_ai.token.modality"]): point.as_int for point in metric.sum.data_points
        }
        for name, metric in collector.metrics.items()
        if name.startswith(f"{PREFIX}usage.")
    }


@pytest.mark.slow
async def test_opted_in_process_exports_both_names(collector: Collector) -> None:
    """Counters add up cached, written and generated tokens over requests; each histogram has one value per request."""
    address = f"127.0.0.1:{collector.port}"
    async with running(ScriptedRunner("hello"), collector=address, newest_names=True) as run:
        for text in ("aaaabbbbcc", "aaaabbbbdddde"):  # blocks of four tokens
            await run.chat.Chat(request(text))
        spans = {
            dict(span.attributes or {}).get("gen_ai.usage.cache_write.input_tokens")
            for span in run.spans.get_finished_spans()
        }
    assert counted(collector) == {
        "input_tokens": {"text": 10 + 13},
        "output_tokens": {"text": 2 * (len("hello") + 1)},
        "cache_read.input_tokens": {"text": 8},
        "cache_write.input_tokens": {"text": 8 + 4},
        "reasoning.output_tokens": {"text": 0},
    }
    assert {8, 4} < spans
    for kind, total in (("input", 23), ("output", 12)):
        (point,) = collector.metrics[f"{PREFIX}operation.{kind}_tokens"].histogram.data_points
        assert (point.count, point.sum, attributes(point)) == (2, total, ANSWERED)
        assert list(point.explicit_bounds)[:3] == [1, 4, 16]
    today = collector.metrics["gen_ai.client.token.usage"].histogram.data_points
    assert {attributes(point)["gen_ai.token.type"]: point.sum for point in today} == {"input": 23, "output": 12}
    documented = set(re.findall(r"`(gen_ai\.client\.inference\.[\w.]+)`", DOCS))
    assert documented >= {name for name in collector.metrics if name.startswith(PREFIX)}


@pytest.mark.slow
async def test_choices_write_their_prompt_once(collector: Collector) -> None:
    """The choices of a request share the blocks of its prompt, and these are counted once."""
    async with running(collector=f"127.0.0.1:{collector.port}", newest_names=True) as run:
        await run.chat.Chat(request("aaaabbbbcc", n=3, stopping=sampling_pb2.StopParams(max_tokens=2)))
    assert counted(collector)["cache_write.input_tokens"] == {"text": 8}


@pytest.mark.slow
async def test_failed_request_counts_zero_tokens_of_unknown_modality(collector: Collector) -> None:
    """A request that fails before it is admitted is one operation without tokens, with the type of its error."""
    async with running(collector=f"127.0.0.1:{collector.port}", newest_names=True) as run:
        run.preparation.fail_with = ValueError()
        await rejection_of(run.chat.Chat(request()))
    assert {
        name: by_modality for name, by_modality in counted(collector).items() if by_modality != {"unknown": 0}
    } == {}
    (point,) = collector.metrics[f"{PREFIX}operation.input_tokens"].histogram.data_points
    assert (point.count, point.sum, attributes(point)) == (1, 0, COMMON | {"error.type": "ValueError"})


@pytest.mark.slow
async def test_process_without_the_opt_in_exports_only_todays_names(collector: Collector) -> None:
    """Neither metrics nor attributes of the newest names appear by default."""
    async with running(collector=f"127.0.0.1:{collector.port}") as run:
        await run.chat.Chat(request("tulip"))
        found = {key for span in run.spans.get_finished_spans() for key in span.attributes or {}}
    assert "gen_ai.client.token.usage" in collector.metrics
    assert not [name for name in collector.metrics if name.startswith(PREFIX)]
    assert "gen_ai.usage.cache_write.input_tokens" not in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, False),
        ("", False),
        ("http,database/dup", False),
        ("gen_ai_latest_experimental", True),
        ("http, gen_ai_latest_experimental/dup", True),
    ],
)
def test_opt_in_is_one_of_a_list_of_names(text: str | None, expected: bool) -> None:  # noqa: FBT001
    """Values for other conventions are ignored."""
    assert is_opted_in(text) is expected

"""Metrics under vLLM's names."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sluice.v1 import serving_pb2

from service.observability.vllm_names import TABLE, with_vllm_names
from tests.service.fakes import MODEL, Running, request, rest_of, running

OWN = {"model_name": MODEL, "engine": "0"}


def shown(run: Running) -> list[tuple[str, dict[str, str], float]]:
    """Return all samples on the metrics page."""
    text = generate_latest(with_vllm_names(run.telemetry.registry)).decode()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return [(sample.name, sample.labels, sample.value) for sample in samples]


@pytest.mark.slow
async def test_every_vllm_metric_exists() -> None:
    """After one answer, every metric exists with vLLM's labels."""
    apart = serving_pb2.ServingOptions(separate_tokens=True)  # the time between tokens is measured between outputs
    async with running() as run:
        async for _ in rest_of(run.chat.StreamChat(request("tulip", n=2, serving=apart))):
            pass
        found = shown(run)
    names = {name for name, *_ in found}
    for row in TABLE:
        suffix = {"gauge": "", "counter": "_total", "histogram": "_count"}[row.kind]
        assert f"{row.vllm}{suffix}" in names, row
    for name, labels, _ in found:
        if name.startswith("vllm:"):
            assert labels.items() >= OWN.items()
            assert labels.keys() <= {"model_name", "engine", "le", "finished_reason"}, name


@pytest.mark.slow
async def test_vllm_metrics_have_the_values_of_our_metrics() -> None:
    """Tokens by kind, the number of requests, and finish reasons are equal under both names."""
    async with running() as run:
        for _ in range(2):
            await run.chat.Chat(request("tulip"))
        found = shown(run)
    values = {(name, labels.get("finished_reason")): value for name, labels, value in found if "le" not in labels}
    assert values["vllm:prompt_tokens_total", None] == 2 * len("tulip")
    assert values["vllm:generation_tokens_total", None] == 2 * (len("hello") + 1)
    assert values["vllm:request_success_total", "stop"] == 2
    assert values["vllm:e2e_request_latency_seconds_count", None] == 2
    assert values["vllm:num_requests_running", None] == 0
    buckets = [value for name, labels, value in found if name == "vllm:e2e_request_latency_seconds_bucket"]
    assert buckets[-1] == 2
    assert buckets == sorted(buckets)

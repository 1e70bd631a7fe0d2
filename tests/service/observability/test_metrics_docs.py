"""docs/operation/metrics.md lists exactly the metrics of the service."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sluice.v1 import serving_pb2

from service.observability.vllm_names import TABLE
from tests.service.fakes import request, rest_of, running

DOCS = (Path(__file__).parents[3] / "docs" / "operation" / "metrics.md").read_text()
OWN = re.compile(r"(sluice|gen_ai|rpc)_|process_thread_count")
OF_PROCESSES = {
    "sluice_engine_process_memory_bytes",
    "sluice_engine_process_open_files",
    "sluice_engine_process_threads",
}
# With limits, with engine processes, with a store, and with models on demand.
ELSEWHERE = {
    "sluice_quota_refusals_total", "sluice_event_loop_tasks", "sluice_store_responses_total",
    "sluice_batch_requests_total", "sluice_model_loads_total", "sluice_model_unloads_total",
    "sluice_model_load_wait_seconds",
}  # fmt: skip


@pytest.mark.slow
async def test_documented_metrics_equal_the_services() -> None:
    """The table has each metric's type and its name in Prometheus."""
    section = DOCS.split("## Service metrics")[1].split("\n## ")[0]
    documented = dict(re.findall(r"^\| `(\w+)` \| (\w+) \|", section, re.MULTILINE))
    apart = serving_pb2.ServingOptions(separate_tokens=True)  # the time between tokens is measured between outputs
    async with running() as run:
        async for _ in rest_of(run.chat.StreamChat(request(serving=apart))):
            pass
        families = {
            f"{family.name}_total" if family.type == "counter" else family.name: family.type
            for family in run.telemetry.registry.collect()
            if OWN.match(family.name)
        }
    assert documented == families | {name: documented[name] for name in OF_PROCESSES | ELSEWHERE}


def test_documented_vllm_names_equal_the_codes() -> None:
    """The rows of the table are those of the code."""
    section = DOCS.split("## Under vLLM's names")[1].split("\n## ")[0]
    documented = re.findall(r"^\| `(vllm:\w+)` \| `(\w+)`", section, re.MULTILINE)
    suffixes = {"counter": "_total", "gauge": "", "histogram": ""}
    assert documented == [
        (f"{row.vllm}{suffixes[row.kind]}", row.sample or f"{row.name}{suffixes[row.kind]}") for row in TABLE
    ]

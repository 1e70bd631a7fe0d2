"""The metrics pages of service and gateway, as the processes serve them."""

import re
from pathlib import Path

import httpx

from service.observability.vllm_names import TABLE
from tests.e2e.stack import Stack
from tests.waiting import GUARD_S, wait_until

DOCS = (Path(__file__).parents[3] / "docs" / "operation" / "metrics.md").read_text()
BODY = {
    "model": "sluice-demo",
    "max_tokens": 300,
    "ignore_eos": True,
    "messages": [{"role": "user", "content": "Hello"}],
}
STORED = {"model": "sluice-demo", "max_output_tokens": 8, "input": "Hello", "store": True}


def names(section: str) -> set[str]:
    """Return the metrics of one of the document's tables."""
    return set(re.findall(r"^\| `(\w+)` \|", DOCS.split(f"## {section}")[1].split("\n## ")[0], re.MULTILINE))


def shown(url: str) -> set[str]:
    """Return the metric families of a page."""
    return set(re.findall(r"^# TYPE (\S+)", httpx.get(url, timeout=GUARD_S).text, re.MULTILINE))


def test_metrics_pages_have_every_documented_metric(stack: Stack) -> None:
    """After a stored response the pages have every documented metric of the service, vLLM and the gateway."""
    httpx.post(f"{stack.url}/v1/chat/completions", json=BODY, timeout=GUARD_S).raise_for_status()
    httpx.post(f"{stack.url}/v1/responses", json=STORED, timeout=GUARD_S).raise_for_status()
    with_settings = {  # with keys and limits, and with models on demand
        "sluice_quota_refusals_total",
        "sluice_model_loads_total",
        "sluice_model_unloads_total",
        "sluice_model_load_wait_seconds",
    }
    service = names("Service metrics") - with_settings
    service |= {row.vllm + ("_total" if row.kind == "counter" else "") for row in TABLE}
    gateway = names("Gateway metrics") | {"sluice_build_info"}

    def missing() -> set[str]:  # some are recorded only when the answer has been sent
        of_service = service - shown(f"http://127.0.0.1:{stack.ports['service_metrics']}/metrics")
        return of_service | (gateway - shown(f"{stack.gateway}/metrics"))

    wait_until(lambda: not missing(), missing)

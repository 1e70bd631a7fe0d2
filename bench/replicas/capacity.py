"""Measure a replica's throughput and the step time per request, from which its capacity is computed.

Run as `python -m bench.replicas.capacity`. The whole product runs on the bundled model, and `sluice bench` on the same
machine sends prompts and requests answers of 128 tokens: first 16 concurrent requests, from which the cost follows, and
then requests at random times, at fractions of the rate that this cost allows. "busy" is the share of time that the
engine spent in steps; a request's cost is this time divided by the number of requests, including those of the warm-up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.stack import Stack

MODEL = "sluice-demo"
AT_ONCE = 16
PARTS = (0.3, 0.5, 0.7, 0.9)
SECONDS = 8
WARM_UP = 4


def busy_s(stack: Stack) -> float:
    """Return the total time of all steps so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports['service_metrics']}/") as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "sluice_engine_busy_time_seconds_total" and sample.labels["gen_ai_request_model"] == MODEL
    )


def measure(stack: Stack, name: str, *load: str) -> float:
    """Print the row of one load; return the step time per request."""
    before = busy_s(stack)
    options = ["--url", stack.url, "-m", MODEL, "--warm-up", f"{WARM_UP}", "--seconds", f"{SECONDS}", "--json"]
    done = subprocess.run([sys.executable, "-m", "cli", "bench", *options, *load], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(done.stdout)
    cost_s: float = (busy_s(stack) - before) / (found["requests"] + WARM_UP)
    times = found["time_to_first_token_s"], found["time_per_output_token_s"]
    print(
        f"| {name} | {found['requests_per_s']:.1f} | {cost_s * found['requests_per_s']:.2f} | {1000 * cost_s:.1f} "
        f"| {' | '.join(f'{1000 * each[part]:.1f}' for each in times for part in ('p50', 'p95'))} |",
        flush=True,
    )
    return cost_s


def main() -> None:
    print("| load | requests/s | busy | cost of a request, ms | first token, p50, ms | p95 | a token, p50 | p95 |")
    print("|---|" + "--:|" * 7)
    stack = Stack()
    try:
        stack.wait_for("sluice is ready.")
        cost_s = measure(stack, f"{AT_ONCE} at once", "-c", f"{AT_ONCE}")
        for part in PARTS:
            rate = part / cost_s
            measure(stack, f"{part:g} ÷ cost = {rate:.1f} a second", "--rate", f"{rate:.2f}")
    finally:
        stack.stop()


if __name__ == "__main__":
    main()

"""What a replica serves, and what a request costs it in steps: the numbers that a capacity is computed from.

Run as `python -m bench.capacity`. The whole product on the bundled model, prompts and answers of 128 tokens, by
`sluice bench` on the same machine. Busy is the part of the time that the engine was in steps; a request's cost is that
time by the requests, those that warm up included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.stack import Stack

MODEL = "sluice-demo"
CONCURRENCIES = (1, 16, 64)
SECONDS = 9


def busy_s(stack: Stack) -> float:
    """Time of all steps so far."""
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports['service_metrics']}/") as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "sluice_engine_busy_time_seconds_total" and sample.labels["gen_ai_request_model"] == MODEL
    )


def main() -> None:
    print("| at once | requests/s | tokens/s | first token, p95, ms | busy | cost of a request, ms | 1 / cost |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    stack = Stack()
    try:
        stack.wait_for("sluice is ready.")
        for concurrency in CONCURRENCIES:
            before = busy_s(stack)
            options = ["--url", stack.door, "-m", MODEL, "-c", f"{concurrency}", "--warm-up", f"{concurrency}"]
            command = [sys.executable, "-m", "cli", "bench", *options, "--seconds", f"{SECONDS}", "--json"]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            spent_s = busy_s(stack) - before
            cost_s = spent_s / (found["requests"] + concurrency)
            print(
                f"| {concurrency} | {found['requests_per_s']:.1f} | {found['tokens_per_s']:.0f} "
                f"| {1000 * found['time_to_first_token_s']['p95']:.0f} | {cost_s * found['requests_per_s']:.2f} "
                f"| {1000 * cost_s:.1f} | {1 / cost_s:.1f} |",
                flush=True,
            )
    finally:
        stack.stop()


if __name__ == "__main__":
    main()

"""Load the whole product with mixed requests, and check for leaks: `python -m tests.soak MINUTES`.

The load has clients of every dialect and gRPC, streams and whole answers, tools, embeddings, invalid requests and
clients that disconnect, all through Envoy. Memory, descriptors, tasks, threads and blocks are read at the start, after
the warm-up (a third of the time) and at the end, each time without load. The exit code is 1 if one of them grew beyond
its tolerance, or if a request neither succeeded nor was rejected.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

from tests.e2e.stack import Stack
from tests.soak.load import Load
from tests.soak.readings import MEASURES, grown, read

SETTLE_S = 15.0  # until idle connections, threads and caches of the last requests are released


async def soak(stack: Stack, minutes: float, num_callers: int, seed: int) -> int:
    """Run the load, print the tables, and return the exit code."""
    pages = {
        "service": f"http://127.0.0.1:{stack.ports['service_metrics']}/metrics",
        "gateway": f"{stack.gateway}/metrics",
    }
    load = Load(stack.url, num_callers, leaving=0.2, num_kept=20, seed=seed)
    start = await asyncio.to_thread(read, pages)
    await loaded(load, minutes * 60 / 3)
    warm = await settled(stack, pages)
    await loaded(load, minutes * 60 * 2 / 3)
    end = await settled(stack, pages)
    print(table(start, warm, end))
    print(outcomes(load))
    faults = grown(warm, end) + [f"{kind}: {text} ({count} times)" for (kind, text), count in load.lost().items()]
    print("\n".join(faults) or f"{minutes:g} minutes: {load.outcomes.total()} requests, nothing lost and nothing grown")
    return int(bool(faults))


async def loaded(load: Load, duration_s: float) -> None:
    """Run the load for the given duration."""
    enough = asyncio.Event()
    running = asyncio.create_task(load.run(enough))
    await asyncio.wait({running}, timeout=duration_s)
    enough.set()
    await running


async def settled(stack: Stack, pages: dict[str, str]) -> dict[str, float]:
    """Return the readings without load."""
    await asyncio.to_thread(stack.until_idle)
    await asyncio.sleep(SETTLE_S)
    return await asyncio.to_thread(read, pages)


def table(start: dict[str, float], warm: dict[str, float], end: dict[str, float]) -> str:
    """Return the readings as a Markdown table."""
    lines = ["| | start | after warm-up | end | may grow by |", "|---|--:|--:|--:|--:|"]
    for each in MEASURES:
        values = " | ".join(f"{reading[each.name]:.0f}" for reading in (start, warm, end))
        lines.append(f"| {each.name} | {values} | {each.tolerance:g} |")
    return "\n".join(lines) + "\n"


def outcomes(load: Load) -> str:
    """Return the outcomes of each kind of request as a Markdown table."""
    lines = ["| kind | outcome | requests |", "|---|---|--:|"]
    lines += [f"| {kind} | {text} | {count} |" for (kind, text), count in sorted(load.outcomes.items())]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Start the product, run the soak test, and stop it."""
    parser = argparse.ArgumentParser(prog="soak", description="Mixed load on the whole product.")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--callers", type=int, default=12)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1000)
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    stack = Stack()
    try:
        stack.wait_for("sluice is ready.")
        return asyncio.run(soak(stack, chosen.minutes, chosen.callers, chosen.seed))
    finally:
        stack.stop()


if __name__ == "__main__":
    sys.exit(main())

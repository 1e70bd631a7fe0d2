"""Compare a gateway's calls to its service through Envoy with calls over a direct connection.

Run as `python -m bench.calls.inner_hop`.
Two gateways of one service with the bundled model take turns: one calls it through Envoy's inner listener, the other
directly, as with gRPC's own load balancing. The table has the median time of sequential chats of one token, and the CPU
time of all processes per token of 16 streams.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from pathlib import Path

import httpx

from tests.e2e.replicas import Replicas

CHAT = {"model": "sluice-demo", "messages": [{"role": "user", "content": "Tell me of a river."}], "temperature": 1}
STREAMS, TOKENS = 16, 128


def one_token(url: str) -> float:
    """Return the seconds of a chat of one token."""
    with httpx.Client(base_url=url, timeout=60) as http:
        http.get("/healthz")  # opens the connection
        began = time.perf_counter()
        http.post("/v1/chat/completions", json={**CHAT, "max_tokens": 1}).raise_for_status()
        return time.perf_counter() - began


async def streams(url: str) -> None:
    """Read concurrent streams to their end."""
    body = {**CHAT, "stream": True, "max_tokens": TOKENS, "ignore_eos": True}

    async def one(http: httpx.AsyncClient) -> None:
        async with http.stream("POST", "/v1/chat/completions", json=body) as answer:
            answer.raise_for_status()
            async for _ in answer.aiter_lines():
                pass

    async with httpx.AsyncClient(base_url=url, timeout=120) as http:
        await asyncio.gather(*(one(http) for _ in range(STREAMS)))


def processor_s(pids: list[int]) -> float:
    """Return the CPU seconds that the processes have used so far."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / 100


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    direct = {"gateway-2": "service-1"}
    with Replicas(num_services=1, targets=direct) as replicas:
        ways = {"through Envoy": "gateway-1", "directly": "gateway-2"}
        waits: dict[str, list[float]] = {way: [] for way in ways}
        costs: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(given.rounds):
            for way, gateway in ways.items():
                url = f"http://{replicas.address(gateway)}"
                waits[way] += [one_token(url) for _ in range(50)]
                before = processor_s(replicas.pids())
                asyncio.run(streams(url))
                costs[way].append((processor_s(replicas.pids()) - before) / (STREAMS * TOKENS))
    print("| | chat of one token, ms | CPU time per token, µs |")
    print("|---|--:|--:|")
    for way in ways:
        print(f"| {way} | {statistics.median(waits[way]) * 1e3:.1f} | {statistics.median(costs[way]) * 1e6:.0f} |")


if __name__ == "__main__":
    main()

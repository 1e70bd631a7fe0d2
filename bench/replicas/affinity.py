"""Measure prefix cache hits of conversations on several replicas, with and without affinity keys.

Run as `python -m bench.replicas.affinity`.
Several concurrent conversations run over REST through Envoy, two gateways, Envoy, and 1 or 3 services with the bundled
model. Every turn sends the whole conversation so far, after a system prompt that all share. The table has the share of
the later turns' prompt tokens that were cached, the share of later turns that found the whole previous prompt cached,
and the distribution of calls over the replicas. Without the key, Envoy balances by least requests.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from cli.bench.prompts import WORDS
from runner.proxy.envoy_config import connection_manager
from tests.e2e.replicas import Replicas

MODEL = "sluice-demo"
SYSTEM_WORDS, TURN_WORDS, ANSWER_TOKENS = 40, 30, 16


@dataclass
class Found:
    """Cache hits of the turns after the first."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    num_turns: int = 0
    num_whole: int = 0  # turns that found the whole previous prompt cached
    first_token_s: list[float] = field(default_factory=list)


def without_affinity(config: dict[str, Any]) -> None:
    """Remove the routes that balance by key."""
    for listener in config["static_resources"]["listeners"]:
        manager = connection_manager({"static_resources": {"listeners": [listener]}})
        (host,) = manager["route_config"]["virtual_hosts"]
        host["routes"] = [route for route in host["routes"] if not route["name"].endswith("-affinity")]


def with_bound(percent: int) -> Callable[[dict[str, Any]], None]:
    """Return a change that limits a replica's load to a percentage of the mean before its keys go to the next one."""

    def change(config: dict[str, Any]) -> None:
        for cluster in config["static_resources"]["clusters"]:
            if cluster["name"].endswith("-affinity"):
                cluster["common_lb_config"]["consistent_hashing_lb_config"]["hash_balance_factor"] = percent

    return change


async def converse(http: httpx.AsyncClient, number: int, num_turns: int, found: Found) -> None:
    """Run one conversation. A partial cache block, up to 16 tokens, may be lost at the end of a turn."""
    dice = random.Random(number)
    system = " ".join(random.Random("system").choices(WORDS, k=SYSTEM_WORDS))
    messages: list[dict[str, str]] = [{"role": "system", "content": system}]
    before = 0
    for turn in range(num_turns):
        messages.append({"role": "user", "content": " ".join(dice.choices(WORDS, k=TURN_WORDS))})
        body = {"model": MODEL, "messages": messages, "max_tokens": ANSWER_TOKENS, "temperature": 0}
        while True:
            began = time.perf_counter()
            answer = await http.post("/v1/chat/completions", json=body)
            if answer.status_code == 200:
                break
            await asyncio.sleep(0.2)
        usage = answer.json()["usage"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        if turn:
            found.prompt_tokens += usage["prompt_tokens"]
            found.cached_tokens += cached
            found.num_turns += 1
            found.num_whole += cached >= before - 16
            found.first_token_s.append(time.perf_counter() - began)
        before = usage["prompt_tokens"]
        messages.append({"role": "assistant", "content": answer.json()["choices"][0]["message"]["content"]})


async def load(door: str, num: int, num_turns: int, at_a_time: int) -> Found:
    """Run all conversations, `at_a_time` concurrently."""
    found, slots = Found(), asyncio.Semaphore(at_a_time)

    async def one(number: int) -> None:
        async with slots:
            await converse(http, number, num_turns, found)

    async with httpx.AsyncClient(base_url=door, timeout=120) as http:
        await asyncio.gather(*(one(number) for number in range(num)))
    return found


def measure(name: str, num_services: int, change: Callable[[dict[str, Any]], None], given: argparse.Namespace) -> None:
    """Measure and print one row of the table."""
    with Replicas(num_services=num_services, change=change) as replicas:
        found = asyncio.run(load(replicas.url, given.conversations, given.turns, given.at_a_time))
        calls = [count for each, count in replicas.num_calls().items() if each in replicas.services]
    cached, whole = found.cached_tokens / found.prompt_tokens, found.num_whole / found.num_turns
    spread = max(calls) / statistics.mean(calls)
    took = statistics.median(found.first_token_s) * 1000
    print(f"| {name} | {cached:.0%} | {whole:.0%} | {spread:.2f} | {took:.0f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=50)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--at-a-time", type=int, default=8)
    parser.add_argument("--bounds", type=int, nargs="*", default=[150], help="percent of the mean")
    given = parser.parse_args()
    print("| | cached prompt tokens | turns that found the previous one | busiest / mean replica | median turn, ms |")
    print("|---|--:|--:|--:|--:|")
    measure("1 replica", 1, lambda _: None, given)
    for percent in given.bounds:
        measure(f"3 replicas, by the key, at most {percent / 100:g} of the mean", 3, with_bound(percent), given)
    measure("3 replicas, least requests", 3, without_affinity, given)


if __name__ == "__main__":
    main()

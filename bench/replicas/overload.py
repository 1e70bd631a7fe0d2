"""Measure the server under overload: open-loop arrivals at multiples of its capacity, and another key's requests.

Run as `python -m bench.replicas.overload [--model demo|24m|0.5b] [--tokens N] [--lead-in S] [--seconds S] [--loads 0.5
1 2 4] [--flood N] [--target S] [--set KEY=VALUE …]`; a setting is the service's. The whole product is called through
Envoy with two keys. An answer is in time if it is complete within `--target` seconds, by default twice its time on an
idle server (the median of sequential answers); the number within that default is always printed. The capacity is the
answers per second of a burst that fills every slot, on a server that bounds neither waits nor the slowdown of decodes.
Arrivals are random (Poisson) and independent of earlier answers; there are no retries. Requests of the lead-in, during
which the server detects the overload, aren't counted.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import subprocess
import sys
import tempfile
from collections import abc
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import shapes
from bench.serving.requests import LOAD
from bench.serving.servers import ROOT, Server, command_of, serving
from cli.bench.prompts import WORDS

MODELS: dict[str, abc.Callable[[], Path]] = {
    "demo": shapes.demo_without_end,
    "24m": shapes.long_24m,
    "0.5b": shapes.qwen2_5_0_5b,
}
PROMPT_WORDS = 24
WAIT = "engine.max_queue_wait_s"
BOUNDS = (WAIT, "engine.max_decode_slowdown")
CLOSED = "connection lost"  # the load generator's error
LATE = 2.0  # an answer is late after this multiple of the unloaded time


class Bench:
    """A server, two keys, and prompts that were never sent before."""

    def __init__(self, server: Server, keys: dict[str, str], tokens: int) -> None:
        self._server = server
        self._keys = keys
        self._tokens = tokens
        self._draw = random.Random(12)

    def request(self, at: float, caller: str, prompt: str = "") -> dict[str, Any]:
        """Return a greedy chat that ends by its length, with a new prompt by default."""
        content = prompt or " ".join(self._draw.choices(WORDS, k=PROMPT_WORDS))
        body = {
            "model": "bench", "stream": True, "max_tokens": self._tokens, "temperature": 0,
            "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": content}],
        }  # fmt: skip
        return {"at": at, "body": body, "key": self._keys[caller]}

    def send(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Send the requests; return the outcome of each."""
        job = json.dumps({"port": self._server.command.port, "requests": requests})
        done = subprocess.run(LOAD, input=job, capture_output=True, text=True, check=True, cwd=ROOT)
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    def unloaded(self, num: int) -> float:
        """Return the median time of complete answers on an idle server, in seconds."""
        for _ in range(2):
            self.send([self.request(0.0, "polite")])
        times = [took(answer) for _ in range(num) for answer in self.send([self.request(0.0, "polite")])]
        return statistics.median(times)

    def capacity(self, num: int) -> float:
        """Return the answers per second of a burst, without rejected requests."""
        answers = [each for each in self.send([self.request(0.0, "flooder") for _ in range(num)]) if is_whole(each)]
        last: float = max(each["ended"] for each in answers)
        return len(answers) / last

    def arrivals(self, rate: float, seconds: float, caller: str) -> list[dict[str, Any]]:
        """Return requests at random times with a mean rate per second."""
        found, at = [], self._draw.expovariate(rate)
        while at < seconds:
            found.append(self.request(at, caller))
            at += self._draw.expovariate(rate)
        return found


def took(answer: dict[str, Any]) -> float:
    """Return the seconds from the request to its end."""
    return float(answer["ended"] - answer["sent"])


def is_whole(answer: dict[str, Any]) -> bool:
    """Return True if the answer is complete."""
    return "error" not in answer


def rejection_times(answers: abc.Iterable[dict[str, Any]]) -> list[float]:
    """Return the times of rejected requests, in seconds. Exits on any other error.

    Requests whose connection Envoy closed because of its limit of connections per address are left out.
    """
    rejected = [answer for answer in answers if not is_whole(answer) and not answer["error"].startswith(CLOSED)]
    for answer in rejected:
        if not answer["error"].startswith("HTTP 429") or not answer["retry_after"]:
            sys.exit(answer["error"])
    return [took(answer) for answer in rejected]


def at_percent(values: list[float], percent: int) -> str:
    """Return a percentile in milliseconds, or a dash for fewer than two values."""
    if len(values) < 2:
        return "-"
    return f"{1e3 * statistics.quantiles(values, n=100, method='inclusive')[percent - 1]:.0f}"


@dataclass(frozen=True)
class Load:
    """Arrivals at a multiple of the capacity, and their duration."""

    multiple: float
    seconds: float
    answers: list[dict[str, Any]]

    @property
    def whole(self) -> list[float]:
        """The times of complete answers, in seconds."""
        return [took(answer) for answer in self.answers if is_whole(answer)]

    def within(self, limit_s: float) -> float:
        """Return the complete answers per second that took at most `limit_s`."""
        return sum(time <= limit_s for time in self.whole) / self.seconds

    def row(self, unloaded_s: float, target_s: float, peak: float) -> str:
        """Return the row of the table."""
        rejected, whole = rejection_times(self.answers), self.whole
        closed = len(self.answers) - len(whole) - len(rejected)
        rates = [len(self.answers) / self.seconds, len(whole) / self.seconds, self.within(LATE * unloaded_s)]
        rates.append(self.within(target_s))
        cells = [f"{self.multiple:g}", *(f"{rate:.1f}" for rate in rates), f"{self.within(target_s) / peak:.2f}"]
        cells += [f"{closed / self.seconds:.1f}", f"{len(rejected) / self.seconds:.1f}"]
        cells += [at_percent(each, percent) for each in (whole, rejected) for percent in (50, 95)]
        return f"| {' | '.join(cells)} |"


def overload(bench: Bench, unloaded_s: float, capacity: float, options: argparse.Namespace) -> None:
    """Print one row per load."""
    target_s = options.target or LATE * unloaded_s
    heads = ["arrivals / capacity", "per second", "complete", f"within {LATE:g} times unloaded"]
    heads += [f"within {target_s:.2g} s", "relative to the peak", "closed", "rejected"]
    heads += [f"{what}, {which}, ms" for what in ("complete", "rejected") for which in ("median", "95 %")]
    print(f"| {' | '.join(heads)} |\n|{'--:|' * len(heads)}")
    sent = []
    for multiple in options.loads:
        requests = bench.arrivals(multiple * capacity, options.lead_in + options.seconds, "flooder")
        pairs = zip(requests, bench.send(requests), strict=True)
        counted = [answer for request, answer in pairs if request["at"] >= options.lead_in]
        sent.append(Load(multiple, options.seconds, counted))
    peak = max(load.within(target_s) for load in sent) or math.inf
    for load in sent:
        print(load.row(unloaded_s, target_s, peak))


def flood(bench: Bench, unloaded_s: float, capacity: float, size: int, seconds: float) -> None:
    """Print the latency of one key's sequential requests during another key's flood of the same duration."""
    polite = [bench.request(2 * unloaded_s * (1 + index), "polite") for index in range(int(seconds / unloaded_s / 2))]
    burst = [bench.request(0.0, "flooder") for _ in range(size)]
    answers = bench.send([*polite, *burst, *bench.arrivals(4 * capacity, seconds + 2 * unloaded_s, "flooder")])
    mine, theirs = answers[: len(polite)], answers[len(polite) :]
    times = [took(answer) for answer in mine if is_whole(answer)]
    print(
        f"\nA key with one request at a time, during {size} concurrent requests of another and then 4 times the "
        f"capacity: {len(mine)} sent, {len(rejection_times(mine))} rejected, median {at_percent(times, 50)} ms "
        f"({statistics.median(times) / unloaded_s:.2f} times the unloaded), 95 % {at_percent(times, 95)} ms; "
        f"the other: {sum(map(is_whole, theirs))} complete, {len(rejection_times(theirs))} rejected."
    )


def make_keys(folder: Path) -> dict[str, str]:
    """Create a keys file in the folder; return the keys by name."""
    keys = {}
    for name in ("polite", "flooder"):
        command = [sys.executable, "-m", "cli", "keys", "create", "--file", str(folder / "keys.yaml"), "--id", name]
        made = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
        keys[name] = json.loads(made.stdout)["key"]
    return keys


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="demo")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--lead-in", type=float, default=6)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--target", type=float)
    parser.add_argument("--loads", nargs="*", type=float, default=[0.5, 1, 2, 4])
    parser.add_argument("--burst", type=int, default=64)
    parser.add_argument("--flood", type=int, default=160)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-overload-") as folder:
        keys = make_keys(Path(folder))
        settings = [f"auth.keys_file={folder}/keys.yaml", *options.set]
        unbounded = [each for each in settings if not each.startswith(BOUNDS)] + [f"{WAIT}=600"]
        model = MODELS[options.model]()
        with serving(command_of("sluice:" + ",".join(unbounded), model, 0)) as server:
            bench = Bench(server, keys, options.tokens)
            unloaded_s = bench.unloaded(11)
            capacity = bench.capacity(options.burst)
        with serving(command_of("sluice:" + ",".join(settings), model, 0)) as server:
            bench = Bench(server, keys, options.tokens)
            bench.unloaded(5)
            print(
                f"{options.model}, answers of {options.tokens} tokens, {' '.join(options.set) or 'default settings'}: "
            )
            print(f"unloaded {1e3 * unloaded_s:.0f} ms, capacity {capacity:.1f} answers per second\n", flush=True)
            if options.loads:
                overload(bench, unloaded_s, capacity, options)
            if options.flood:
                flood(bench, unloaded_s, capacity, options.flood, options.seconds)


if __name__ == "__main__":
    main()

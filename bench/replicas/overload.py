"""What comes of more than the server can do: open-loop arrivals at multiples of its capacity, and a polite key beside.

Run as `python -m bench.replicas.overload [--model demo|24m|0.5b] [--tokens N] [--lead-in S] [--seconds S] [--loads 0.5
1 2 4] [--flood N] [--target S] [--set KEY=VALUE …]`; a setting is the service's. The whole product through Envoy, with
two keys. An answer is in time if it is whole within `--target` seconds, by default twice the time that it takes on an
idle server (the median of some, one after the other); how many were within that is told in any case. The capacity is
how many answers a second a burst has that fills every place and may wait, both by a server that bounds neither waits
nor the slowdown of decodes. Arrivals are random (Poisson), whatever comes of those before; nobody tries again. Those of
the lead-in, in which the server finds out that it has too much to do, aren't counted.
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
CLOSED = "connection lost"  # as the load tells it
LATE = 2.0  # times the unloaded time, after which an answer is none


class Bench:
    """A server, two keys, and prompts that nobody sent before."""

    def __init__(self, server: Server, keys: dict[str, str], tokens: int) -> None:
        self._server = server
        self._keys = keys
        self._tokens = tokens
        self._draw = random.Random(12)

    def request(self, at: float, caller: str, prompt: str = "") -> dict[str, Any]:
        """A greedy chat that ends by its length; without a prompt of a new one."""
        content = prompt or " ".join(self._draw.choices(WORDS, k=PROMPT_WORDS))
        body = {
            "model": "bench", "stream": True, "max_tokens": self._tokens, "temperature": 0,
            "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": content}],
        }  # fmt: skip
        return {"at": at, "body": body, "key": self._keys[caller]}

    def send(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What came of each."""
        job = json.dumps({"port": self._server.command.port, "requests": requests})
        done = subprocess.run(LOAD, input=job, capture_output=True, text=True, check=True, cwd=ROOT)
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    def unloaded(self, num: int) -> float:
        """The median time of whole answers on an idle server, in seconds."""
        for _ in range(2):
            self.send([self.request(0.0, "polite")])
        times = [took(answer) for _ in range(num) for answer in self.send([self.request(0.0, "polite")])]
        return statistics.median(times)

    def capacity(self, num: int) -> float:
        """Answers a second of a burst; what is refused doesn't count."""
        answers = [each for each in self.send([self.request(0.0, "flooder") for _ in range(num)]) if is_whole(each)]
        last: float = max(each["ended"] for each in answers)
        return len(answers) / last

    def arrivals(self, rate: float, seconds: float, caller: str) -> list[dict[str, Any]]:
        """Requests at random instants, so many a second."""
        found, at = [], self._draw.expovariate(rate)
        while at < seconds:
            found.append(self.request(at, caller))
            at += self._draw.expovariate(rate)
        return found


def took(answer: dict[str, Any]) -> float:
    """Seconds from the request to its end."""
    return float(answer["ended"] - answer["sent"])


def is_whole(answer: dict[str, Any]) -> bool:
    """Whether it was served to its end."""
    return "error" not in answer


def refusals(answers: abc.Iterable[dict[str, Any]]) -> list[float]:
    """The times of those that were refused, in seconds. Exits at another error.

    Without those whose connection Envoy closed, one above what an address may have open.
    """
    refused = [answer for answer in answers if not is_whole(answer) and not answer["error"].startswith(CLOSED)]
    for answer in refused:
        if not answer["error"].startswith("HTTP 429") or not answer["retry_after"]:
            sys.exit(answer["error"])
    return [took(answer) for answer in refused]


def at_percent(values: list[float], percent: int) -> str:
    """Milliseconds, or a dash without any."""
    if len(values) < 2:
        return "-"
    return f"{1e3 * statistics.quantiles(values, n=100, method='inclusive')[percent - 1]:.0f}"


@dataclass(frozen=True)
class Load:
    """Arrivals at a multiple of the capacity, and for how long."""

    multiple: float
    seconds: float
    answers: list[dict[str, Any]]

    @property
    def whole(self) -> list[float]:
        """The times of whole answers."""
        return [took(answer) for answer in self.answers if is_whole(answer)]

    def within(self, limit_s: float) -> float:
        """Whole answers a second that took no longer."""
        return sum(time <= limit_s for time in self.whole) / self.seconds

    def line(self, unloaded_s: float, target_s: float, peak: float) -> str:
        """The table's."""
        refused, whole = refusals(self.answers), self.whole
        closed = len(self.answers) - len(whole) - len(refused)
        rates = [len(self.answers) / self.seconds, len(whole) / self.seconds, self.within(LATE * unloaded_s)]
        rates.append(self.within(target_s))
        told = [f"{self.multiple:g}", *(f"{rate:.1f}" for rate in rates), f"{self.within(target_s) / peak:.2f}"]
        told += [f"{closed / self.seconds:.1f}", f"{len(refused) / self.seconds:.1f}"]
        told += [at_percent(each, percent) for each in (whole, refused) for percent in (50, 95)]
        return f"| {' | '.join(told)} |"


def overload(bench: Bench, unloaded_s: float, capacity: float, options: argparse.Namespace) -> None:
    """Print a line a load."""
    target_s = options.target or LATE * unloaded_s
    heads = ["arrivals / capacity", "a second", "whole", f"within {LATE:g} times unloaded", f"within {target_s:.2g} s"]
    heads += ["of the peak's", "closed", "refused"]
    heads += [f"{what}, {which}, ms" for what in ("whole", "refused") for which in ("median", "95 %")]
    print(f"| {' | '.join(heads)} |\n|{'--:|' * len(heads)}")
    sent = []
    for multiple in options.loads:
        requests = bench.arrivals(multiple * capacity, options.lead_in + options.seconds, "flooder")
        pairs = zip(requests, bench.send(requests), strict=True)
        counted = [answer for request, answer in pairs if request["at"] >= options.lead_in]
        sent.append(Load(multiple, options.seconds, counted))
    peak = max(load.within(target_s) for load in sent) or math.inf
    for load in sent:
        print(load.line(unloaded_s, target_s, peak))


def flood(bench: Bench, unloaded_s: float, capacity: float, size: int, seconds: float) -> None:
    """Print how one key's requests, one at a time, fare beside another's flood that goes on for as long."""
    polite = [bench.request(2 * unloaded_s * (1 + index), "polite") for index in range(int(seconds / unloaded_s / 2))]
    crowd = [bench.request(0.0, "flooder") for _ in range(size)]
    answers = bench.send([*polite, *crowd, *bench.arrivals(4 * capacity, seconds + 2 * unloaded_s, "flooder")])
    mine, theirs = answers[: len(polite)], answers[len(polite) :]
    times = [took(answer) for answer in mine if is_whole(answer)]
    print(
        f"\nA key with one request at a time beside {size} at once of another, and then 4 times the capacity: "
        f"{len(mine)} asked, {len(refusals(mine))} refused, median {at_percent(times, 50)} ms "
        f"({statistics.median(times) / unloaded_s:.2f} times the unloaded), 95 % {at_percent(times, 95)} ms; "
        f"the other: {sum(map(is_whole, theirs))} whole, {len(refusals(theirs))} refused."
    )


def make_keys(folder: Path) -> dict[str, str]:
    """A keys file in the folder; the keys by their names."""
    keys = {}
    for name in ("polite", "flooder"):
        command = [sys.executable, "-m", "cli", "keys", "create", "--file", str(folder / "keys.yaml"), "--id", name]
        made = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
        keys[name] = json.loads(made.stdout)["key"]
    return keys


def main() -> None:
    """Print what was measured."""
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
            print(f"unloaded {1e3 * unloaded_s:.0f} ms, capacity {capacity:.1f} answers a second\n", flush=True)
            if options.loads:
                overload(bench, unloaded_s, capacity, options)
            if options.flood:
                flood(bench, unloaded_s, capacity, options.flood, options.seconds)


if __name__ == "__main__":
    main()

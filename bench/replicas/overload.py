"""Measure the server under overload: random arrivals at multiples of its capacity, and callers that come back at once.

Run as `python -m bench.replicas.overload [--model demo|0.5b] [--tokens N] [--lead-in S] [--seconds S] [--loads 0.5 1 2
4 8] [--callers 200 500 2000] [--set KEY=VALUE …]`; a setting is the service's. The whole product is called through
Envoy, with a connection for each request, from twenty addresses without a key. An answer is in time if it is whole
within twice its time on an idle server, the median of sequential answers. The capacity is the number of whole answers
per second that 32 callers get who come back at once, measured before the other loads. Requests of the lead-in, in which
overload begins, aren't counted.

Then a key sends one request after another, while those of a second key come back at once. The last table has the
processor time of each process for each rejection, during the load with the most of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import abc
from pathlib import Path
from typing import Any

from bench import shapes
from bench.serving.servers import ROOT, Server, command_of, serving

MODELS: dict[str, abc.Callable[[], Path]] = {"demo": shapes.demo_without_end, "0.5b": shapes.qwen2_5_0_5b}
LATE = 2.0  # an answer is late after this multiple of the unloaded time
GENERATOR = [sys.executable, "-m", "bench.replicas.open_load"]
Outcomes = list[dict[str, Any]]


class Bench:
    """A server, and loads of it."""

    def __init__(self, server: Server, options: argparse.Namespace) -> None:
        self.server = server
        self._options = options

    def start(self, *keys: str, seconds: float, lead_in_s: float = 0.0, **load: float) -> subprocess.Popen[str]:
        """Start to send a load with these keys in turn: a `rate`, or a number of `callers`."""
        job = {"port": self.server.command.port, "keys": keys or [""], "tokens": self._options.tokens, **load}
        job |= {"seconds": seconds, "lead_in_s": lead_in_s}
        with tempfile.TemporaryFile("w+") as given:
            json.dump(job, given)
            given.seek(0)
            return subprocess.Popen(GENERATOR, stdin=given, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def counted(self, **load: float) -> Outcomes:
        """Send a load with a lead-in; return the outcomes."""
        return outcomes(self.start(seconds=self._options.seconds, lead_in_s=self._options.lead_in, **load))

    def unloaded_s(self, *keys: str) -> float:
        """Return the median time of one answer after another on an idle server."""
        outcomes(self.start(*keys, seconds=1, callers=1))
        return statistics.median(times(outcomes(self.start(*keys, seconds=3, callers=1))))


def outcomes(process: subprocess.Popen[str]) -> Outcomes:
    """Wait for a load and return its outcomes."""
    found: Outcomes = json.loads(process.communicate()[0])
    return found


def times(answers: Outcomes) -> list[float]:
    """Return the times of whole answers."""
    return [each["took_s"] for each in answers if each["is_whole"]]


def percentile(values: list[float], percent: int) -> str:
    """Return a percentile in milliseconds, or a dash for fewer than two values."""
    if len(values) < 2:
        return "-"
    return f"{1e3 * statistics.quantiles(values, n=100, method='inclusive')[percent - 1]:.0f}"


def print_row(name: str, answers: Outcomes, unloaded_s: float, seconds: float) -> None:
    """Print the row of one load."""
    whole, rejected = times(answers), [each for each in answers if each["status"] in {429, 503}]
    waits = [each["took_s"] for each in rejected]
    firsts = [each["first_s"] for each in answers if each["is_whole"]]
    by_envoy = sum(each["source"] == "envoy" for each in rejected)
    others = len(answers) - len(whole) - sum(each["has_retry"] for each in rejected)
    in_time = sum(time <= LATE * unloaded_s for time in whole)
    rates = [f"{count / seconds:.1f}" for count in (len(answers), len(whole), in_time, len(rejected))]
    cells = [*rates[:3], percentile(whole, 50), percentile(whole, 95), percentile(firsts, 95), rates[3]]
    cells += [f"{by_envoy / max(len(rejected), 1):.2f}", percentile(waits, 50), percentile(waits, 99), str(others)]
    cells.append(percentile([each["late_s"] for each in answers], 99))
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def print_polite(bench: Bench, keys: dict[str, str], num_callers: int, seconds: float) -> None:
    """Print how one key's sequential requests fare while another key's callers come back at once."""
    alone_s = bench.unloaded_s(keys["polite"])
    flood = bench.start(keys["flood"], seconds=seconds, callers=num_callers)
    answers = outcomes(bench.start(keys["polite"], seconds=seconds - 1, callers=1))
    whole, theirs = times(answers), outcomes(flood)
    print(
        f"| {num_callers} | {len(whole)} | {len(answers) - len(whole)} | {percentile(whole, 50)} "
        f"| {statistics.median(whole) / alone_s:.1f} | {len(times(theirs))} | {len(theirs) - len(times(theirs))} |",
        flush=True,
    )


def processor_s(server: Server) -> dict[str, float]:
    """Return the processor time of each of the server's processes, by its name."""
    found: dict[str, float] = {}
    for pid in server.processes():
        line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        names = {"envoy -c": "Envoy", "-m gateway": "gateway", "-m service ": "service", "link.worker": "engine"}
        name = next((name for part, name in names.items() if part in line and "front_door" not in line), "")
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[name] = found.get(name, 0.0) + (int(fields[11]) + int(fields[12])) / 100
    return found


def make_keys(folder: Path) -> dict[str, str]:
    """Create a keys file in the folder; return the keys by name."""
    keys = {}
    for name in ("polite", "flood"):
        command = [sys.executable, "-m", "cli", "keys", "create", "--file", str(folder / "keys.yaml"), "--id", name]
        made = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=True)
        keys[name] = json.loads(made.stdout)["key"]
    return keys


def without_keys(server: Server, options: argparse.Namespace) -> None:
    """Print the tables of loads without a key, and of the processor time of rejections."""
    bench = Bench(server, options)
    unloaded_s = bench.unloaded_s()
    burst = outcomes(bench.start(seconds=options.seconds, lead_in_s=2, callers=32))
    capacity = len(times(burst)) / options.seconds
    print(f"{options.model}, answers of {options.tokens} tokens, {' '.join(options.set) or 'default settings'}:")
    print(f"unloaded {1e3 * unloaded_s:.0f} ms, capacity {capacity:.1f} answers per second\n")
    heads = ["load", "per second", "whole", f"within {LATE:g} times unloaded", "answered, median, ms", "95 %"]
    heads += ["first token, 95 %", "rejected", "by Envoy", "rejected, median, ms", "99 %", "neither", "generator late"]
    print(f"| {' | '.join(heads)} |\n|{'--:|' * len(heads)}")
    most, cost = 0, ""
    loads = [(f"{multiple:g} times", {"rate": multiple * capacity}) for multiple in options.loads]
    loads += [(f"{number} callers", {"callers": number}) for number in options.callers]
    for name, load in loads:
        before = processor_s(server)
        answers = bench.counted(**load)
        after = processor_s(server)
        print_row(name, answers, unloaded_s, options.seconds)
        num_rejected = sum(each["status"] in {429, 503} for each in answers)
        if num_rejected > most:
            share = options.seconds / (options.seconds + options.lead_in)
            spent = {key: 1e6 * share * (after[key] - before[key]) / num_rejected for key in before if key}
            most, cost = num_rejected, ", ".join(f"{key} {value:.0f}" for key, value in spent.items())
            cost = f"{name}: {num_rejected} rejected; µs of each process per rejection, with all other work: {cost}"
    print(f"\n{cost}\n", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="demo")
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--lead-in", type=float, default=6)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--loads", nargs="*", type=float, default=[0.5, 0.8, 1, 2, 4, 8])
    parser.add_argument("--callers", nargs="*", type=int, default=[200, 500, 2000])
    parser.add_argument("--floods", nargs="*", type=int, default=[16, 48, 120])
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    model = MODELS[options.model]()
    with serving(command_of("sluice:" + ",".join(options.set), model, 0)) as server:
        without_keys(server, options)
    with tempfile.TemporaryDirectory(prefix="sluice-overload-") as folder:
        keys = make_keys(Path(folder))
        settings = [f"auth.keys_file={folder}/keys.yaml", *options.set]
        print("| callers of another key | answered | rejected | median, ms | times the unloaded | theirs | rejected |")
        print("|--:|--:|--:|--:|--:|--:|--:|")
        for number in options.floods:
            with serving(command_of("sluice:" + ",".join(settings), model, 0)) as server:
                print_polite(Bench(server, options), keys, number, options.seconds)


if __name__ == "__main__":
    main()

"""Measure the server under overload: random arrivals at multiples of its capacity, and closed-loop callers.

Run as `python -m bench.replicas.overload [--models demo 0.5b] [--servers sluice llama.cpp transformers] [--loads 0.5 1
2 4 8] [--callers 200 500 2000] [--addresses 20 1] [--floods 16 48 120] [--lead-in 12] [--seconds 16]`; a server may
have settings, as in `sluice:KEY=VALUE`. The whole product is called through Envoy, with a connection for each request,
from twenty addresses without a key. A closed-loop caller sends its next request as soon as the previous one ends. An
answer is in time if it is complete within twice its time on an idle server, the median of sequential answers. The
capacity is the number of complete answers per second that 32 closed-loop callers get, measured before the other loads.
Complete answers are those that end in the counted time. Requests of the lead-in, in which overload begins, aren't
counted otherwise. "Normal after" is the time from the end of the load until another client sent a request that was
answered in time.

Then a key sends one request after another, alongside closed-loop callers of a second key. The last table has the
processor time of each process for each rejection, during the load with the most of them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections import abc
from pathlib import Path
from typing import Any, NamedTuple

from bench import shapes
from bench.serving.servers import ROOT, Server, command_of, serving


class Model(NamedTuple):
    """A model to measure: the tokens of its answers, and the seconds of the lead-in and of the counted time."""

    folder: abc.Callable[[], Path]
    tokens: int
    lead_in_s: float
    seconds: float


MODELS = {"demo": Model(shapes.demo_without_end, 100, 6, 8), "0.5b": Model(shapes.qwen2_5_0_5b, 32, 12, 24)}
SLOTS = 64  # of other servers; this server's default
LATE = 2.0  # an answer is late after this multiple of the unloaded time
GENERATOR = [sys.executable, "-m", "bench.replicas.open_load"]
Outcomes = list[dict[str, Any]]


class Bench:
    """A server and the loads that are sent to it."""

    def __init__(self, server: Server, model: Model) -> None:
        self.server = server
        self.model = model

    def start(self, *keys: str, seconds: float, lead_in_s: float = 0.0, **load: float) -> subprocess.Popen[str]:
        """Start to send a load with these keys in turn: a `rate`, or a number of `callers`."""
        command = self.server.command
        job = {"port": command.port, "model": command.model, "fields": command.fields, "keys": keys or [""], **load}
        job |= {"tokens": self.model.tokens, "seconds": seconds, "lead_in_s": lead_in_s}
        with tempfile.TemporaryFile("w+") as given:
            json.dump(job, given)
            given.seek(0)
            return subprocess.Popen(GENERATOR, stdin=given, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def counted(self, **load: float) -> Outcomes:
        """Send a load with a lead-in; return the outcomes."""
        return outcomes(self.start(seconds=self.model.seconds, lead_in_s=self.model.lead_in_s, **load))

    def num_ended(self, answers: Outcomes) -> int:
        """Return the number of whole answers that ended in the counted time."""
        began, until = self.model.lead_in_s, self.model.lead_in_s + self.model.seconds
        answers = [each for each in answers if not each["is_probe"]]
        return sum(each["is_whole"] and began <= each["sent"] + each["took_s"] < until for each in answers)

    def unloaded_s(self, *keys: str) -> float:
        """Return the median time of one answer after another on an idle server."""
        outcomes(self.start(*keys, seconds=1, callers=1))
        return statistics.median(times(outcomes(self.start(*keys, seconds=3, callers=1))))


def recovery_s(answers: Outcomes, bench: Bench, unloaded_s: float) -> float:
    """Return the time from the end of the load until a request was sent whose answer is in time, by the probes."""
    end = bench.model.lead_in_s + bench.model.seconds
    return next(
        (max(each["sent"] - end, 0.0) for each in answers if each["is_whole"] and each["took_s"] <= LATE * unloaded_s),
        math.inf,
    )


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


def print_row(name: str, bench: Bench, answers: Outcomes, unloaded_s: float) -> None:
    """Print the row of one load."""
    seconds = bench.model.seconds
    num_ended = bench.num_ended(answers)
    normal_s = recovery_s([each for each in answers if each["is_probe"]], bench, unloaded_s)
    answers = [each for each in answers if each["due"] >= bench.model.lead_in_s and not each["is_probe"]]
    whole, rejected = times(answers), [each for each in answers if each["status"] in {429, 503}]
    waits = [each["took_s"] for each in rejected]
    firsts = [each["first_s"] for each in answers if each["is_whole"]]
    by_envoy = sum(each["source"] == "envoy" for each in rejected)
    others = len(answers) - len(whole) - sum(each["has_retry"] for each in rejected)
    in_time = sum(time <= LATE * unloaded_s for time in whole)
    rates = [f"{count / seconds:.1f}" for count in (len(answers), num_ended, in_time, len(rejected))]
    cells = [*rates[:3], percentile(whole, 50), percentile(whole, 95), percentile(firsts, 95), rates[3]]
    cells += [f"{by_envoy / max(len(rejected), 1):.2f}", percentile(waits, 50), percentile(waits, 99), str(others)]
    cells += [f"{normal_s:.1f}", percentile([each["late_s"] for each in answers], 99)]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def print_polite(bench: Bench, keys: dict[str, str], num_callers: int, seconds: float) -> None:
    """Print the times of one key's sequential requests alongside another key's closed-loop callers."""
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


def without_keys(name: str, bench: Bench, options: argparse.Namespace) -> None:
    """Print the tables of loads without a key, and of the processor time of rejections."""
    unloaded_s = bench.unloaded_s()
    capacity = bench.num_ended(bench.counted(callers=32)) / bench.model.seconds
    print(f"{name}, answers of {bench.model.tokens} tokens:")
    print(f"unloaded {1e3 * unloaded_s:.0f} ms, capacity {capacity:.1f} answers per second\n")
    heads = ["load", "per second", "whole", f"within {LATE:g} times unloaded", "answered, median, ms", "95 %"]
    heads += ["first token, 95 %", "rejected", "by Envoy", "rejected, median, ms", "99 %", "neither", "normal after, s"]
    heads.append("generator late")
    print(f"| {' | '.join(heads)} |\n|{'--:|' * len(heads)}")
    most, cost = 0, ""
    loads = [(f"{multiple:g} times", {"rate": multiple * capacity}) for multiple in options.loads]
    for number, addresses in itertools.product(options.callers, options.addresses):
        loads.append((f"{number} callers, {addresses} addresses", {"callers": number, "addresses": addresses}))
    for load_name, load in loads:
        before = processor_s(bench.server)
        answers = bench.counted(**load, in_time_s=LATE * unloaded_s)
        after = processor_s(bench.server)
        print_row(load_name, bench, answers, unloaded_s)
        num_rejected = sum(each["status"] in {429, 503} for each in answers)
        if num_rejected > most:
            spent = {key: 1e6 * (after[key] - before[key]) / num_rejected for key in before if key}
            most, cost = num_rejected, ", ".join(f"{key} {value:.0f}" for key, value in spent.items())
            cost = f"{load_name}: {num_rejected} rejected; µs of each process per rejection, with other work: {cost}"
    print(f"\n{cost}\n" if cost else "", flush=True)


def with_keys(model: Model, settings: list[str], options: argparse.Namespace) -> None:
    """Print the table of one key's requests during a flood of another key's."""
    with tempfile.TemporaryDirectory(prefix="sluice-overload-") as folder:
        keys = make_keys(Path(folder))
        settings = [f"auth.keys_file={folder}/keys.yaml", *settings]
        print("| callers of another key | answered | rejected | median, ms | times the unloaded | theirs | rejected |")
        print("|--:|--:|--:|--:|--:|--:|--:|")
        for number in options.floods:
            with serving(command_of("sluice:" + ",".join(settings), model.folder(), 0)) as server:
                print_polite(Bench(server, model), keys, number, model.seconds)
        print(flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["demo"])
    parser.add_argument("--servers", nargs="+", default=["sluice"], metavar="NAME[:KEY=VALUE,…]")
    parser.add_argument("--loads", nargs="*", type=float, default=[0.5, 0.8, 1, 2, 4, 8])
    parser.add_argument("--callers", nargs="*", type=int, default=[200, 500, 2000])
    parser.add_argument("--addresses", nargs="*", type=int, default=[20], help="of the callers, at most 20")
    parser.add_argument("--floods", nargs="*", type=int, default=[16, 48, 120])
    parser.add_argument("--lead-in", type=float, help="seconds of the lead-in, 6 for demo and 12 for 0.5b by default")
    parser.add_argument("--seconds", type=float, help="the counted seconds, 8 for demo and 24 for 0.5b by default")
    options = parser.parse_args()
    for model_name in options.models:
        model = MODELS[model_name]
        lead_in_s, seconds = options.lead_in or model.lead_in_s, options.seconds or model.seconds
        model = model._replace(lead_in_s=lead_in_s, seconds=seconds)
        for name in options.servers:
            with serving(command_of(name, model.folder(), SLOTS)) as server:
                without_keys(f"{model_name}, {name}", Bench(server, model), options)
            kind, _, settings = name.partition(":")
            if kind == "sluice" and options.floods:
                with_keys(model, settings.split(",") if settings else [], options)


if __name__ == "__main__":
    main()

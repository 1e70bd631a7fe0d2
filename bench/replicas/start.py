"""Start the product as `make run` does, and print the time that each part takes and the memory when idle.

Usage: .venv/bin/python -m bench.replicas.start [--rounds 5] [--model NAME=FOLDER] [-- OPTIONS OF THE RUNNER]

Seconds are from the command until the service listens, each model is ready (by its log), the service serves, the
gateway's /readyz answers, and an answer is received through Envoy. Memory is that of each process two seconds later,
without further requests: its resident set, and its proportional set, in which a page shared by n processes counts 1 / n
for each, so that the sizes can be added. "process" is a process that the service started, such as an engine's worker.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PORTS = ("envoy", "envoy-admin", "gateway", "service", "service-metrics")
IDLE_S = 2.0
POLL_S = 0.05
GIVE_UP_S = 300.0
MIB = 1 << 20


def free_ports(count: int) -> list[int]:
    """Return different ports that are free now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class Run:
    """One run of the runner, with the times of events in seconds after the command."""

    def __init__(self, options: list[str], model: str) -> None:
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.seconds: dict[str, float] = {}
        self.log: list[str] = []
        self._model = model
        self._folder = tempfile.TemporaryDirectory(prefix="sluice-start-")
        flags = [f"--{name}-port={port}" for name, port in self.ports.items()]
        flags.append(f"--state-folder={self._folder.name}")
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "runner", *flags, *options],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def until_answered(self) -> None:
        """Return when a chat has been answered."""
        gateway = threading.Thread(target=self._until, args=("gateway is ready", self._is_ready))
        gateway.start()
        self._until("first answer", self._is_answered)
        gateway.join()

    def stop(self) -> None:
        """Send SIGINT, as Ctrl-C does, and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self._reader.join()
        self._folder.cleanup()

    def _mark(self, what: str) -> None:
        self.seconds.setdefault(what, time.monotonic() - self._began)

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.log.append(line)
            name, _, text = line.partition("| ")
            if name.strip() == "service" and text.startswith("{"):
                record = json.loads(text)
                if record["message"] in {"listening", "serving"}:
                    self._mark(f"service is {record['message']}")
                elif record["message"] == "model is ready":
                    self._mark(f"{record['model']} is ready")

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        while not is_so():
            if self.process.poll() is not None or time.monotonic() - self._began > GIVE_UP_S:
                sys.exit("".join(self.log))
            time.sleep(POLL_S)
        self._mark(what)

    def _is_ready(self) -> bool:
        return _answers(f"http://127.0.0.1:{self.ports['gateway']}/readyz")

    def _is_answered(self) -> bool:
        body = {"model": self._model, "max_tokens": 1, "messages": [{"role": "user", "content": "Hello!"}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports['envoy']}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        return _answers(request)


def _answers(request: str | urllib.request.Request) -> bool:
    try:
        with urllib.request.urlopen(request, timeout=60):  # noqa: S310  always http
            return True
    except OSError:
        return False


def family(pid: int) -> Iterator[int]:
    """Yield the ids of a process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


def memory(pid: int) -> tuple[str, float, float, float]:
    """Return a process's name, its proportional and resident set in MiB, and its CPU seconds."""
    command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    rollup = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    share, resident = (int(rollup[key].split()[0]) * 1024 / MIB for key in ("Pss", "Rss"))
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    known = {"service": "service", "gateway": "gateway", "runner": "runner", "-c": "envoy"}
    name = next((known[part] for part in command[1:3] if part in known), "process")
    return name, share, resident, sum(map(int, times)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", help="NAME=FOLDER instead of the bundled models")
    parser.add_argument("options", nargs="*", help="further options of the runner")
    options = parser.parse_args()
    model = [f"--model={options.model}"] if options.model else []
    seconds: dict[str, list[float]] = {}
    memories: list[list[tuple[str, float, float, float]]] = []
    for _ in range(options.rounds):
        run = Run([*model, *options.options], options.model.partition("=")[0] if model else "sluice-demo")
        try:
            run.until_answered()
            time.sleep(IDLE_S)
            memories.append([memory(pid) for pid in family(run.process.pid)])
        finally:
            run.stop()
        for what, when in run.seconds.items():
            seconds.setdefault(what, []).append(when)
    print(f"\n| seconds to | median of {options.rounds} | all |\n|---|--:|---|")
    for what, all_of_it in sorted(seconds.items(), key=lambda item: statistics.median(item[1])):
        print(f"| {what} | {statistics.median(all_of_it):.2f} | {' '.join(f'{each:.2f}' for each in all_of_it)} |")
    print("\n| process | proportional MiB | resident MiB | CPU s |\n|---|--:|--:|--:|")
    for rows in zip(*memories, strict=True):
        print(f"| {rows[0][0]} | {_median(rows, 1):.0f} | {_median(rows, 2):.0f} | {_median(rows, 3):.2f} |")
    of_service = [sum(share for name, share, _, _ in rows if name in {"service", "process"}) for rows in memories]
    print(f"| service with its processes | {statistics.median(of_service):.0f} | | |")


def _median(rows: tuple[tuple[str, float, float, float], ...], index: int) -> float:
    return statistics.median(float(row[index]) for row in rows)


if __name__ == "__main__":
    main()

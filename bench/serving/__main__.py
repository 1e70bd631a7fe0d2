"""Compare this server with llama.cpp's and `transformers serve`: the same requests and weights, in turns.

Usage: python -m bench.serving [chats arrivals prefix schema start memory] [--models 5m 0.5b] [--prompts 32 512]
[--streams 1 4 16] [--servers sluice gateway llama.cpp transformers] [--rounds 3] [--results FILE] [--device cuda]

The whole product is called through Envoy, and so includes Envoy, gateway, gRPC and engine; `gateway` is the same
without Envoy, and is measured where Envoy isn't installed. All servers are started, but only the one that is measured
runs; the others are paused. A round measures the time to read the weights, and then every server in every case, one
after the other; ratios are computed within a round, relative to the first server. The CPU share of other processes is
recorded with each measurement; measurements with more than 5 % are left out of the tables and counted. A case in which
a server answers with an error is printed and left out, and so are cases with more than 262,144 tokens in their prompts.
Rounds are appended to those in the file. A server may have settings:
`sluice:engine.speculation=false,engine.max_slowdown=4`, `llama.cpp:type=Q8_0`. Greedy answers of random weights are
repetitive, so speculation performs better than on real ones.

With `--device cuda` the models are 0.5b, 8b and 32b, and llama.cpp's server is left out. Paused servers keep their part
of the device's memory, so limit this server's part if another one is measured: `sluice:engine.device_memory=0.45`. Or
measure each alone, with a results file of its own: `python -m bench.serving.report FILE FILE` compares them.

    chats      chats that arrive at once: tokens a second with the wait for the first one, and gaps between tokens
    arrivals   chats that arrive at random moments, of mixed prompts: how many are served within a latency target
    prefix     the first token after a shared beginning, of the second and the third chat that has it
    schema     answers that follow a JSON schema
    start      the time until the server is ready, and until its first answer has ended
    memory     memory after the scenarios before: of the processes now, the sum of their peaks, and on the device
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench import shapes
from bench.recurrent_shapes import RECURRENT_CONFIGS, recurrent_folder
from bench.serving.floor import device_floor_s, floor_s
from bench.serving.report import tables
from bench.serving.requests import FailedRequestError, Load
from bench.serving.scenarios import SCENARIOS, SIZES
from bench.serving.servers import Server, command_of, elsewhere, installed, serving

MODELS: dict[str, Callable[[], Path]] = {
    "5m": shapes.qwen3_5m,
    "0.5b": shapes.qwen2_5_0_5b,
    "demo": shapes.demo,
    "8b": shapes.llama_3_1_8b,
    "32b": shapes.qwen2_5_32b,
    **{name: partial(shapes.family, name) for name in shapes.FAMILIES},
    **{name: partial(recurrent_folder, name) for name in RECURRENT_CONFIGS},
}  # demo is for `schema`, since it ends its answers
DEFAULT_MODELS = {"cpu": ["5m", "0.5b", "demo"], "cuda": ["0.5b", "8b", "32b"]}


class Fleet:
    """The servers of one model, started when they are first needed and paused when they are not."""

    def __init__(self, folder: Path, stack: ExitStack, device: str) -> None:
        self._folder = folder
        self._device = device
        self._stack = stack
        self._servers: dict[tuple[str, int], Server] = {}

    @property
    def folder(self) -> Path:
        """The model's folder."""
        return self._folder

    def turn(self, name: str, streams: int) -> Server:
        """Return a server that is ready, with all others paused."""
        # Only llama.cpp's server is started for a given number of streams.
        key = (name, streams if name.startswith("llama.cpp") else 0)
        self.pause()
        if key not in self._servers:
            self._servers[key] = self._stack.enter_context(
                serving(command_of(name, self._folder, streams, self._device))
            )
        self._servers[key].resume()
        return self._servers[key]

    def pause(self) -> None:
        """Pause the running server."""
        for server in self._servers.values():
            server.pause()


def measure_round(fleet: Fleet, model: str, turn: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure one round of every scenario of one model; yield one record per case and server."""
    size = SIZES[model]
    fleet.pause()
    weights_s = (floor_s if options.device == "cpu" else device_floor_s)(fleet.folder)
    print(f"{model}: the weights were read in {1e3 * weights_s:.2f} ms", flush=True)
    for scenario_name in options.scenarios:
        scenario = SCENARIOS[scenario_name]
        for case in scenario.cases(size, options):
            for server in options.servers:
                if scenario_name == "schema" and server.startswith("transformers"):
                    continue  # it doesn't support them
                try:
                    load = Load(fleet.turn(server, scenario.slots or int(case["streams"])), turn)
                    with elsewhere(load.server) as others:
                        numbers = scenario.measure(load, size, case)
                except FailedRequestError as error:
                    print(f"{model}, {scenario_name}, {case}: {server} failed: {error}", flush=True)
                    continue
                record = {
                    "model": model,
                    "scenario": scenario_name,
                    "case": case,
                    "server": server,
                    "round": turn,
                    "others": others.share,
                }
                print(record, {name: round(value, 4) for name, value in numbers.items()}, flush=True)
                yield {**record, "numbers": numbers, "weights_s": weights_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], help="default: all")
    parser.add_argument("--models", nargs="+", choices=MODELS)
    parser.add_argument("--prompts", nargs="+", type=int, default=[32, 512])
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--rates", nargs="+", type=float, default=[], help="arrivals per second")
    parser.add_argument("--shared", nargs="+", type=int, default=[1_000], help="tokens of the shared beginnings")
    parser.add_argument("--device", choices=DEFAULT_MODELS, default="cpu")
    parser.add_argument("--servers", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # exits the servers as well
    options.scenarios = options.scenarios or list(SCENARIOS)
    options.models = options.models or DEFAULT_MODELS[options.device]
    options.servers = options.servers or installed(options.device)
    records: list[dict[str, Any]] = []
    if options.results and options.results.is_file():
        records = json.loads(options.results.read_text())
    first_round = 1 + max((record["round"] for record in records), default=-1)
    for model in options.models:
        with ExitStack() as stack:
            fleet = Fleet(MODELS[model](), stack, options.device)
            for turn in range(first_round, first_round + options.rounds):
                for record in measure_round(fleet, model, turn, options):
                    records.append(record)
                    if options.results:
                        options.results.write_text(json.dumps(records, indent=1))
    print(tables(records))


if __name__ == "__main__":
    main()

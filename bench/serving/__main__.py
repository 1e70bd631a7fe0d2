"""Streams chats from this server, llama.cpp's and `transformers serve`, on the same weights, in turns.

Usage: python -m bench.serving [--models 5m 0.5b] [--prompts 32 512] [--streams 1 4 16] [--servers sluice llama.cpp …]

The whole product is measured, at its front door: Envoy, gateway, gRPC, engine. All servers are up; only the one whose
turn it is runs. A round measures every server in every case, one after the other; ratios are those within a round, and
their medians are printed. With `--results FILE`, rounds are added to those that the file has.
"""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import shapes
from bench.serving.report import table
from bench.serving.scenarios import Load, at_once
from bench.serving.servers import NAMES, Server, command_of, serving

MODELS = {"5m": shapes.qwen3_5m, "0.5b": shapes.qwen2_5_0_5b}
ANSWER = {"5m": 128, "0.5b": 32}


class Fleet:
    """The servers of one model, started when they are first needed and paused when they are not."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._servers: dict[tuple[str, int], Server] = {}

    def turn(self, name: str, streams: int) -> Server:
        """That server, warm, ready and alone."""
        # Only llama.cpp's is started for a number of streams.
        key = (name, streams if name.startswith("llama.cpp") else 0)
        for other in self._servers.values():
            other.pause()
        if key not in self._servers:
            command = command_of(name, self._folder, streams)
            self._servers[key] = self._stack.enter_context(serving(command))
        self._servers[key].resume()
        return self._servers[key]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--prompts", nargs="+", type=int, default=[32, 512])
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--servers", nargs="+", default=list(NAMES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    if options.results and options.results.is_file():
        records = json.loads(options.results.read_text())
    first_round = 1 + max((record["round"] for record in records), default=-1)
    for model in options.models:
        folder = MODELS[model]()
        with ExitStack() as stack:
            fleet = Fleet(folder, stack)
            for round_number in range(first_round, first_round + options.rounds):
                for prompt_tokens in options.prompts:
                    for streams in options.streams:
                        for name in options.servers:
                            load = Load(fleet.turn(name, streams), round_number)
                            numbers = at_once(load, prompt_tokens, streams, ANSWER[model])
                            case = {"model": model, "prompt": prompt_tokens, "streams": streams}
                            records.append({**case, "server": name, "round": round_number, **numbers})
                            print(records[-1], flush=True)
                if options.results:
                    options.results.write_text(json.dumps(records, indent=1))
    print(table(records))


if __name__ == "__main__":
    main()

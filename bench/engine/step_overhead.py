"""Measure Python's overhead in a step of the engine: the parts of a step other than the forward, in microseconds.

Run: python -m bench.engine.step_overhead [demo] [5m] [0.5b] [--streams 1 4 16 64] [--threads N]. It is one process
without a server: the streams decode together, each with a prompt of 32 random tokens, the bundled model's default
temperature and top-p, and an end by length. The parts of the worker's process are schedule, run (mostly the batch's
arrays), forward, sample, accept, and report (build the outputs of the last 20 ms with their text, pickle and send
them). The parts of the service's process are unpickle, and deliver (hand each output to its reader). A row has the
medians over the steps that only decode; the cost of a report is divided among its steps. The sum excludes the forward.
With speculation a step yields more tokens than streams, so it is off by default.
"""

from __future__ import annotations

import argparse
import asyncio
import select
import socket
import statistics
import time
from collections import abc
from typing import Any

from bench import shapes
from service.engine.client.output_stream import OutputStream
from service.engine.core.blocks.block_pool import BlockPool
from service.engine.core.drafts.prompt_drafter import PromptDrafter
from service.engine.core.drafts.speculation import Speculation
from service.engine.core.engine_core import EngineCore
from service.engine.core.scheduler import Scheduler
from service.engine.core.sequences.sequence import SequenceGroup
from service.engine.interface.config import EngineConfig
from service.engine.interface.messages import Report
from service.engine.link.report_pacer import ReportPacer
from service.engine.link.worker import wire
from service.engine.link.worker.send_buffer import SendBuffer
from service.engine.loading.generator import LoadedModel, load_model
from service.engine.runner.model_runner import ModelRunner
from service.generation.outputs.output import GenerationOutput
from service.generation.requests.parameters import SamplingParams, StopParams
from service.generation.requests.request import GenerationRequest

MODELS = {"demo": lambda: shapes.DEMO, "5m": shapes.qwen3_5m, "0.5b": shapes.qwen2_5_0_5b}
PARTS = ("schedule", "run", "forward", "sample", "accept", "report", "unpickle", "deliver")
NUM_TOKENS = 160


class Clock:
    """The seconds of each part since the last step began."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def timed(self, part: str, function: abc.Callable[..., Any]) -> abc.Callable[..., Any]:
        """Return the function with its time added to the part's."""

        def call(*arguments: Any, **more: Any) -> Any:
            began = time.perf_counter()
            result = function(*arguments, **more)
            self.seconds[part] += time.perf_counter() - began
            return result

        return call


class Timed:
    """A proxy of an object that times some of its methods."""

    def __init__(self, real: Any, clock: Clock, **parts: str) -> None:
        self._real = real
        for method, part in parts.items():
            setattr(self, method, clock.timed(part, getattr(real, method)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def measure(loaded: LoadedModel, num_streams: int) -> dict[str, float]:
    """Return the medians of the parts, in seconds."""
    clock = Clock()
    config, real = loaded.config, loaded.runner
    runner: Any = ModelRunner(
        Timed(real.backend, clock, forward="forward"),
        Timed(real.sampler, clock, sample="sample"),
        real.num_blocks,
        real.block_size,
        num_threads=config.num_threads,
    )
    pool = BlockPool(real.num_blocks, real.block_size)
    speculation = Speculation(PromptDrafter()) if config.speculation else None
    scheduler: Any = Timed(Scheduler(config, pool, speculation), clock, schedule="schedule", expired="schedule")
    core = EngineCore(scheduler, Timed(runner, clock, run="run", follow="run"))
    streams = [OutputStream(1) for _ in range(num_streams)]
    for serial in range(num_streams):
        core.add(group(loaded, serial))
    ours, theirs = socket.socketpair()
    send_buffer, unpacker = SendBuffer(ours), wire.Unpacker()
    pace = ReportPacer(core.report, send_buffer.put, config.output_interval_s or 0.0)
    steps: list[dict[str, float]] = []
    while core.has_work:
        clock.seconds = dict.fromkeys(PARTS, 0.0)
        num_running = core.stats().num_running
        began = time.perf_counter()
        is_urgent = core.step()
        parts = clock.seconds
        parts["accept"] = time.perf_counter() - began - parts["schedule"] - parts["run"]
        parts["run"] -= parts["forward"] + parts["sample"]
        began = time.perf_counter()
        pace.step_done(is_urgent=is_urgent)
        reported_s = time.perf_counter() - began
        await asyncio.sleep(0)
        if select.select([theirs], [], [], 0)[0]:
            parts["report"] = reported_s
            data = theirs.recv(1 << 20)
            began = time.perf_counter()
            (received,) = unpacker.feed(data)
            parts["unpickle"] = time.perf_counter() - began
            began = time.perf_counter()
            await deliver(received, streams)
            parts["deliver"] = time.perf_counter() - began
        if num_running == num_streams and not is_urgent:
            steps.append(parts)
    send_buffer.close()
    ours.close()
    theirs.close()
    return {part: typical([step[part] for step in steps[10:]]) for part in PARTS}


def typical(seconds: list[float]) -> float:
    """Return the median of a part's times per step; a part that few steps have is scaled by their share."""
    times = [each for each in seconds if each]
    return statistics.median(times) * len(times) / len(seconds) if times else 0.0


async def deliver(report: Report, streams: list[OutputStream]) -> None:
    """Deliver a report like the client and its readers, without the loop's own time to wake the readers."""
    for serial, output in report.outputs:
        assert isinstance(output, GenerationOutput)  # noqa: S101  a generator's engine emits nothing else
        streams[serial].put(output)
    for serial in {serial for serial, _ in report.outputs}:
        await anext(streams[serial])


def group(loaded: LoadedModel, serial: int) -> SequenceGroup:
    """Return a request as a sequence group."""
    return SequenceGroup(
        GenerationRequest(
            f"{serial}",
            [(7 * serial + 13 * index) % 1900 + 100 for index in range(32)],
            SamplingParams(temperature=0.7, top_p=0.9),
            StopParams(max_tokens=NUM_TOKENS, ignore_eos=True),
        ),
        loaded.tokens,
        serial=serial,
        seed=serial,
        arrived=time.monotonic(),
        eos_token_ids=(),
        max_model_len=loaded.info.max_model_len,
        cache_salt="",
    )


def main() -> None:
    """Print one table per model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", choices=[*MODELS, []], help="default: demo")
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 4, 16, 64])
    parser.add_argument("--threads", type=int, default=None, help="default: the engine's choice")
    parser.add_argument("--speculation", action="store_true")
    options = parser.parse_args()
    for name in options.models or ["demo"]:
        config = EngineConfig(num_blocks=1024, num_threads=options.threads, speculation=options.speculation)
        loaded = load_model(str(MODELS[name]()), config)
        print(f"\n{name}, {loaded.config.num_threads} thread(s); µs per step\n")
        print("| streams | " + " | ".join(PARTS) + " | sum without forward |\n|" + "--:|" * (len(PARTS) + 2))
        for num_streams in options.streams:
            found = asyncio.run(measure(loaded, num_streams))
            cells = [f"{1e6 * found[part]:.0f}" for part in PARTS]
            rest = sum(seconds for part, seconds in found.items() if part != "forward")
            print(f"| {num_streams} | {' | '.join(cells)} | {1e6 * rest:.0f} |", flush=True)


if __name__ == "__main__":
    main()

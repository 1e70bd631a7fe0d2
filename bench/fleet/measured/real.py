"""The same traffic on a real fleet: services with the table's step times, behind Envoy, called over gRPC."""

from __future__ import annotations

import asyncio
import heapq
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import grpc
import yaml
from sluice.v1.completion_pb2 import CompleteRequest
from sluice.v1.completion_pb2_grpc import CompletionServiceStub

from bench.fleet.measured.paced_service import FIRST_TOKEN, NUM_TOKENS, STRIDE
from bench.fleet.simulated.job import Job
from bench.fleet.simulated.replica import Sizes
from bench.fleet.simulated.simulation import Jobs, Outcome
from bench.fleet.simulated.step_model import StepTable
from runner.proxy.fleet import Fleet
from runner.proxy.production import production_config
from service.settings.bundled_models import DEMO_FOLDER

MODEL = "paced"
_START_S = 120.0
_MEASURED = 1 << 30  # keys of measurements begin here; traffic does not use them
_NUM_MEASURED = 5  # prompts of each length


class RealFleet:
    """Several services and an Envoy, which run until the end of the block; their logs are in `folder`."""

    def __init__(self, table: StepTable, sizes: Sizes, num_replicas: int, folder: Path) -> None:
        self._ports = _free_ports(num_replicas + 3)
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        file = folder / "table.json"
        table.save(file)
        settings = {
            "MODELS": f'[{{"name": "{MODEL}", "path": "{DEMO_FOLDER}"}}]',
            "ENGINE__WORKER": "thread",
            "ENGINE__NUM_BLOCKS": str(table.num_blocks),
            "ENGINE__OUTPUT_INTERVAL_S": "0",
            **{f"ENGINE__{name.upper()}": str(getattr(sizes, name)) for name in Sizes.__dataclass_fields__},
        }
        self._environment = os.environ | {f"SLUICE_SERVICE_{name}": value for name, value in settings.items()}
        self._service = [sys.executable, "-m", "bench.fleet.measured.paced_service", str(file), "--metrics-port=0"]

    def __enter__(self) -> tuple[str, str]:
        """Start the fleet; return the address of its Envoy and of one of the services."""
        listen, inner, admin, *services = self._ports
        for port in services:
            self._start(f"service-{port}", [*self._service, f"--port={port}"])
        fleet = Fleet.model_validate(
            {
                "listen": f"127.0.0.1:{listen}",
                "inner": f"127.0.0.1:{inner}",
                "admin": f"127.0.0.1:{admin}",
                "gateways": [f"127.0.0.1:{inner}"],
                "services": [{"hosts": [f"127.0.0.1:{port}" for port in services]}],
            }
        )
        file = self._folder / "envoy.yaml"
        file.write_text(yaml.safe_dump(production_config(fleet)), encoding="utf-8")
        envoy = str(Path(sys.executable).with_name("envoy"))
        self._start("envoy", [envoy, "-c", str(file), "--concurrency", "1", "-l", "error", "--disable-hot-restart"])
        self._until_healthy(admin, len(services))
        return f"127.0.0.1:{listen}", f"127.0.0.1:{services[0]}"

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, command: list[str]) -> None:
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(command, env=self._environment, stdout=log, stderr=subprocess.STDOUT)
            )

    def _until_healthy(self, admin: int, number: int) -> None:
        deadline = time.monotonic() + _START_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{admin}/stats", timeout=5) as page:
                    lines = page.read().decode().splitlines()
            except OSError:
                lines = []
            if f"cluster.service-affinity.membership_healthy: {number}" in lines:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the fleet is not healthy; its logs are in {self._folder}")
            time.sleep(0.2)


async def ask(target: str, source: Jobs, *, has_affinity: bool) -> Outcome:
    """Send each job at its time, and each later turn after the previous answer; return when all are answered."""
    outcome, serial = Outcome(), count()
    began = time.monotonic()
    waiting: list[tuple[float, int, Job]] = []
    first_turns = iter(source.first_turns())
    running: set[asyncio.Task[None]] = set()

    def later(job: Job | None) -> None:
        if job is not None:
            heapq.heappush(waiting, (job.arrived, next(serial), job))

    async def one(stub: Any, job: Job) -> None:
        await _call(stub, job, began, has_affinity=has_affinity)
        outcome.jobs.append(job)
        later(source.next_turn(job))

    async with grpc.aio.insecure_channel(target) as channel:
        stub = CompletionServiceStub(channel)
        later(next(first_turns, None))
        while waiting or running:
            now = time.monotonic() - began
            if waiting and waiting[0][0] <= now:
                job = heapq.heappop(waiting)[2]
                if not job.turn:
                    later(next(first_turns, None))
                running.add(asyncio.create_task(one(stub, job)))
            else:
                pause = min(waiting[0][0] - now if waiting else 1.0, 0.05)
                await asyncio.sleep(pause)
                running = {task for task in running if not task.done() or task.result()}
    outcome.until = time.monotonic() - began
    return outcome


async def _call(stub: Any, job: Job, began: float, *, has_affinity: bool) -> None:
    request = CompleteRequest(model=MODEL)
    request.prompts.add().token_ids.ids.extend(_prompt(job))
    request.stopping.max_tokens = job.answer
    request.stopping.ignore_eos = True
    request.sampling.temperature = 0
    metadata = [("x-sluice-affinity", str(job.route_key))] if has_affinity else []
    job.arrived = time.monotonic() - began
    try:
        async for message in stub.StreamComplete(request, metadata=metadata):
            now = time.monotonic() - began
            which = message.WhichOneof("event")
            if which == "delta":
                job.first_token = min(job.first_token, now)
            elif which == "usage":
                job.cached = message.usage.cached_tokens
            job.ended = now
    except grpc.aio.AioRpcError as error:
        if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
            raise
        job.refused = True


def _prompt(job: Job) -> list[int]:
    """Return a prompt of the job's length that begins with the previous turn's prompt and answer."""
    return [*_text(job.shared_key * 7919, job.shared), *_text(job.own_key * 104_729, job.own)]


def _text(start: int, length: int) -> list[int]:
    return [FIRST_TOKEN + (start + index * STRIDE) % NUM_TOKENS for index in range(length)]


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def run_real(
    table: StepTable, sizes: Sizes, num_replicas: int, source: Jobs, *, has_affinity: bool
) -> tuple[StepTable, Outcome]:
    """Start a fleet, measure the steps of one service, send the traffic through Envoy, and stop the fleet."""
    with (
        tempfile.TemporaryDirectory(prefix="sluice-fleet-") as folder,
        RealFleet(table, sizes, num_replicas, Path(folder)) as (door, service),
    ):
        return asyncio.run(_measure_and_ask(door, service, table, source, has_affinity=has_affinity))


async def _measure_and_ask(
    door: str, service: str, table: StepTable, source: Jobs, *, has_affinity: bool
) -> tuple[StepTable, Outcome]:
    measured = await measure_table(service, table)
    return measured, await ask(door, source, has_affinity=has_affinity)


async def measure_table(target: str, table: StepTable) -> StepTable:
    """Measure the table's step times as a client of one replica observes them, with the product's overhead."""
    serial = count(_MEASURED)

    def job(prompt: int, answer: int) -> Job:
        return Job(0.0, 0, 0, next(serial), prompt, answer, _MEASURED)

    async with grpc.aio.insecure_channel(target) as channel:
        stub = CompletionServiceStub(channel)
        decode, prefill = [], []
        await _call(stub, job(100, 40), time.monotonic(), has_affinity=False)  # warm up
        for number, _ in table.prefill:
            jobs = [job(number, 1) for _ in range(_NUM_MEASURED)]
            for each in jobs:
                await _call(stub, each, time.monotonic(), has_affinity=False)
            prefill.append((number, statistics.median(each.first_token - each.arrived for each in jobs)))
        for number, _ in table.decode:
            jobs = [job(16, 40) for _ in range(number)]
            began = time.monotonic()
            await asyncio.gather(*(_call(stub, each, began, has_affinity=False) for each in jobs))
            last_to_begin = max(each.first_token for each in jobs)
            rest = [each for each in jobs if each.first_token >= last_to_begin - 1e-3]
            decode.append((number, statistics.median(each.gap_s for each in rest)))
    # A step for one token takes the same time for prompts and answers; the remaining time is the request's overhead.
    request_s = max(prefill[0][1] - decode[0][1], 0.0)
    steps = tuple((number, seconds - request_s) for number, seconds in prefill)
    return replace(table, decode=tuple(decode), prefill=steps, request_s=request_s)

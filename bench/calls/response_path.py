"""Measure the response path from the engine to the client: CPU time of each process, in µs per token.

Run: python -m bench.calls.response_path [--trees . ../before] [--transports rest grpc direct] [--streams 1 16 64]

The whole product runs on the bundled model, as `make run` starts it. `--trees` measures several checkouts in turns, in
one run. Transports: OpenAI chats as SSE through Envoy and the gateway (`rest`), gRPC through Envoy (`grpc`), and gRPC
directly to the service (`direct`). All streams begin together and have the same number of tokens. The CPU time is the
kernel's accounting between the first request and the last answer, separately for a process's first thread, which runs
its event loop, for its other threads, and for the engine's worker. An overloaded process sends several tokens in one
event, which makes a token cheaper and later, so compare costs at similar tokens per event. The medians of the rounds
are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import grpc
import uvloop
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2

from bench import shapes

START_TIMEOUT_S = 120
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PORTS = ("envoy", "envoy-admin", "gateway", "service", "service-metrics")
PROMPT = "Repeat after me: the model reads every word of a long question and answers with one of its own."
COLUMNS = ("service's loop", "its other threads", "gateway's loop", "its other threads", "Envoy")
ENGINE = "engine"
_USAGE = re.compile(rb'"completion_tokens":(\d+)')


class Received(NamedTuple):
    """The totals that the clients of one measurement received."""

    num_tokens: int
    num_events: int  # SSE events or messages, each with one or more tokens


@dataclass(frozen=True)
class Product:
    """A running product: its ports by name, and its processes' ids; the engine's worker is the service's child."""

    ports: dict[str, int]
    service: int
    gateway: int
    envoy: int
    worker: int | None


class SseReader(asyncio.Protocol):
    """Reads one streamed answer and keeps only its end."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._tail = b""
        self._num_events = 0
        self.done: asyncio.Future[Received] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._num_events += data.count(b"data: ")
        self._tail = (self._tail + data)[-600:]
        if b"[DONE]" in self._tail and not self.done.done():
            usage = _USAGE.search(self._tail)
            self.done.set_result(Received(int(usage[1]) if usage else 0, self._num_events))
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError(f"the answer ended too early: {self._tail!r}"))


async def rest(product: Product, num_streams: int, num_tokens: int) -> Received:
    """Stream chats as SSE."""
    body = json.dumps(
        {
            "model": "bench", "stream": True, "max_tokens": num_tokens, "temperature": 0,
            "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": PROMPT}],
        }
    ).encode()  # fmt: skip
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    readers: list[SseReader] = []
    for _ in range(num_streams):
        _, reader = await loop.create_connection(
            lambda: SseReader(head.encode() + body), "127.0.0.1", product.ports["envoy"]
        )
        readers.append(reader)
    return total(await asyncio.gather(*(reader.done for reader in readers)))


async def over_grpc(port: int, num_streams: int, num_tokens: int) -> Received:
    """Stream chats over one channel."""
    request = chat_pb2.ChatRequest(model="bench")
    request.messages.add(role=content_pb2.ROLE_USER).content.add(text=PROMPT)
    request.stopping.max_tokens = num_tokens
    request.sampling.temperature = 0

    async def stream(stub: chat_pb2_grpc.ChatServiceAsyncStub) -> Received:
        num_events = 0
        async for message in stub.StreamChat(request):
            num_events += 1
            if message.HasField("usage"):
                num_received = message.usage.completion_tokens
        return Received(num_received, num_events)

    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = chat_pb2_grpc.ChatServiceStub(channel)
        return total(await asyncio.gather(*(stream(stub) for _ in range(num_streams))))


def total(received: Sequence[Received]) -> Received:
    """Return the sums over all streams."""
    return Received(*map(sum, zip(*received, strict=True)))


TRANSPORTS: dict[str, Callable[[Product, int, int], Awaitable[Received]]] = {
    "rest": rest,
    "grpc": lambda product, *sizes: over_grpc(product.ports["envoy"], *sizes),
    "direct": lambda product, *sizes: over_grpc(product.ports["service"], *sizes),
}


@contextmanager
def running(tree: Path, folder: Path) -> Iterator[Product]:
    """Run the whole product of a checkout on free ports; its output is shown only if it does not start."""
    with ExitStack() as probes:
        sockets = [probes.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
        ports = {name: each.getsockname()[1] for name, each in zip(PORTS, sockets, strict=True)}
    flags = [f"--{name}-port={port}" for name, port in ports.items()]
    log = (folder.parent / "response_path.log").open("w+")
    process = subprocess.Popen(
        [sys.executable, "-m", "runner", *flags, f"--model=bench={folder}"], cwd=tree, stdout=log, stderr=log,
        start_new_session=True, env=os.environ | {"PYTHONPATH": f"{tree}:{tree / 'generated'}"},
    )  # fmt: skip
    try:
        until_ready(ports["envoy"], process)
        found = {_module(pid): pid for pid in _children(process.pid)}
        workers = _children(found["service"])
        (envoy,) = _children(found["runner.proxy.front_door"])
        yield Product(ports, found["service"], found["gateway"], envoy, workers[0] if workers else None)
    except BaseException:
        log.seek(0)
        sys.stderr.write(log.read())
        raise
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        log.close()


def until_ready(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return when the product is ready."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError("the product did not start")


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _module(pid: int) -> str:
    """Return the module that a child of the runner runs, from its command line."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")[2]


def _cpu_s(stat: Path) -> float:
    """Return the user and system time of a process or a thread, from its `stat` file."""
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def spent_s(product: Product) -> list[float]:
    """Return the CPU time so far, in the order of COLUMNS, and then the engine's."""
    spent: list[float] = []
    for pid in (product.service, product.gateway):
        whole, first = (_cpu_s(Path(f"/proc/{pid}") / path) for path in ("stat", f"task/{pid}/stat"))
        spent += [first, whole - first]
    spent.append(_cpu_s(Path(f"/proc/{product.envoy}/stat")))
    return [*spent, _cpu_s(Path(f"/proc/{product.worker}/stat")) if product.worker else 0.0]


async def measure(product: Product, transport: str, num_streams: int, num_tokens: int) -> list[float]:
    """Return µs per token in the order of COLUMNS, then the engine's, tokens per event and tokens per second."""
    await TRANSPORTS[transport](product, num_streams, 8)  # warm
    before, began = spent_s(product), time.monotonic()
    received = await TRANSPORTS[transport](product, num_streams, num_tokens)
    seconds, after = time.monotonic() - began, spent_s(product)
    count = received.num_tokens
    if count != num_streams * num_tokens:
        raise ValueError(f"{count} tokens were received instead of {num_streams * num_tokens}")
    costs = [(b - a) / count * 1e6 for a, b in zip(before, after, strict=True)]
    return [*costs, count / received.num_events, count / seconds]


def main() -> None:
    """Print one table per transport."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", nargs="+", type=Path, default=[shapes.ROOT], help="checkouts to compare")
    parser.add_argument("--transports", nargs="+", choices=TRANSPORTS, default=list(TRANSPORTS))
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--tokens", type=int, default=16_384, help="tokens of all streams; one stream has at most 512")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = shapes.demo_without_end()
    trees = [tree.resolve() for tree in options.trees]
    with ExitStack() as stack, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        products = {tree: stack.enter_context(running(tree, folder)) for tree in trees}
        for transport in options.transports:
            print(f"\n{transport}: µs per token, medians of {options.rounds} rounds\n")
            print(f"| tree | streams | {' | '.join(COLUMNS)} | total | {ENGINE} | tokens per event | tokens/s |")
            print("|--|--:|" + "--:|" * (len(COLUMNS) + 4))
            for num_streams in options.streams:
                num_tokens = min(512, options.tokens // num_streams)
                found: dict[Path, list[list[float]]] = {tree: [] for tree in trees}
                for _ in range(options.rounds):
                    for tree, product in products.items():
                        found[tree].append(runner.run(measure(product, transport, num_streams, num_tokens)))
                for tree, results in found.items():
                    *way, engine, merged, speed = (statistics.median(values) for values in zip(*results, strict=True))
                    values = " | ".join(f"{value:.0f}" for value in (*way, sum(way), engine))
                    print(f"| {tree.name} | {num_streams} | {values} | {merged:.2f} | {speed:.0f} |", flush=True)


if __name__ == "__main__":
    main()

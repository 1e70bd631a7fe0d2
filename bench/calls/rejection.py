"""Measure the cost of a rejection at each hop: CPU time of each process, in µs per rejection.

Run: python -m bench.calls.rejection [--calls 2000] [--rounds 3]

The whole product runs on the bundled model with two slots. Two streamed chats hold the slots, and the engine's process
is stopped by a signal, so that nothing else is computed. Then calls follow one another on one connection. Envoy rejects
those on its port, since the service has reported an overload. The gateway forwards one with a new credential, which the
service rejects, and repeats that rejection for a credential that was rejected before, except for 20 calls a second:
these are a large part of the calls if the machine is busy. gRPC calls go to the service. Another Envoy, with one route
and a fixed response, shows which part of Envoy's time no configuration can save. The CPU time is the kernel's, in
nanoseconds, of all threads of a process.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http import HTTPStatus
from itertools import count
from pathlib import Path

import grpc
from sluice.v1 import chat_pb2, chat_pb2_grpc, content_pb2

from bench import shapes
from bench.calls.response_path import Product, running, until_ready
from bench.serving.servers import free_ports

PATH = "/v1/chat/completions"
SETTINGS = {
    "SLUICE_SERVICE_ENGINE__MAX_BATCH_SEQUENCES": "2",
    "SLUICE_SERVICE_ENGINE__MAX_QUEUE_WAIT_S": "0.05",
    "SLUICE_SERVICE_ENGINE__REJECT_WHILE_SUSPENDED": "false",
    "SLUICE_SERVICE_MAX_STALL_S": "1e6",
    "SLUICE_SERVICE_MAX_HEARTBEAT_AGE_S": "1e6",
}
NUM_HELD = 2
TIMEOUT_S = 30.0
NUM_TOKENS = 1_900  # of the held answers
BARE_ENVOY = """
static_resources:
  listeners:
    - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/{manager}
                stat_prefix: bare
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: ["*"]
                      routes:
                        - match: {{ path: /readyz }}
                          direct_response: {{ status: 200 }}
                        - match: {{ prefix: / }}
                          direct_response: {{ status: 429, body: {{ inline_string: overloaded }} }}
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
"""
MANAGER = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
PROMPT = "Which words of this question does the model read before it answers?"


def post(
    connection: http.client.HTTPConnection, credential: str = "", tokens: int = 16, *, stream: bool = False
) -> int:
    """Send a chat; return the status. The answer of a stream is left unread."""
    fields = {"model": "bench", "max_tokens": tokens, "temperature": 0, "stream": stream}
    body = json.dumps({**fields, "messages": [{"role": "user", "content": PROMPT}]})
    headers = {"content-type": "application/json"}
    if credential:
        headers["authorization"] = f"Bearer {credential}"
    connection.request("POST", PATH, body, headers)
    answer = connection.getresponse()
    if not stream:
        answer.read()
    return answer.status


@contextmanager
def full(product: Product) -> Iterator[None]:
    """Hold all slots of the engine by chats whose tokens don't come meanwhile."""
    if product.worker is None:
        sys.exit("the engine must be a process of its own")
    held = [http.client.HTTPConnection("127.0.0.1", product.ports["envoy"]) for _ in range(NUM_HELD)]
    for _ in range(3):  # the limit of requests in flight follows from measured answers
        post(held[0], tokens=NUM_TOKENS)
    probe = over_grpc(product.ports["service"], timeout_s=2.0)
    while True:
        with ThreadPoolExecutor(NUM_HELD) as pool:
            list(pool.map(lambda each: post(each, tokens=NUM_TOKENS, stream=True), held))
        os.kill(product.worker, signal.SIGSTOP)
        if probe(1):
            break
        os.kill(product.worker, signal.SIGCONT)  # a held answer was complete before the signal
        for each in held:
            each.close()
    try:
        yield
    finally:
        os.kill(product.worker, signal.SIGCONT)
        for each in held:
            each.close()


@contextmanager
def bare_envoy() -> Iterator[tuple[int, int]]:
    """Run an Envoy that rejects every request by a fixed response; yield its port and its process's id."""
    (port,) = free_ports(1)
    command = [
        str(Path(sys.executable).with_name("envoy")),
        "--config-yaml",
        BARE_ENVOY.format(port=port, manager=MANAGER),
    ]
    process = subprocess.Popen([*command, "--concurrency", "1", "--use-dynamic-base-id", "-l", "off"])
    try:
        until_ready(port, process)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def over_rest(port: int, credentials: Iterator[str]) -> Callable[[int], int]:
    """Return a function that sends a number of chats to a port, and returns how many were rejected."""

    def send(num_calls: int) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        statuses = [post(connection, next(credentials)) for _ in range(num_calls)]
        connection.close()
        return statuses.count(HTTPStatus.TOO_MANY_REQUESTS)

    return send


def over_grpc(port: int, timeout_s: float | None = None) -> Callable[[int], int]:
    """Return a function that sends a number of gRPC calls to a port, and returns how many were rejected."""
    request = chat_pb2.ChatRequest(model="bench")
    request.messages.add(role=content_pb2.ROLE_USER).content.add(text=PROMPT)
    request.stopping.max_tokens = 16

    def send(num_calls: int) -> int:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = chat_pb2_grpc.ChatServiceStub(channel)
            return sum(_is_rejected(stub, request, timeout_s) for _ in range(num_calls))

    return send


def _is_rejected(stub: chat_pb2_grpc.ChatServiceStub, request: chat_pb2.ChatRequest, timeout_s: float | None) -> bool:
    try:
        stub.Chat(request, timeout=timeout_s)
    except grpc.RpcError as error:
        return error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    return False


def cpu_us(pid: int) -> float:
    """Return the CPU time of a process so far in µs."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads) / 1000


def measure(pids: Sequence[int], send: Callable[[int], int], num_calls: int) -> list[float]:
    """Return the µs per rejection of each process. Exit if a call was not rejected."""
    send(num_calls // 10)  # warm
    before = [cpu_us(pid) for pid in pids]
    num_rejected = send(num_calls)
    after = [cpu_us(pid) for pid in pids]
    if num_rejected != num_calls:
        sys.exit(f"{num_calls - num_rejected} of {num_calls} calls were not rejected")
    return [(b - a) / num_calls for a, b in zip(before, after, strict=True)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2_000, help="rejected calls of each hop and round")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(SETTINGS)
    with running(shapes.ROOT, shapes.demo_without_end()) as product, full(product):
        new = (f"new-{number}" for number in count())
        known = iter(lambda: "known", None)
        pids = (product.envoy, product.gateway, product.service)
        hops = {
            "service, over gRPC": over_grpc(product.ports["service"]),
            "service, through the gateway": over_rest(product.ports["gateway"], new),
            "gateway": over_rest(product.ports["gateway"], known),
            "Envoy": over_rest(product.ports["envoy"], new),
        }
        print("| rejected by | Envoy, µs | gateway, µs | service, µs | together |\n|---|--:|--:|--:|--:|")
        for name, send in hops.items():
            rounds = [measure(pids, send, options.calls) for _ in range(options.rounds)]
            costs = [statistics.median(values) for values in zip(*rounds, strict=True)]
            print(f"| {name} | {' | '.join(f'{each:.0f}' for each in (*costs, sum(costs)))} |", flush=True)
        with bare_envoy() as (port, pid):
            rounds = [measure([pid], over_rest(port, known), options.calls) for _ in range(options.rounds)]
        cost = statistics.median(value for (value,) in rounds)
        print(f"| Envoy, by a fixed response without filters | {cost:.0f} | - | - | {cost:.0f} |")


if __name__ == "__main__":
    main()

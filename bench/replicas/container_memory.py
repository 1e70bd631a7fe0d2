"""Measure the memory of a container with the whole product: ready, under load, and after the largest answer.

Run as `python -m bench.replicas.container_memory`. Starts service, gateway and Envoy on the bundled models, and prints
the megabytes of all processes together, with shared pages counted once, and the sum of the processes' peaks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.e2e.stack import Stack

NUM_CHATS, NUM_AT_ONCE = 96, 32
CHAT = {
    "model": "sluice-demo",
    "max_tokens": 150,
    "ignore_eos": True,
    "messages": [{"role": "user", "content": "Tell me a story."}],
}
LARGEST = {"n": 64, "max_tokens": 400, "logprobs": True, "top_logprobs": 20}
TEXTS = {"model": "all-minilm-l6-v2", "input": ["hello world " * 50] * 256}


def main() -> None:
    stack = Stack()
    try:
        stack.wait_for("sluice is ready.")
        report(stack, "ready")
        with ThreadPoolExecutor(NUM_AT_ONCE) as pool:
            list(pool.map(lambda _: post(stack, "/v1/chat/completions", CHAT), range(NUM_CHATS)))
        post(stack, "/v1/embeddings", TEXTS)
        report(stack, f"after {NUM_CHATS} chats, {NUM_AT_ONCE} at a time, and 256 texts")
        post(stack, "/v1/chat/completions", CHAT | LARGEST)
        report(stack, "after an answer of 35 MB")
    finally:
        stack.stop()


def post(stack: Stack, path: str, body: Mapping[str, object]) -> None:
    httpx.post(stack.url + path, json=body, timeout=200).raise_for_status()


def report(stack: Stack, when: str) -> None:
    """Print the memory of all processes."""
    pids = list(processes(stack.process.pid))
    shared_once = sum(megabytes(pid, "smaps_rollup", "Pss:") for pid in pids)
    peaks = sum(megabytes(pid, "status", "VmHWM:") for pid in pids)
    print(f"{when}: {shared_once:.0f} MB; the sum of peaks so far {peaks:.0f} MB")


def processes(pid: int) -> Iterator[int]:
    """Yield the ids of a process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from processes(int(child))


def megabytes(pid: int, file: str, name: str) -> float:
    """Return the megabytes of a field of a process's file in /proc."""
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    main()

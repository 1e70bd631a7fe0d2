"""Streams chats from this server and from `transformers serve --continuous-batching` on the same weights, as ratios.

Usage: .venv/bin/python -m bench.serving [--models demo 0.5b] [--streams 1 4 16] [--tokens 64] [--rounds 2]

The whole product is measured, at its front door: Envoy, gateway, gRPC, engine. The two servers run in turns, never at
once, and the medians over the rounds are compared. Decode is what all streams receive together while all of them
decode: between the last one's first token and the first one's last. Time to first token is the median over the streams,
whose different prompts arrive at the same moment.
"""

import argparse
import asyncio
import json
import math
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from tokenizers import Tokenizer

from bench import shapes

ROOT = Path(__file__).resolve().parent.parent
MODELS = {"demo": shapes.demo_without_end, "0.5b": shapes.qwen2_5_0_5b}
WORDS = "the model reads every word of a long question and answers with one of its own".split()  # noqa: SIM905 it reads as a sentence
START_TIMEOUT_S = 180


@dataclass(frozen=True)
class Result:
    """One measurement at one number of streams."""

    decode_tokens_per_s: float
    first_token_s: float


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Chat:
    """A server that is up, and the model's name there."""

    url: str
    model: str
    tokenizer: Tokenizer


@contextmanager
def sluice(folder: Path) -> Iterator[tuple[str, str]]:
    """This server as `make run` starts it: (base URL, model name)."""
    ports = {name: free_port() for name in ("envoy", "envoy-admin", "gateway", "service", "service-metrics")}
    flags = [f"--{name}-port={port}" for name, port in ports.items()]
    with running([sys.executable, "tools/run.py", *flags, f"--model=bench={folder}"]):
        url = f"http://127.0.0.1:{ports['envoy']}"
        until_up(f"{url}/readyz")
        yield url, "bench"


@contextmanager
def peer(folder: Path) -> Iterator[tuple[str, str]]:
    """The peer: transformers' own server: (base URL, model name)."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder), "--continuous-batching"]
    with running([*command, "--device", "cpu", "--port", str(port)]):
        url = f"http://localhost:{port}"
        until_up(f"{url}/health")
        yield url, str(folder)


@contextmanager
def running(command: list[str]) -> Iterator[None]:
    """A process in its own session, ended by Ctrl-C's signal; its output is shown only if it fails."""
    with (ROOT / ".cache" / "bench" / "server.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until_up(url: str) -> None:
    """Return when the URL answers 200."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=2).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    sys.exit(f"{url} did not answer within {START_TIMEOUT_S} s; see .cache/bench/server.log")


async def stream(client: httpx.AsyncClient, chat: Chat, prompt: str, tokens: int) -> tuple[list[float], float]:
    """One chat: (when each piece of text came, by `time.monotonic()`; tokens in a piece, on average)."""
    body = {
        "model": chat.model, "stream": True, "max_tokens": tokens, "temperature": 0,
        "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": prompt}],
    }  # fmt: skip
    times: list[float] = []
    text = ""
    count = 0
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        if answer.status_code != httpx.codes.OK:
            sys.exit((await answer.aread()).decode())
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if piece := "".join(choice["delta"].get("content") or "" for choice in chunk["choices"]):
                times.append(time.monotonic())
                text += piece
            count = (chunk.get("usage") or {}).get("completion_tokens", count)
    if not times:
        sys.exit(f"no text came from {answer.url}")
    # Control tokens are generated and counted, but show no text: the bundled model's last ones are such.
    return times, min(count, len(chat.tokenizer.encode(text).ids)) / len(times)


async def measure(chat: Chat, streams: int, tokens: int, seed: int) -> Result:
    """`streams` chats at once, each with a prompt of its own of about a hundred tokens."""
    draw = random.Random(seed)
    # Something that the bundled model answers at length.
    prompts = [f"Repeat after me: {' '.join(draw.choices(WORDS, k=40))}" for _ in range(streams)]
    limits = httpx.Limits(max_connections=streams)
    async with httpx.AsyncClient(base_url=chat.url, timeout=600, limits=limits) as client:
        began = time.monotonic()
        done = await asyncio.gather(*(stream(client, chat, prompt, tokens) for prompt in prompts))
    begin, end = max(times[0] for times, _ in done), min(times[-1] for times, _ in done)
    received = sum(per_piece * sum(begin < moment <= end for moment in times) for times, per_piece in done)
    decode = received / (end - begin) if begin < end else math.nan  # too few tokens for all to decode at once
    return Result(decode, statistics.median(times[0] - began for times, _ in done))


def main() -> None:
    """Print one table a model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--streams", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each answer at most")
    parser.add_argument("--rounds", type=int, default=2, help="how often each server is started and measured")
    options = parser.parse_args()
    (ROOT / ".cache" / "bench").mkdir(parents=True, exist_ok=True)
    for name in options.models:
        folder = MODELS[name]()
        results: dict[tuple[str, int], list[Result]] = {}
        for round_number in range(options.rounds):
            for server in (sluice, peer):
                with server(folder) as (url, model):
                    chat = Chat(url, model, Tokenizer.from_file(str(folder / "tokenizer.json")))
                    for streams in options.streams:
                        asyncio.run(measure(chat, streams, 8, seed=-1))  # warm
                        result = asyncio.run(measure(chat, streams, options.tokens, seed=round_number))
                        results.setdefault((server.__name__, streams), []).append(result)
        print(f"\n{name}: {options.tokens} tokens an answer, medians of {options.rounds} rounds\n")
        print("| streams | decode tokens/s | peer | ratio | first token ms | peer | ratio |")
        print("|--:|--:|--:|--:|--:|--:|--:|")
        for streams in options.streams:
            ours, theirs = (results[server, streams] for server in ("sluice", "peer"))
            decode = [statistics.median(r.decode_tokens_per_s for r in rs) for rs in (ours, theirs)]
            first = [statistics.median(r.first_token_s for r in rs) * 1000 for rs in (ours, theirs)]
            print(
                f"| {streams} | {decode[0]:.1f} | {decode[1]:.1f} | {decode[0] / decode[1]:.2f} "
                f"| {first[0]:.0f} | {first[1]:.0f} | {first[0] / first[1]:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

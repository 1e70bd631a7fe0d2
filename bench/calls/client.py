"""Compare the Python client's cost for its callers with the `openai` package's, on the same server.

Run: .venv/bin/python -m bench.calls.client [--rounds 3] [--answers 20] [--tokens 200]

The whole product runs on the bundled model, and calls go through Envoy. Each measurement is a process of its own that
requests answers of the same number of tokens: one after the other from a thread, or 16 at a time on an event loop. It
prints the median time to the first text, and the client process's CPU time per token without imports and first calls.
The figures are medians of rounds in which both clients take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "Tell me of France."
WARM_UP = 3
STREAMS = (1, 16)
KINDS = ("sluice_client", "openai")


class Cost(NamedTuple):
    """The figures of one client process."""

    first_ms: float
    cpu_us: float  # per token


def texts(kind: str, port: int, num_tokens: int) -> Any:
    """Return a function that sends a request and returns an iterator over the pieces of its answer."""
    if kind == "openai":
        import openai  # noqa: PLC0415  imported only if it is measured

        client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused")

        def ask() -> Iterator[str]:
            for chunk in client.chat.completions.create(**openai_body(num_tokens)):
                yield chunk.choices[0].delta.content or ""

        return ask
    sys.path.insert(0, str(ROOT / "clients/python/src"))
    from sluice_client import Client  # noqa: PLC0415  imported only if it is measured

    own = Client(f"127.0.0.1:{port}", model="bench")
    return lambda: own.stream_chat(PROMPT, max_tokens=num_tokens, ignore_eos=True, temperature=1).text()


def async_texts(kind: str, port: int, num_tokens: int) -> Any:
    """Return a function that sends a request and returns an asynchronous iterator over the pieces of its answer."""
    if kind == "openai":
        import openai  # noqa: PLC0415  imported only if it is measured

        client = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused")

        async def ask() -> AsyncIterator[str]:
            async for chunk in await client.chat.completions.create(**openai_body(num_tokens)):
                yield chunk.choices[0].delta.content or ""

        return ask
    sys.path.insert(0, str(ROOT / "clients/python/src"))
    from sluice_client import AsyncClient  # noqa: PLC0415  imported only if it is measured

    own = AsyncClient(f"127.0.0.1:{port}", model="bench")
    return lambda: own.stream_chat(PROMPT, max_tokens=num_tokens, ignore_eos=True, temperature=1).text()


def openai_body(num_tokens: int) -> dict[str, Any]:
    """Return the request of both clients as arguments of the `openai` package."""
    return {
        "model": "bench",
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": num_tokens,
        "temperature": 1,
        "stream": True,
        "extra_body": {"ignore_eos": True},
    }


def one_by_one(kind: str, port: int, num_answers: int, num_tokens: int) -> Cost:
    """Request answers one after the other from a thread."""
    ask = texts(kind, port, num_tokens)
    waits: list[float] = []
    began = 0.0
    for number in range(num_answers + WARM_UP):
        if number == WARM_UP:
            began = time.process_time()
        asked = time.perf_counter()
        moments = [time.perf_counter() for piece in ask() if piece]
        if number >= WARM_UP:
            waits.append(moments[0] - asked)
    cpu_s = time.process_time() - began
    return Cost(statistics.median(waits) * 1e3, cpu_s / (num_answers * num_tokens) * 1e6)


async def at_once(kind: str, port: int, num_answers: int, num_tokens: int, num_streams: int) -> Cost:
    """Request answers concurrently on an event loop."""
    ask = async_texts(kind, port, num_tokens)
    waits: list[float] = []

    async def read() -> None:
        asked, first = time.perf_counter(), 0.0
        async for piece in ask():
            if piece and not first:
                first = time.perf_counter()
        waits.append(first - asked)

    await asyncio.gather(*(read() for _ in range(WARM_UP)))
    waits.clear()
    num_waves = max(1, num_answers // num_streams)
    began = time.process_time()
    for _ in range(num_waves):
        await asyncio.gather(*(read() for _ in range(num_streams)))
    cpu_s = time.process_time() - began
    return Cost(statistics.median(waits) * 1e3, cpu_s / (num_waves * num_streams * num_tokens) * 1e6)


def measure(kind: str, port: int, num_streams: int, num_answers: int, num_tokens: int) -> Cost:
    """Measure one client in this process."""
    if num_streams == 1:
        return one_by_one(kind, port, num_answers, num_tokens)
    return asyncio.run(at_once(kind, port, num_answers, num_tokens, num_streams))


def bundled(folder: Path) -> Path:
    """Return a link to the bundled model; a log may be written to its parent folder."""
    model = folder / "model"
    model.symlink_to(ROOT / "demo/model")
    return model


def main() -> None:
    """Measure, with flags for the sizes."""
    from bench.calls.response_path import running  # noqa: PLC0415  not in the measured processes

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=200)
    options = parser.parse_args()
    costs: dict[tuple[int, str], list[Cost]] = {(streams, kind): [] for streams in STREAMS for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder, running(ROOT, bundled(Path(folder))) as product:
        for _ in range(options.rounds):
            for (streams, kind), found in costs.items():
                # One process per measurement, so that the modules of one package don't affect the other.
                with multiprocessing.get_context("spawn").Pool(1) as pool:
                    work = (kind, product.ports["envoy"], streams, max(options.answers, 2 * streams), options.tokens)
                    found.append(pool.apply(measure, work))
    print("streams, first text of sluice_client and openai in ms, ratio; CPU per token of both in µs, ratio")
    for streams in STREAMS:
        first, cpu = (
            [statistics.median(getattr(each, name) for each in costs[streams, kind]) for kind in KINDS]
            for name in ("first_ms", "cpu_us")
        )
        print(
            f"| {streams} | {first[0]:.1f} | {first[1]:.1f} | {first[1] / first[0]:.2f}"
            f" | {cpu[0]:.1f} | {cpu[1]:.1f} | {cpu[1] / cpu[0]:.2f} |"
        )


if __name__ == "__main__":
    main()

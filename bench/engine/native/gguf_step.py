"""Compare the native step with llama.cpp on the same GGUF files, in turns.

Run as `python -m bench.engine.native.gguf_step [--types Q4_K_M Q8_0 …] [--rounds 2]`, with native/ and
`tools/install.sh llama` installed. The weights are random ones of Qwen2.5-0.5B's shape; both use two threads. Decoding
has contexts of 32 tokens and more, prefill is one prompt of 512. Prints the median tokens a second of both, and the
median of the rounds' ratios; and the rate at which a file in the system's cache is read.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench import shapes
from bench.engine.native.native_step import BLOCK_SIZE, blocks_of, step_arrays
from bench.serving.gguf_weights import gguf_file
from service.engine.core.batch import Batch
from service.engine.loading.gguf.settings_files import write_settings
from service.engine.models.checkpoint.gguf.gguf_checkpoint import GgufCheckpoint
from service.engine.models.checkpoint.gguf.header import read_header
from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.native.backend import NativeBackend, load_native

BENCH = shapes.ROOT / ".cache" / "llama.cpp" / "llama-batched-bench"
TYPES = ("Q4_K_M", "Q8_0", "Q4_0", "MXFP4")
STREAMS = (1, 4, 16)
THREADS = 2
_PROMPT, _TOKENS, _PREFILL = 32, 24, 512


def load(file: Path) -> NativeBackend:
    """Load a file as the product does."""
    header = read_header(file)
    with tempfile.TemporaryDirectory() as folder:
        write_settings(header, Path(folder), "bfloat16")
        config = read_model_config(Path(folder))
    start = time.perf_counter()
    backend = load_native(config, GgufCheckpoint(file.parent, [header]), "bfloat16", THREADS, cache_dtype="float16")
    rate = file.stat().st_size / 1e9 / (time.perf_counter() - start)
    print(f"{file.stem}: read and repacked at {rate:.2f} GB/s", file=sys.stderr, flush=True)
    backend.prepare_thread(THREADS)
    backend.allocate(max(STREAMS) * blocks_of(_PROMPT + _TOKENS) + blocks_of(_PREFILL), BLOCK_SIZE)
    return backend


def batch_of(streams: int, new_tokens: int, context: int) -> Batch:
    """Return the batch of a step of `streams` sequences, with logits of each one's last token."""
    ids, positions, offsets, lengths, tables = step_arrays(streams, new_tokens, context)
    return Batch(
        token_ids=ids,
        positions=positions,
        row_offsets=offsets,
        context_lengths=lengths,
        block_tables=tables,
        output_rows=(offsets[1:] - 1).astype(np.int32),
    )


def native_rates(backend: NativeBackend) -> list[float]:
    """Return tokens a second: of decoding with each number of streams, and of prefill."""
    rates = []
    for streams in STREAMS:
        backend.forward(batch_of(streams, 1, _PROMPT))
        start = time.perf_counter()
        for token in range(_TOKENS):
            backend.forward(batch_of(streams, 1, _PROMPT + 1 + token))
        rates.append(streams * _TOKENS / (time.perf_counter() - start))
    start = time.perf_counter()
    backend.forward(batch_of(1, _PREFILL, _PREFILL))
    return [*rates, _PREFILL / (time.perf_counter() - start)]


def llama_rates(file: Path) -> list[float]:
    """Return the same rates of llama.cpp."""
    streams = ",".join(map(str, STREAMS))
    decoding = _batched(file, f"-npp {_PROMPT} -ntg {_TOKENS} -npl {streams}")
    prefill = _batched(file, f"-npp {_PREFILL} -ntg 1 -npl 1")
    return [*(float(row[8]) for row in decoding), float(prefill[0][6])]


def _batched(file: Path, sizes: str) -> list[list[str]]:
    """Run llama.cpp's benchmark; return the columns of each row: 6 is prefill's rate, 8 decoding's."""
    options = f"-c 4096 -b {_PREFILL} -ub {_PREFILL} -t {THREADS} -tb {THREADS} -fa on {sizes}".split()
    command = [str(BENCH), "-m", str(file), *options]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split("|") for line in printed.splitlines() if line.startswith("|")]
    return [[column.strip() for column in row] for row in rows[2:]]


def compare(file: Path, rounds: int, report: Callable[[str], None]) -> None:
    """Measure a file, and report a row of a table for each case."""
    backend = load(file)
    found = [(native_rates(backend), llama_rates(file)) for _ in range(rounds)]
    cases = [*(f"decoding, streams {streams}" for streams in STREAMS), f"prefill of {_PREFILL}"]
    for index, case in enumerate(cases):
        ours, theirs = ([rates[side][index] for rates in found] for side in (0, 1))
        ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        report(f"| {file.stem} | {case} | {statistics.median(ours):.0f} | {statistics.median(theirs):.0f} | {spread} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", nargs="*", choices=TYPES, default=TYPES)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print("| file | case | sluice, tokens/s | llama.cpp | ratio |\n|---|---|--:|--:|--:|")
    for quantized in options.types:
        compare(gguf_file(shapes.qwen2_5_0_5b(), quantized), options.rounds, lambda row: print(row, flush=True))


if __name__ == "__main__":
    main()

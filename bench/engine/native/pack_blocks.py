"""Measure how fast a core packs the blocks of GGUF files, and how fast the machine gives new memory.

Run as `python -m bench.engine.native.pack_blocks [--types q4_k q8_0 …]`, with native/ installed. Random blocks of MLPs
of Qwen2.5-0.5B's shape are packed in one thread, in memory that was used before; the best of four tries counts, by its
processor time. Prints GB of blocks a second; and the GB/s of two threads that write to new memory, which limits a
load.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import sluice_native

from bench.engine.native import native_step
from bench.engine.native.random_blocks import SCALES, random_blocks

_MODULE, _OTHERS = "down_proj", "q8_0"  # other widths are no multiples of 256, as the K types need
_TRIES: Final = 4
_NEW_BYTES, _THREADS = 1 << 30, 2


def pack_rate(kind: str) -> float:
    """Return the GB of a format's blocks that one core packs a second."""
    plan = native_step.SHAPES["0.5b"].plan()
    model = sluice_native.Model(
        plan, num_threads=1, weight_type="packed", kinds=lambda name: kind if _MODULE in name else _OTHERS
    )
    shapes = {name: shape for name, shape in model.tensors().items() if _MODULE in name}
    rows, columns = next(iter(shapes.values()))
    blocks = random_blocks(kind, rows, columns, np.random.default_rng(0))
    times = []
    for _ in range(_TRIES):
        start = time.process_time()
        for name in shapes:
            model.load_blocks(name, blocks)
        times.append(time.process_time() - start)
    return len(shapes) * blocks.nbytes / 1e9 / min(times)


def new_memory_rate() -> float:
    """Return the GB a second of threads that write to memory that the system hasn't given before."""
    memory = mmap.mmap(-1, _NEW_BYTES)
    memory.madvise(mmap.MADV_HUGEPAGE)
    first, part = ctypes.addressof(ctypes.c_char.from_buffer(memory)), _NEW_BYTES // _THREADS
    start = time.perf_counter()
    with ThreadPoolExecutor(_THREADS) as threads:
        for index in range(_THREADS):
            threads.submit(ctypes.memset, first + index * part, 1, part)
    return _NEW_BYTES / 1e9 / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--types", nargs="*", choices=SCALES, default=list(SCALES))
    kinds = parser.parse_args().types
    print(f"new memory: {new_memory_rate():.2f} GB/s\n\n| type | GB/s of a core |\n|---|--:|")
    for kind in kinds:
        print(f"| {kind} | {pack_rate(kind):.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""Measure a process's memory for loading a model in addition to its weights: Qwen2.5-0.5B's shape in each type.

Run as `python -m bench.engine.load_memory [--files Q8_0 Q4_K_M …]`, with native/ installed and, for GGUF files,
`tools/install.sh llama`. Each type is loaded in a process of its own. Prints, in MiB, the packed weights or the file,
the process's memory before the load (torch and the other imports), and the memory that the load added: the peak, and
the end. The cache is allocated when it is written, so it is not included.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import sluice_native

from bench import shapes
from bench.engine.native import native_step
from bench.serving.gguf_weights import gguf_file
from service.engine.interface.config import EngineConfig
from service.engine.loading.generator import load_model

CONFIGS = {
    "bfloat16": EngineConfig(backend="native"),
    "int8": EngineConfig(backend="native", quantization="int8"),
    "int4": EngineConfig(backend="native", quantization="int4"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", nargs="*", default=[], help="types of GGUF files, instead of the folder's types")
    files = parser.parse_args().files
    print("| weights | MiB | before | peak | end | peak / weights | end / weights | seconds |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    folder = shapes.qwen2_5_0_5b()
    loads = {name: (folder, config) for name, config in CONFIGS.items()}
    if files:
        loads = {name: (gguf_file(folder, name), EngineConfig(backend="native")) for name in files}
    for name, (model, config) in loads.items():
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            before, peak, end, seconds = process.submit(load, model, config).result()
        if files:
            weights = model.stat().st_size / 2**20
        else:
            weights = sluice_native.Model(native_step.SHAPES["0.5b"].plan(), weight_type=name).weight_bytes / 2**20
        print(
            f"| {name} | {weights:.0f} | {before:.0f} | {peak - before:.0f} | {end - before:.0f} "
            f"| {(peak - before) / weights:.2f} | {(end - before) / weights:.2f} | {seconds:.1f} |",
            flush=True,
        )


def load(model: Path, config: EngineConfig) -> tuple[float, float, float, float]:
    """Load a model; return resident MiB before, at the peak and after, and the seconds of the load."""
    before, began = resident("VmRSS"), time.perf_counter()
    loaded = load_model(str(model), config, compute_dtype="bfloat16")
    seconds = time.perf_counter() - began
    found = before, resident("VmHWM"), resident("VmRSS"), seconds
    del loaded
    return found


def resident(field: str) -> float:
    """Return a memory figure of this process in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()

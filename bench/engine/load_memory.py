"""Measure a worker's memory for a model in addition to its weights: Qwen2.5-0.5B's shape in each type.

Run as `python -m bench.engine.load_memory [--files Q8_0 Q4_K_M GPTQ …]`, with native/ installed and, for GGUF files,
`tools/install.sh llama`. GPTQ is a folder of random codes of 4 bits. Each type is loaded twice, in processes of their
own; the second load, from the system's cache, is reported. Prints, in MiB, the packed weights or the files, the
process's memory before the load (its imports), at the peak, and at the end, when free memory was returned as workers
do; and the seconds and GB/s of the load, with the tokenizer. The cache is allocated when it is written, so it is not
included.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import sluice_native

from bench import shapes
from bench.engine.native import native_step
from bench.engine.quantized_folder import gptq_folder
from bench.serving.gguf_weights import gguf_file

TYPES = ("bfloat16", "int8", "int4")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--files", nargs="*", default=[], help="types of GGUF files, or files, instead of the folder's types"
    )
    files = parser.parse_args().files
    print("| weights | MiB | before | peak | end | peak / weights | end / weights | seconds | GB/s |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    folder = shapes.qwen2_5_0_5b()
    for name in files or TYPES:
        model = model_of(folder, name) if files else folder
        found = [loaded(model, "" if files or name == "bfloat16" else name) for _ in range(2)][1]
        if files:
            weights = size_of(model) / 2**20
        else:
            weights = sluice_native.Model(native_step.SHAPES["0.5b"].plan(), weight_type=name).weight_bytes / 2**20
        print(
            f"| {name} | {weights:.0f} | {found['before']:.0f} | {found['peak']:.0f} | {found['end']:.0f} "
            f"| {found['peak'] / weights:.2f} | {found['end'] / weights:.2f} | {found['seconds']:.2f} "
            f"| {weights * 2**20 / 1e9 / found['seconds']:.2f} |",
            flush=True,
        )


def model_of(folder: Path, name: str) -> Path:
    """Return the GGUF file of a type, or the folder of a format of folders; other names are paths of files."""
    if Path(name).is_file():
        return Path(name).absolute()
    return gptq_folder(folder) if name == "GPTQ" else gguf_file(folder, name)


def size_of(model: Path) -> int:
    """Return the bytes of a file, or of a folder's weights."""
    files = [model] if model.is_file() else model.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


def loaded(model: Path, quantization: str) -> dict[str, float]:
    """Load a model in a process of its own; return its memory in MiB and the seconds of the load."""
    command = [sys.executable, "-m", "bench.engine.loaded_memory", str(model), quantization]
    done = subprocess.run(command, cwd=shapes.ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()

"""Load a model as a worker does, and print the process's memory in MiB, as JSON: `load_memory` starts it.

Run as `python -m bench.engine.loaded_memory MODEL [QUANTIZATION]`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from service.engine.interface.config import EngineConfig
from service.engine.link.process_memory import freeze_heap
from service.engine.loading.generator import load_model


def main(model: str, quantization: str | None = None) -> None:
    before, began = resident("VmRSS"), time.perf_counter()
    config = EngineConfig(backend="native", quantization=quantization or None)  # type: ignore[arg-type]  # the process that starts this one names a valid one
    loaded = load_model(model, config, compute_dtype="bfloat16")
    seconds = time.perf_counter() - began
    freeze_heap()
    found = {"before": before, "peak": resident("VmHWM"), "end": resident("VmRSS"), "seconds": seconds}
    del loaded
    print(json.dumps(found))


def resident(field: str) -> float:
    """Return a memory figure of this process in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main(*sys.argv[1:])

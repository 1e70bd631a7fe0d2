"""Measure the time to read a model's weights, the lower bound of a decode of one stream.

`python -m bench.serving.floor FOLDER`, or on a CUDA device `--bytes N`, prints the median in seconds. It runs in a
process of its own, so that its memory is freed afterwards.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np

from service.engine.models.checkpoint.model_config import read_model_config
from service.engine.models.checkpoint.text_part import open_checkpoint
from service.engine.models.plans.families.table import plan_of

DEVICE_BYTES = 4 << 30  # read at a time


def floor_s(folder: Path) -> float:
    """Measure the seconds with all threads."""
    command = [sys.executable, "-m", "bench.serving.floor", str(folder)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def device_floor_s(folder: Path) -> float:
    """Measure the seconds in which a CUDA device reads a folder's weights, by summing as many bytes or a part."""
    num_bytes = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    command = [sys.executable, "-m", "bench.serving.floor", "--bytes", str(num_bytes)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def read_on_device(num_bytes: int) -> float:
    """Return the median seconds of 20 reads."""
    import torch  # noqa: PLC0415  the CPU's measurement doesn't need it

    part = min(num_bytes, DEVICE_BYTES)
    values = torch.zeros(part // 4, dtype=torch.int32, device="cuda")
    times: list[float] = []
    for _ in range(20):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        began.record()
        values.max()
        ended.record()
        ended.synchronize()
        times.append(float(began.elapsed_time(ended)) / 1e3)
    return statistics.median(times) * num_bytes / part


def main() -> None:
    if sys.argv[1] == "--bytes":
        print(read_on_device(int(sys.argv[2])))
        return

    import sluice_native  # noqa: PLC0415  a device's measurement doesn't need it

    folder = Path(sys.argv[1])
    config = read_model_config(folder)
    stored = open_checkpoint(folder, config).dtype
    model = sluice_native.Model(plan_of(config).to_native(), weight_type=stored, num_threads=2)
    for tensor, shape in model.tensors().items():
        model.load(tensor, np.zeros(shape, dtype=np.float32))
    model.read_weights()
    print(statistics.median(model.read_weights() for _ in range(20)))


if __name__ == "__main__":
    main()

"""How long reading a model's weights takes, which no decode of one stream can beat.

`python -m bench.serving.floor MODEL` prints the median in seconds: in a process of its own, whose memory is then free.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

import numpy as np
import sluice_native

from bench.native_step import SHAPES, TYPES


def floor_s(model: str) -> float:
    """Seconds, measured now by all threads."""
    command = [sys.executable, "-m", "bench.serving.floor", model]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    name = sys.argv[1]
    model = sluice_native.Model(**SHAPES[name], weight_type=TYPES[name][0], num_threads=2)
    for tensor, shape in model.tensors().items():
        model.load(tensor, np.zeros(shape, dtype=np.float32))
    model.read_weights()
    print(statistics.median(model.read_weights() for _ in range(20)))


if __name__ == "__main__":
    main()

"""Choose the compute type of a model: the type of the weights or a wider one. Types have torch's names."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from service.engine.interface.description import ComputeDtype

CPUINFO = Path("/proc/cpuinfo")
_BFLOAT16_FLAGS = {"amx_tile", "avx512_bf16"}


def choose_compute_dtype(choice: ComputeDtype, stored: str, device: str) -> str:
    """Return the type of weights, activations and cache for `stored` weights. Raise ValueError for an unknown choice.

    `auto` keeps the stored type if the device computes in it: any type on an accelerator, bfloat16 on a CPU with AMX or
    AVX512-BF16. Otherwise it is float32, which is exact and takes twice the memory: without these instructions a CPU
    multiplies in bfloat16 2 to 4 times slower than in float32 (Ice Lake, two cores, 0.5 B model, 4 to 512 rows).
    """
    if choice not in get_args(ComputeDtype):
        raise ValueError(f"compute_dtype must be one of {', '.join(get_args(ComputeDtype))}, not {choice!r}")
    if choice != "auto":
        return choice
    if device != "cpu" or (stored == "bfloat16" and _cpu_computes_in_bfloat16()):
        return stored
    return "float32"


def _cpu_computes_in_bfloat16() -> bool:
    lines = CPUINFO.read_text(encoding="ascii", errors="replace").splitlines()
    flags = next((line.partition(":")[2] for line in lines if line.startswith("flags")), "")
    return not _BFLOAT16_FLAGS.isdisjoint(flags.split())

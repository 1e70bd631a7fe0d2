"""The selected set is the best one that the CPU supports, as reported by the system."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import sluice_native

AVX2 = {"avx2", "fma", "f16c", "bmi2"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
BF16 = AVX512 | {"avx512_vnni", "avx512_bf16"}
NEEDED = {
    "amx": BF16 | {"amx_tile", "amx_bf16", "amx_int8"},
    "avx512bf16": BF16,
    "avx512": AVX512,
    "avx2": AVX2,
    "portable": set[str](),
}


@pytest.mark.skipif(platform.machine() != "x86_64" or platform.system() != "Linux", reason="names are x86 Linux's")
def test_the_best_set_of_the_cpu_is_chosen() -> None:
    flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    has = set(flags.split(":")[1].split())
    assert sluice_native.instruction_sets() == [name for name, needed in NEEDED.items() if needed <= has]

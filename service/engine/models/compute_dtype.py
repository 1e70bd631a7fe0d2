"""In which type a model computes: the weights' own or a wider one."""

from __future__ import annotations

from typing import get_args

import torch

from service.engine.description import ComputeDtype


def choose_compute_dtype(choice: ComputeDtype, stored: torch.dtype, device: torch.device) -> torch.dtype:
    """The type of weights, activations and cache for weights `stored` in some type. ValueError for an unknown choice.

    `auto` keeps the stored type where the device computes in it: any on an accelerator, bfloat16 on a CPU with AMX or
    AVX512-BF16. Elsewhere it widens to float32, which is exact and costs twice the memory: without such instructions a
    CPU multiplies in bfloat16 2 to 4 times slower than in float32 (Ice Lake, two cores, 0.5 B model, 4 to 512 rows).
    """
    if choice not in get_args(ComputeDtype):
        raise ValueError(f"compute_dtype must be one of {', '.join(get_args(ComputeDtype))}, not {choice!r}")
    if choice != "auto":
        return torch.float32 if choice == "float32" else torch.bfloat16
    if device.type != "cpu" or (stored is torch.bfloat16 and _cpu_computes_in_bfloat16()):
        return stored
    return torch.float32


def _cpu_computes_in_bfloat16() -> bool:
    return bool(torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported())  # noqa: SLF001

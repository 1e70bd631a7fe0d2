"""The compute type is that of the weights if the device supports it, and is widened otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.engine.interface.description import ComputeDtype
from service.engine.models.checkpoint import compute_dtype
from service.engine.models.checkpoint.compute_dtype import choose_compute_dtype

F32, F16, BF16 = "float32", "float16", "bfloat16"


@pytest.mark.parametrize(
    ("device", "flags", "types"),
    [
        ("cpu", "avx512f", (BF16, F32)),
        ("cpu", "avx512f avx512_bf16", (BF16, BF16)),
        ("cpu", "amx_tile", (BF16, BF16)),
        ("cpu", "avx512_bf16", (F16, F32)),
        ("cpu", "avx512_bf16", (F32, F32)),
        ("cuda", "", (BF16, BF16)),
        ("cuda", "", (F16, F16)),
    ],
)
def test_compute_dtype_auto(
    device: str, flags: str, types: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` keeps the stored type if the device supports it; a CPU's support is queried."""
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: fpu {flags}\n\nprocessor\t: 1\n")
    monkeypatch.setattr(compute_dtype, "CPUINFO", cpuinfo)
    assert choose_compute_dtype("auto", types[0], device) == types[1]


@pytest.mark.parametrize("stored", [F32, F16, BF16])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("choice", "expected"), [("float32", F32), ("bfloat16", BF16)])
def test_compute_dtype_given(choice: ComputeDtype, stored: str, device: str, expected: str) -> None:
    """A given type is used for all weights and devices."""
    assert choose_compute_dtype(choice, stored, device) == expected


def test_compute_dtype_refuses_other_words() -> None:
    """The error lists the known types."""
    with pytest.raises(ValueError, match="auto, float32, bfloat16, not 'fp8'"):
        choose_compute_dtype("fp8", F32, "cpu")  # type: ignore[arg-type]

"""The type of arithmetic follows the weights where the device computes in it, and widens elsewhere."""

from __future__ import annotations

import pytest
import torch

from service.engine.description import ComputeDtype
from service.engine.models.compute_dtype import choose_compute_dtype

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


@pytest.mark.parametrize(
    ("stored", "device", "has_bfloat16", "expected"),
    [
        (BF16, "cpu", False, F32),
        (BF16, "cpu", True, BF16),
        (F16, "cpu", True, F32),
        (F32, "cpu", True, F32),
        (BF16, "cuda", False, BF16),
        (F16, "cuda", False, F16),
    ],
)
def test_compute_dtype_auto(
    stored: torch.dtype,
    device: str,
    has_bfloat16: bool,  # noqa: FBT001
    expected: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`auto` keeps what the device computes in, and asks a CPU what that is."""
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has_bfloat16)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
    assert choose_compute_dtype("auto", stored, torch.device(device)) is expected


@pytest.mark.parametrize("stored", [F32, F16, BF16])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(("choice", "expected"), [("float32", F32), ("bfloat16", BF16)])
def test_compute_dtype_given(choice: ComputeDtype, stored: torch.dtype, device: str, expected: torch.dtype) -> None:
    """A given type is taken, whatever the weights and the device."""
    assert choose_compute_dtype(choice, stored, torch.device(device)) is expected


def test_compute_dtype_refuses_other_words() -> None:
    """A typing error is told with the words that are known."""
    with pytest.raises(ValueError, match="auto, float32, bfloat16, not 'fp8'"):
        choose_compute_dtype("fp8", F32, torch.device("cpu"))  # type: ignore[arg-type]

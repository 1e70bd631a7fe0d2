"""A stand-in for an accelerator on the CPU: paged attention in plain torch operators, and recordings that run again."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from service.engine.models.attention.accelerator import Accelerator
from service.engine.models.attention.decode_graphs import GraphLimits
from service.engine.models.attention.varlen import VarlenKernel


def varlen_reference(  # noqa: PLR0917  the signature of torch's
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: Any = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor:
    """Compute `torch.nn.attention.varlen.varlen_attn` with paged keys and values as documented, row by row."""
    assert seqused_k is not None
    assert block_table is not None
    assert cu_seq_k is not None
    assert return_aux is None
    assert num_splits in {None, 1}
    assert enable_gqa or query.shape[1] == key.shape[2]
    assert cu_seq_q.dtype == cu_seq_k.dtype == seqused_k.dtype == block_table.dtype == torch.int32
    assert cu_seq_k.diff().tolist() == seqused_k.tolist()
    assert (cu_seq_q.diff() <= max_q).all()
    assert (seqused_k <= max_k).all()
    left, right = window_size
    assert right == 0  # causal attention
    repeats = query.shape[1] // key.shape[2]
    result = torch.empty_like(query)
    for sequence, (first, end) in enumerate(pairwise(cu_seq_q.tolist())):
        length = int(seqused_k[sequence])
        blocks = block_table[sequence, : math.ceil(length / key.shape[1])].long()
        keys, values = (
            each[blocks].flatten(0, 1)[:length].repeat_interleave(repeats, 1).double() for each in (key, value)
        )
        for row in range(first, end):
            last = length - (end - row)  # the last row sees all positions
            seen = slice(0 if left < 0 else max(0, last - left), last + 1)
            scores = torch.einsum("hd,khd->hk", query[row].double(), keys[seen]) * (scale or query.shape[2] ** -0.5)
            result[row] = torch.einsum("hk,khd->hd", scores.softmax(-1), values[seen]).to(query.dtype)
    return result


REFERENCE = VarlenKernel(
    attend=varlen_reference,
    dtypes=frozenset({torch.float32, torch.bfloat16}),
    page_multiple=1,
    head_multiple=1,
    max_head_dim=256,
    num_splits=1,
)


class RepeatedWork:
    """Runs its work again on each replay, and writes the result over the first one."""

    def __init__(self, work: Callable[[], Tensor]) -> None:
        self._work = work
        self.result = work()

    def replay(self) -> None:
        self.result.copy_(self._work())


class RunAgain:
    """A Recorder. Each recording reports `taken` bytes as used."""

    def __init__(self, taken: int = 0) -> None:
        self._taken = taken
        self.num_recorded = 0

    def record(self, work: Callable[[], Tensor]) -> RepeatedWork:
        self.num_recorded += 1
        return RepeatedWork(work)

    def free_bytes(self) -> int:
        return 10**9 - self.num_recorded * self._taken


def accelerator(
    max_sequences: int = 4, max_context: int = 128, max_bytes: int = 10**6, recorder: RunAgain | None = None
) -> Accelerator:
    return Accelerator(REFERENCE, recorder or RunAgain(), GraphLimits(max_sequences, max_context, max_bytes))

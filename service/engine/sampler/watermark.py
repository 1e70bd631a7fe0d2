"""The watermark's effect on the logits; `service.engine.watermark` computes the green lists."""

from __future__ import annotations

from collections import abc

import numpy as np
from torch import Tensor

from service.engine.core.sequences.sequence import Sequence
from service.engine.device.transfer import to_device
from service.engine.watermark import Watermark


def add_watermark(logits: Tensor, sequences: abc.Sequence[Sequence], watermark: Watermark) -> None:
    """Add `delta` to the green tokens of the rows [rows, vocabulary] that ask for the watermark, in place.

    Row by row, since the arrays of one row stay in the processor's cache: at 150,000 tokens twice as fast as at once.
    """
    rows = [row for row, sequence in enumerate(sequences) if sequence.request.sampling.watermark]
    if not rows:
        return
    token_ids = np.arange(logits.shape[1], dtype=np.uint32)
    for row in rows:
        greens = watermark.greens(sequences[row].token_ids[-1:], token_ids)[0]
        logits[row].add_(to_device(greens, logits.device), alpha=watermark.delta)

"""The watermark in the logits.

Owns its effect on the rows whose requests ask for it; which tokens are green is `service.engine.watermark`'s word. It
keeps no state but a constant. Only the engine's thread calls it.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

import numpy as np
import torch
from torch import Tensor

from service.engine.sequence import Sequence
from service.engine.watermark import Watermark


def add_watermark(logits: Tensor, sequences: Rows[Sequence], watermark: Watermark) -> None:
    """Add `delta` to the green tokens of the rows [rows, vocabulary] that ask for the watermark, in place."""
    rows = [row for row, sequence in enumerate(sequences) if sequence.request.sampling.watermark]
    if not rows:
        return
    previous = [sequences[row].token_ids[-1] for row in rows]
    greens = torch.from_numpy(watermark.greens(previous, np.arange(logits.shape[1], dtype=np.uint32)))
    gains = greens.to(logits.device).to(logits.dtype).mul_(watermark.delta)
    logits.index_add_(0, torch.tensor(rows, device=logits.device), gains)

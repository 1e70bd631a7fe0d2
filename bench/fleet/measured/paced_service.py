"""The product's service with a backend that waits instead of computing.

Run as `python -m bench.fleet.measured.paced_service TABLE …`, followed by arguments of the service.
It simulates a service with an accelerator: each step lasts as long as the table says and takes almost no CPU time, so
that several services can run on a machine with few cores. Everything else, from the port to the block pool, is the
product.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bench.fleet.simulated.step_model import StepModel, load_table
from service.__main__ import main
from service.engine.core.batch import Batch
from service.engine.loading import model_plan
from service.engine.models.interface.model_spec import ModelSpec
from service.engine.models.selection.backends import BackendRow

FIRST_TOKEN, NUM_TOKENS, STRIDE = (
    300,
    1500,
    37,
)  # texts consist of these tokens, each STRIDE after the previous one, cyclically


class PacedBackend:
    """A Backend whose forward waits for the step's time."""

    def __init__(self, model: StepModel, vocab_size: int) -> None:
        self._model = model
        self._vocab_size = vocab_size

    def bytes_per_block(self, block_size: int) -> int:
        """Return a small number, since there is no cache."""
        return block_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """Do nothing, since there is no cache."""

    def prepare_thread(self, num_threads: int | None) -> None:
        """Limit torch to one thread."""
        del num_threads
        torch.set_num_threads(1)

    def forward(self, batch: Batch) -> Tensor:
        """Wait for the step's time, and return logits whose largest token is `STRIDE` after the last token."""
        began = time.monotonic()
        counts = np.diff(batch.row_offsets)
        is_decode = (counts == 1) & (batch.context_lengths > 1)
        num_decodes = int(is_decode.sum())
        context = float(batch.context_lengths[is_decode].sum())
        seconds = self._model.seconds(num_decodes, int(counts[~is_decode].sum()), context)
        time.sleep(max(began + seconds - time.monotonic(), 0.0))
        last = batch.token_ids[batch.output_rows].astype(np.int64)
        logits = torch.zeros(len(last), self._vocab_size)
        following = torch.from_numpy(FIRST_TOKEN + (last - FIRST_TOKEN + STRIDE) % NUM_TOKENS)
        return logits.scatter_(1, following[:, None], 1.0)


def _replace_backend(model: StepModel) -> None:
    def load(spec: ModelSpec) -> Any:
        return PacedBackend(model, spec.config.vocab_size)

    row = BackendRow("paced", lambda _: None, load)
    vars(model_plan)["choose_backend"] = lambda *_: row


if __name__ == "__main__":
    _replace_backend(StepModel(load_table(Path(sys.argv.pop(1)))))
    main()

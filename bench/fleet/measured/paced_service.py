"""The product's service with a model that takes its time and no more.

Run as `python -m bench.fleet.measured.paced_service TABLE …`.
It stands for one with an accelerator: each step lasts as long as the table says, and costs the processor next to
nothing, so that several run side by side on a machine of few cores. Everything else, from the port to the block pool,
is the service's own; its other arguments, too.
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
from service.engine.models.backends import BackendRow
from service.engine.models.model_spec import ModelSpec

FIRST_TOKEN, NUM_TOKENS, STRIDE = 300, 1500, 37  # texts are made of these, each so many after the one before it


class PacedBackend:
    """A Backend that waits."""

    def __init__(self, model: StepModel, vocab_size: int) -> None:
        self._model = model
        self._vocab_size = vocab_size

    def bytes_per_block(self, block_size: int) -> int:
        """Next to nothing."""
        return block_size

    def allocate(self, num_blocks: int, block_size: int) -> None:
        """There is no cache."""

    def prepare_thread(self, num_threads: int | None) -> None:
        """Nothing to set."""
        del num_threads
        torch.set_num_threads(1)

    def forward(self, batch: Batch) -> Tensor:
        """Wait as long as the step takes; every token is followed by the one that is `STRIDE` after it."""
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

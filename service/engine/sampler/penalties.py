"""Penalties for tokens that were used before."""

from __future__ import annotations

from collections import abc

import numpy as np
import torch
from torch import Tensor

from service.engine.core.sequences.sequence import Sequence
from service.engine.device.transfer import to_device
from service.engine.sampler.token_counts import TokenCountsTable, has_penalty


class Penalties:
    """Repetition, frequency and presence penalties of all sequences of a step at once."""

    def __init__(self) -> None:
        self._counts = TokenCountsTable()

    def apply(self, logits: Tensor, sequences: abc.Sequence[Sequence]) -> None:
        """Change the logits [rows, vocabulary] of tokens that the row's sequence has used, in place.

        Repetition as in CTRL (arXiv 1909.05858) and transformers: a positive logit is divided, a negative one
        multiplied, for tokens of prompt and answer. Frequency and presence as OpenAI defines them: `frequency` times
        the count and `presence` once are subtracted, for tokens of the answer.
        """
        rows = [row for row, sequence in enumerate(sequences) if has_penalty(sequence)]
        if not rows:
            return
        tables = [self._counts.of(sequences[row]) for row in rows]
        lengths = [len(table.ids) for table in tables]
        params = [sequences[row].request.sampling for row in rows]

        def spread(values: list[float]) -> Tensor:
            return to_device(np.repeat(np.array(values, dtype=np.float32), lengths), logits.device)

        row_index = to_device(np.repeat(np.array(rows), lengths), logits.device)
        token_ids = to_device(np.concatenate([table.ids for table in tables]), logits.device)
        counts = to_device(np.concatenate([table.counts for table in tables]), logits.device)
        used = logits[row_index, token_ids]
        repetition = spread([each.repetition_penalty for each in params])
        used = torch.where(used > 0, used / repetition, used * repetition)
        used -= spread([each.frequency_penalty for each in params]) * counts
        used -= spread([each.presence_penalty for each in params]) * (counts > 0)
        bounds = torch.finfo(logits.dtype)  # a repetition penalty near 0 must not make a token infinitely likely
        logits[row_index, token_ids] = used.clamp_(bounds.min, bounds.max)

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence's counts; they are made anew if it comes back."""
        self._counts.release(sequence)

"""Penalties for tokens that a sequence has used before."""

from __future__ import annotations

from collections import abc
from typing import TYPE_CHECKING

import numpy as np

from service.engine.core.sequences.sequence import Sequence
from service.engine.sampler.effects.effect import Row, ToDevice, token_index
from service.engine.sampler.effects.token_counts import TokenCounts
from service.generation.errors import SequenceError

if TYPE_CHECKING:
    from torch import Tensor

_LIMITS = np.finfo(np.float32)  # a repetition penalty near 0 must not make a token infinitely likely


class Penalties:
    """The effect: repetition, frequency and presence penalties.

    Repetition is as in CTRL (arXiv 1909.05858) and transformers: for tokens of prompt and answer, a positive logit is
    divided by the penalty, and a negative one multiplied. Frequency and presence are as OpenAI defines them: for tokens
    of the answer, `frequency` times the count and `presence` once are subtracted.
    """

    def __init__(self) -> None:
        self._counts: dict[Sequence, TokenCounts] = {}

    def is_used_by(self, sequence: Sequence) -> bool:
        """Return True if the request has any penalty."""
        sampling = sequence.request.sampling
        return bool(sampling.repetition_penalty != 1 or sampling.frequency_penalty or sampling.presence_penalty)

    def change_row(self, row: Row, sequence: Sequence) -> None:
        """Change the logits of the tokens that the sequence has used."""
        sampling, used = sequence.request.sampling, self._counts_of(sequence)
        repetition, frequency, presence = (
            np.float32(each)
            for each in (sampling.repetition_penalty, sampling.frequency_penalty, sampling.presence_penalty)
        )
        logits, counts = row[used.ids], used.counts
        logits = np.where(logits > 0, logits / repetition, logits * repetition)
        logits -= frequency * counts
        logits -= presence * (counts > 0)
        row[used.ids] = logits.clip(_LIMITS.min, _LIMITS.max)

    def change_rows(
        self, logits: Tensor, sequences: abc.Sequence[Sequence], rows: abc.Sequence[int], to_device: ToDevice
    ) -> abc.Mapping[int, SequenceError]:
        """Change the logits of the tokens that each row's sequence has used."""
        tables = [self._counts_of(sequences[row]) for row in rows]
        lengths = [len(table.ids) for table in tables]
        params = [sequences[row].request.sampling for row in rows]

        def spread(values: list[float]) -> Tensor:
            return to_device(np.repeat(np.array(values, dtype=np.float32), lengths))

        index = token_index(rows, [table.ids for table in tables], to_device)
        counts = to_device(np.concatenate([table.counts for table in tables]))
        used = logits[index]
        repetition = spread([each.repetition_penalty for each in params])
        used = (used / repetition).where(used > 0, used * repetition)
        used -= spread([each.frequency_penalty for each in params]) * counts
        used -= spread([each.presence_penalty for each in params]) * (counts > 0)
        logits[index] = used.clamp_(float(_LIMITS.min), float(_LIMITS.max))
        return {}

    def release(self, sequence: Sequence) -> None:
        """Drop the counts of a sequence."""
        self._counts.pop(sequence, None)

    def _counts_of(self, sequence: Sequence) -> TokenCounts:
        """Return the counts up to the sequence's newest token."""
        counts = self._counts.get(sequence)
        if counts is None:
            with_prompt = sequence.request.sampling.repetition_penalty != 1
            counts = self._counts[sequence] = TokenCounts(sequence, with_prompt=with_prompt)
        counts.update(sequence)
        return counts

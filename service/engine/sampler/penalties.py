"""Penalties for tokens that were used before."""

from __future__ import annotations

from collections import abc

import numpy as np
import torch
from torch import Tensor

from service.engine.sequence import Sequence


class TokenCounts:
    """The distinct tokens of one sequence: `ids`, and how often each was generated (0: only in the prompt)."""

    def __init__(self, sequence: Sequence) -> None:
        self._place: dict[int, int] = {}
        self._ids = np.empty(64, dtype=np.int64)
        self._counts = np.empty(64, dtype=np.float32)
        if sequence.request.sampling.repetition_penalty != 1:
            for token_id in sequence.token_ids[: sequence.num_prompt_tokens]:
                self._place_of(token_id)
        self._num_counted = sequence.num_prompt_tokens

    def update(self, sequence: Sequence) -> None:
        """Count what the sequence generated since the last call."""
        for token_id in sequence.token_ids[self._num_counted :]:
            place = self._place_of(token_id)  # may replace the arrays
            self._counts[place] += 1
        self._num_counted = len(sequence.token_ids)

    @property
    def ids(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return self._ids[: len(self._place)]

    @property
    def counts(self) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
        return self._counts[: len(self._place)]

    def _place_of(self, token_id: int) -> int:
        place = self._place.get(token_id)
        if place is None:
            place = self._place[token_id] = len(self._place)
            if place == len(self._ids):
                self._ids = np.resize(self._ids, 2 * place)
                self._counts = np.resize(self._counts, 2 * place)
            self._ids[place] = token_id
            self._counts[place] = 0
        return place


class Penalties:
    """Repetition, frequency and presence penalties of all sequences of a step at once."""

    def __init__(self) -> None:
        self._counts: dict[Sequence, TokenCounts] = {}

    def apply(self, logits: Tensor, sequences: abc.Sequence[Sequence]) -> None:
        """Change the logits [rows, vocabulary] of tokens that the row's sequence has used, in place.

        Repetition as in CTRL (arXiv 1909.05858) and transformers: a positive logit is divided, a negative one
        multiplied, for tokens of prompt and answer. Frequency and presence as OpenAI defines them: `frequency` times
        the count and `presence` once are subtracted, for tokens of the answer.
        """
        rows = [row for row, sequence in enumerate(sequences) if _has_penalty(sequence)]
        if not rows:
            return
        tables = [self._table(sequences[row]) for row in rows]
        lengths = [len(table.ids) for table in tables]
        params = [sequences[row].request.sampling for row in rows]

        def spread(values: list[float]) -> Tensor:
            return torch.from_numpy(np.repeat(np.array(values, dtype=np.float32), lengths)).to(logits.device)

        row_index = torch.from_numpy(np.repeat(np.array(rows), lengths)).to(logits.device)
        token_ids = torch.from_numpy(np.concatenate([table.ids for table in tables])).to(logits.device)
        counts = torch.from_numpy(np.concatenate([table.counts for table in tables])).to(logits.device)
        used = logits[row_index, token_ids]
        repetition = spread([each.repetition_penalty for each in params])
        used = torch.where(used > 0, used / repetition, used * repetition)
        used -= spread([each.frequency_penalty for each in params]) * counts
        used -= spread([each.presence_penalty for each in params]) * (counts > 0)
        bounds = torch.finfo(logits.dtype)  # a repetition penalty near 0 must not make a token infinitely likely
        logits[row_index, token_ids] = used.clamp_(bounds.min, bounds.max)

    def release(self, sequence: Sequence) -> None:
        """Forget a sequence's counts; they are made anew if it comes back."""
        self._counts.pop(sequence, None)

    def _table(self, sequence: Sequence) -> TokenCounts:
        table = self._counts.get(sequence)
        if table is None:
            table = self._counts[sequence] = TokenCounts(sequence)
        table.update(sequence)
        return table


def _has_penalty(sequence: Sequence) -> bool:
    sampling = sequence.request.sampling
    return bool(sampling.repetition_penalty != 1 or sampling.frequency_penalty or sampling.presence_penalty)

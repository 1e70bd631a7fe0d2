"""Log-probabilities of the model's unmodified distribution.

Owns what is kept of the logits before sampling changes them. Only the engine's thread calls it.
"""

from __future__ import annotations

from collections.abc import Sequence as Rows

import torch
from torch import Tensor

from service.engine.sequence import Sequence
from service.engine.types import TokenLogprob


class Logprobs:
    """The log-probabilities of the rows that ask for them; made before the logits are modified."""

    def __init__(self, logits: Tensor, sequences: Rows[Sequence]) -> None:
        wanted = [sequence.request.logprobs for sequence in sequences]
        self._num_candidates = {row: count for row, count in enumerate(wanted) if count is not None}
        if self._num_candidates:
            index = torch.tensor(list(self._num_candidates), device=logits.device)
            self._rows = logits.index_select(0, index).log_softmax(dim=-1)

    def of(self, token_ids: Rows[int]) -> dict[int, TokenLogprob]:
        """By row, the log-probability of the row's sampled token and its candidates, most likely first."""
        if not self._num_candidates:
            return {}
        chosen = torch.tensor([token_ids[row] for row in self._num_candidates], device=self._rows.device)
        logprobs = self._rows.gather(1, chosen[:, None])[:, 0].tolist()
        most = min(max(self._num_candidates.values()), self._rows.shape[1])
        top_logprobs, top_ids = (part.tolist() for part in self._rows.topk(most, dim=-1))
        return {
            row: TokenLogprob(
                token_ids[row],
                logprobs[place],
                tuple(zip(top_ids[place][:count], top_logprobs[place][:count], strict=True)),
            )
            for place, (row, count) in enumerate(self._num_candidates.items())
        }

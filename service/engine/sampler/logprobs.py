"""Log-probabilities of the model's unmodified distribution."""

from __future__ import annotations

from collections import abc

import torch
from torch import Tensor

from service.engine.sequence import Sequence
from service.generation.output import TokenLogprob
from service.generation.parameters import LogprobsOptions


class Logprobs:
    """The log-probabilities of the rows that ask for them; made before the logits are modified."""

    def __init__(self, logits: Tensor, sequences: abc.Sequence[Sequence]) -> None:
        wanted = [sequence.request.logprobs for sequence in sequences]
        self._options = {row: options for row, options in enumerate(wanted) if options is not None}
        if self._options:
            index = torch.tensor(list(self._options), device=logits.device)
            self._rows = logits.index_select(0, index).log_softmax(dim=-1)

    def of(self, token_ids: abc.Sequence[int]) -> dict[int, TokenLogprob]:
        """By row, the log-probability of the row's sampled token and its candidates, most likely first."""
        if not self._options:
            return {}
        chosen = [token_ids[row] for row in self._options]
        described = _describe(self._rows, chosen, list(self._options.values()))
        return dict(zip(self._options, described, strict=True))


def logprobs_of(logits: Tensor, token_ids: abc.Sequence[int], options: LogprobsOptions) -> list[TokenLogprob]:
    """The log-probability of a given token, and the candidates, for each row of `logits` [rows, vocabulary]."""
    return _describe(logits.log_softmax(dim=-1), token_ids, [options] * len(token_ids))


def _describe(rows: Tensor, token_ids: abc.Sequence[int], options: abc.Sequence[LogprobsOptions]) -> list[TokenLogprob]:
    num_candidates = [each.top_logprobs for each in options]
    logprobs = rows.gather(1, torch.tensor(token_ids, device=rows.device)[:, None])[:, 0].tolist()
    candidates: list[tuple[tuple[int, float], ...]] = [()] * len(token_ids)
    # Rows of one number at a time: which of two equal ones is picked first depends on how many are.
    for count in set(num_candidates) - {0}:
        mine = [row for row, wanted in enumerate(num_candidates) if wanted == count]
        part = rows if len(mine) == len(rows) else rows[torch.tensor(mine, device=rows.device)]
        top_logprobs, top_ids = (found.tolist() for found in part.topk(min(count, rows.shape[1]), dim=-1))
        for row, values, ids in zip(mine, top_logprobs, top_ids, strict=True):
            candidates[row] = tuple(zip(ids, values, strict=True))
    for row, wanted in enumerate(options):
        if wanted.token_ids:
            named = rows[row, list(wanted.token_ids)].tolist()
            candidates[row] += tuple(zip(wanted.token_ids, named, strict=True))
    return [
        TokenLogprob(token_id, logprob, top)
        for token_id, logprob, top in zip(token_ids, logprobs, candidates, strict=True)
    ]

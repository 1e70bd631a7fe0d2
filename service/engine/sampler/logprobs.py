"""Log-probabilities of the model's unmodified distribution."""

from __future__ import annotations

from collections import abc
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from service.engine.core.sequences.sequence import Sequence
from service.engine.device.transfer import to_device, to_host
from service.generation.outputs.output import TokenLogprob
from service.generation.requests.parameters import LogprobsOptions


class Logprobs:
    """The log-probabilities of the rows that request them, computed before the logits are modified."""

    def __init__(self, logits: Tensor, sequences: abc.Sequence[Sequence]) -> None:
        requested = [sequence.request.logprobs for sequence in sequences]
        self._options = {row: options for row, options in enumerate(requested) if options is not None}
        if self._options:
            self._index = to_device(np.array(list(self._options)), logits.device)
            rows = logits.index_select(0, self._index).log_softmax(dim=-1)
            self._description = _Description(rows, list(self._options.values()))

    def tensors(self, chosen: Tensor) -> list[Tensor]:
        """Return the tensors to copy to the host for the tokens `chosen` [all rows]."""
        return self._description.tensors(chosen.index_select(0, self._index)) if self._options else []

    def by_row(
        self, drawn: abc.Sequence[int], taken: abc.Sequence[int], values: list[NDArray[Any]]
    ) -> dict[int, TokenLogprob]:
        """Return, by row, the log-probability of the taken token and the candidates, most likely first.

        `values` are the `tensors` of the tokens `drawn`, on the host. They are read again if another token was taken.
        """
        if not self._options:
            return {}
        own = [taken[row] for row in self._options]
        if any(drawn[row] != taken[row] for row in self._options):
            values = to_host([self._description.of_tokens(own)]) + values[1:]
        return dict(zip(self._options, self._description.read(own, values), strict=True))


def logprobs_of(logits: Tensor, token_ids: abc.Sequence[int], options: LogprobsOptions) -> list[TokenLogprob]:
    """Return a given token's log-probability, and the candidates, for each row of `logits` [rows, vocabulary]."""
    description = _Description(logits.log_softmax(dim=-1), [options] * len(token_ids))
    chosen = to_device(np.array(token_ids), logits.device)
    return description.read(token_ids, to_host(description.tensors(chosen)))


class _Description:
    """The reported part of log-probabilities [rows, vocabulary], by each row's own options."""

    def __init__(self, rows: Tensor, options: list[LogprobsOptions]) -> None:
        self._rows = rows
        self._named = [each.token_ids for each in options]
        # Rows with the same number at a time: the order of equal values depends on the number of candidates.
        self._by_count: dict[int, list[int]] = {}
        for row, each in enumerate(options):
            if each.top_logprobs:
                self._by_count.setdefault(each.top_logprobs, []).append(row)

    def tensors(self, chosen: Tensor) -> list[Tensor]:
        """Return the log-probabilities of the chosen tokens, the largest ones with their ids, and the named tokens'."""
        rows = self._rows
        found = [rows.gather(1, chosen[:, None])[:, 0]]
        for count, mine in self._by_count.items():
            part = rows if len(mine) == len(rows) else rows.index_select(0, to_device(np.array(mine), rows.device))
            found.extend(part.topk(min(count, rows.shape[1]), dim=-1))
        if any(self._named):
            row_index = np.repeat(np.arange(len(self._named)), [len(ids) for ids in self._named])
            ids = np.array([token_id for ids in self._named for token_id in ids], np.int64)
            found.append(rows[to_device(row_index, rows.device), to_device(ids, rows.device)])
        return found

    def of_tokens(self, token_ids: abc.Sequence[int]) -> Tensor:
        """Return the log-probability of one token of each row."""
        return self._rows.gather(1, to_device(np.array(token_ids), self._rows.device)[:, None])[:, 0]

    def read(self, token_ids: abc.Sequence[int], values: list[NDArray[Any]]) -> list[TokenLogprob]:
        """Return the log-probabilities of the tokens, from the copied `values` of `tensors`."""
        parts = iter(values)
        logprobs = next(parts).tolist()
        candidates: list[tuple[tuple[int, float], ...]] = [()] * len(token_ids)
        for mine in self._by_count.values():
            for row, largest, ids in zip(mine, next(parts).tolist(), next(parts).tolist(), strict=True):
                candidates[row] = tuple(zip(ids, largest, strict=True))
        if any(self._named):
            named = iter(next(parts).tolist())
            for row, ids in enumerate(self._named):
                candidates[row] += tuple((token_id, next(named)) for token_id in ids)
        return [
            TokenLogprob(token_id, logprob, top)
            for token_id, logprob, top in zip(token_ids, logprobs, candidates, strict=True)
        ]

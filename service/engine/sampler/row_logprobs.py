"""Log-probabilities of one row of logits, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.generation.outputs.output import TokenLogprob
from service.generation.requests.parameters import LogprobsOptions


def log_softmax(row: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the natural logarithms of the probabilities [vocabulary]; the logits are not changed."""
    below: NDArray[np.float32] = row - row.max()
    below -= np.log(np.exp(below).sum(dtype=np.float64)).astype(np.float32)
    return below


def logprob_of(logprobs: NDArray[np.float32], token_id: int, options: LogprobsOptions) -> TokenLogprob:
    """Return the token's log-probability, and the most likely tokens with theirs; equal ones are in id order."""
    num_candidates = options.top_logprobs
    best: NDArray[np.intp] = np.empty(0, np.intp)
    if num_candidates:
        border = np.partition(logprobs, -min(num_candidates, len(logprobs)))[-min(num_candidates, len(logprobs))]
        reaching = np.flatnonzero(logprobs >= border)
        best = reaching[np.argsort(-logprobs[reaching], kind="stable")][:num_candidates]
    reported = [*best.tolist(), *options.token_ids]
    top = tuple(zip(reported, logprobs[reported].tolist(), strict=True)) if reported else ()
    return TokenLogprob(token_id, float(logprobs[token_id]), top)

"""Log-probabilities of one row of logits, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from service.generation.output import TokenLogprob


def log_softmax(row: NDArray[np.float32]) -> NDArray[np.float32]:
    """The natural logarithms of the probabilities [vocabulary]; the logits stay as they are."""
    below: NDArray[np.float32] = row - row.max()
    below -= np.log(np.exp(below).sum(dtype=np.float64)).astype(np.float32)
    return below


def logprob_of(logprobs: NDArray[np.float32], token_id: int, num_candidates: int) -> TokenLogprob:
    """The token's log-probability, and the most likely tokens with theirs; of equal ones the lower id first."""
    best: NDArray[np.intp] = np.empty(0, np.intp)
    if num_candidates:
        border = np.partition(logprobs, -min(num_candidates, len(logprobs)))[-min(num_candidates, len(logprobs))]
        reaching = np.flatnonzero(logprobs >= border)
        best = reaching[np.argsort(-logprobs[reaching], kind="stable")][:num_candidates]
    top = tuple(zip(best.tolist(), logprobs[best].tolist(), strict=True))
    return TokenLogprob(token_id, float(logprobs[token_id]), top)

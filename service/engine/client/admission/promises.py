"""The service levels that an engine has promised, and whether its measured rates suffice for them.

A request with a service level is admitted only if the promised work, with its own, is finished in time at these rates:

1. The strictest limit per token gives the pace of steps. A row of a looser limit is needed in a part of them only, so
   the rows of a step are `n = sum(strictest / limit)`. A step of `n` rows must be shorter than the strictest limit. It
   takes the share `u` of the time; `1 - u` is left for prompts.
2. For each due first token, the prompts that are due until then must be computed in the share `1 - u` of the time left.

The scheduler serves the earliest due token first and lets other work yield within a step, so it keeps what these two
conditions promise: no order of service is better (Liu and Layland, 1973).
"""

from __future__ import annotations

import math
from collections import abc
from typing import NamedTuple

_MAX_SHARE = 0.95  # of the time that promises may use; the rest is for steps that take longer than expected


class Rates(NamedTuple):
    """Measured times in seconds; 0 if unknown."""

    step_s: float  # of a step that decodes one sequence
    row_s: float  # that each further sequence adds
    prompt_token_s: float  # that each token of a prompt adds

    def decode_s(self, num_rows: float) -> float:
        """Return the time of a step that decodes `num_rows` sequences."""
        return self.step_s + self.row_s * max(num_rows - 1, 0.0) if num_rows else 0.0


class Promise(NamedTuple):
    """The promised work of one request."""

    due: float  # the instant of the first token; infinite without a limit
    num_prompt_tokens: float  # to compute until then, 0 after the first token
    token_s: float  # the limit per token; infinite without one
    num_rows: int  # sequences that decode


def shortage_s(promises: abc.Collection[Promise], rates: Rates, now: float) -> float:
    """Return by how many seconds a first token would be late, 0 if all promises can be kept.

    It is infinite if the limits per token can't be kept.
    """
    share = _decode_share(promises, rates)
    if share >= _MAX_SHARE:
        return math.inf
    # Work that is being computed yields after its step.
    step_s = rates.decode_s(sum(each.num_rows for each in promises))
    late_s, needed_s = 0.0, step_s
    for promise in sorted(each for each in promises if each.due < math.inf):
        needed_s += promise.num_prompt_tokens * rates.prompt_token_s / (_MAX_SHARE - share)
        if promise.num_prompt_tokens:
            late_s = max(late_s, needed_s - (promise.due - now))
    return late_s


def _decode_share(promises: abc.Collection[Promise], rates: Rates) -> float:
    """Return the share of the time that the promised decodes take."""
    strictest_s = min((each.token_s for each in promises), default=math.inf)
    if strictest_s == math.inf:
        return 0.0
    num_rows = sum(each.num_rows * strictest_s / each.token_s for each in promises)
    return rates.decode_s(num_rows) / strictest_s

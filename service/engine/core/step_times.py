"""A model of step durations on this machine, and the limits that follow from it.

It gives the prefill budget of a step with decodes, the maximum number of decodes in a step, and whether a prompt can
still be computed before a deadline. All times are in seconds.
"""

from __future__ import annotations

import math

_MEMORY = 0.75  # weight of the earlier measurements of prefills; a new one has the rest
# The weights of earlier measurements of steps with decodes only. A step can be longer than usual, because of other work
# on the machine or of a prefill before it that evicted the weights from the processor's caches, but never shorter.
_MEMORY_OF_SHORTER = 0.97
_MEMORY_OF_LONGER = 0.5
# The burst of prompts after a pause that is not delayed: this many tokens, or the tokens computed in this time.
_BURST_TOKENS = 1536
_BURST_S = 0.25
# The most that prompts add to one step, regardless of the saved allowance: users notice a longer gap between tokens.
_MAX_ADDED_S = 0.1
# The least that prompts add to a step: small chunks cost several times as much per token, so the budget is saved up.
_MIN_ADDED_S = 0.01
_MIN_CHUNK = 2  # tokens of a prompt, which are computed regardless of their cost
_MAX_MIXED_STEPS = 32  # in a row; then a step without prefill measures again how long decodes take alone
_MIN_TOKENS = 256  # in a step that measures the best speed of prefill; shorter ones are dominated by fixed costs
_NEW_WEIGHT = 0.03  # of the newest step in the average slowdown
_FEW_DECODES = 4  # the limit until the cost of further decodes is known
_MIN_DECODES = 1.5  # average per step that is needed to compute the cost of further decodes
_MIN_SPEEDUP = 2.0  # a prompt is too late if even this many times the best measured speed is too slow


class StepTimes:
    """The step time model of one engine, which keeps steps with decodes within `max_slowdown` times their time alone.

    The bound holds on average, by a token bucket of prefill time: steps without prefill save their allowance, up to a
    burst of prompts, for later prefills, which use it in portions of 0.01 to 0.1 s; after a pause the full burst is
    available. The first steps of an engine are not bounded, and a prompt's smallest chunk is computed even if it
    exceeds the bound. `max_decodes` is the number of decodes with which a step, including the prompts computed with
    them, takes at most `max_decode_slowdown` times as long as a single decode alone.
    """

    def __init__(self, max_slowdown: float, max_decode_slowdown: float | None = None) -> None:
        """Without `max_decode_slowdown`, the number of decodes in a step is not limited."""
        self._max_slowdown = max_slowdown
        self._max_decode_slowdown = max_decode_slowdown
        self.max_decodes = math.inf  # per step
        self._decode_s: dict[int, float] = {}  # of steps without prefill, by the bit length of the number of decodes
        self._mean_decodes: dict[int, float] = {}  # moving average of the number of decodes, by the same key
        self._slowdown = 1.0  # moving average of steps with decodes, prompts included, relative to one decode alone
        self._is_batch_measured = False  # True if the cost of further decodes was measured
        self._num_decodes = 1.0  # moving average of the number of decodes per step with decodes
        self._prefill_s = 0.0  # decaying sum of the time that prefills added to steps,
        self._num_prompt_tokens = 0.0  # and of the number of their tokens
        self._saved_s = math.inf  # level of the token bucket: allowance beyond the next step's own; below 0, a debt
        self._least_s_per_token: float | None = None  # best prefill speed, measured in steps of at least _MIN_TOKENS
        self._num_mixed_steps = 0  # since the last step without prefill

    def record(self, num_decodes: int, num_prompt_tokens: int, seconds: float) -> None:
        """Record the duration of a step with `num_decodes` decodes and `num_prompt_tokens` tokens of prompts."""
        if num_decodes:
            self._bound_decodes(num_decodes, seconds)
        if num_prompt_tokens == 0:
            size = num_decodes.bit_length()
            known = self._decode_s.get(size, seconds)
            memory = _MEMORY_OF_SHORTER if known < seconds else _MEMORY_OF_LONGER
            self._decode_s[size] = memory * known + (1 - memory) * seconds
            mean = self._mean_decodes.get(size, num_decodes)
            self._mean_decodes[size] = memory * mean + (1 - memory) * num_decodes
            if self._num_mixed_steps < _MAX_MIXED_STEPS:
                self._save(self._decode_s[size])
            self._num_mixed_steps = 0
            return
        self._num_mixed_steps += num_decodes > 0
        decode_s = self._measured_decode_s(num_decodes) if num_decodes else 0.0
        if decode_s is not None:
            added_s = max(seconds - decode_s, 0.0)
            self._prefill_s = _MEMORY * self._prefill_s + added_s
            self._num_prompt_tokens = _MEMORY * self._num_prompt_tokens + num_prompt_tokens
            if num_decodes:
                self._spend(decode_s, added_s)
            else:
                self._saved_s = self._most_saved_s()  # no decode was delayed
        if num_prompt_tokens >= _MIN_TOKENS:
            each = seconds / num_prompt_tokens
            self._least_s_per_token = min(each, self._least_s_per_token or each)

    def expected_s(self, num_decodes: int, num_prompt_tokens: int) -> float:
        """Return the expected duration of a step in seconds; 0 until steps were measured."""
        return (self._measured_decode_s(num_decodes) or 0.0) + self.prompt_token_s * num_prompt_tokens

    def decode_s(self, num_decodes: int) -> float | None:
        """Return the time of a step of decodes alone, interpolated between measured sizes; None if it is unknown.

        It is unknown below the smallest measured size, and proportional to the number above the largest one.
        """
        if num_decodes.bit_length() < min(self._decode_s, default=math.inf):
            return None
        before, before_s = 0.0, 0.0
        for size in sorted(self._decode_s):
            number, seconds = self._mean_decodes[size], max(self._decode_s[size], before_s)
            if num_decodes <= number:
                part = (num_decodes - before) / (number - before) if before else 1.0
                return before_s + part * (seconds - before_s)
            before, before_s = number, seconds
        return before_s * num_decodes / before

    @property
    def decode_times(self) -> tuple[float, float]:
        """The time of a step that decodes one sequence, and the time that each further one adds on average.

        Both come from the line through the smallest and the largest measured step; (0, 0) until one was measured.
        """
        if not self._decode_s:
            return 0.0, 0.0
        least, most = min(self._decode_s), max(self._decode_s)
        number, seconds = self._mean_decodes[least], self._decode_s[least]
        num_more = self._mean_decodes[most] - number
        each_s = max(self._decode_s[most] - seconds, 0.0) / num_more if num_more > 0 else 0.0
        return max(seconds - each_s * (number - 1), 0.0), each_s

    def num_decodes_within(self, seconds: float, least: int, most: int) -> int:
        """Return the largest number of decodes, from `least` to `most`, that is expected to take at most `seconds`."""
        while least < most:
            number = (least + most + 1) // 2
            if (self.decode_s(number) or 0.0) <= seconds:
                least = number
            else:
                most = number - 1
        return least

    def num_prompt_tokens_within(self, seconds: float, most: int) -> int:
        """Return the number of prompt tokens, `most` at most, that are expected to take at most `seconds`."""
        if seconds <= 0:
            return 0
        return int(min(seconds / self.prompt_token_s, most)) if self.prompt_token_s else most

    @property
    def prompt_token_s(self) -> float:
        """The time that a prompt token adds to a step; 0 until it was measured."""
        return self._prefill_s / self._num_prompt_tokens if self._num_prompt_tokens else 0.0

    def prefill_budget(self, num_decodes: int, limit: int) -> int:
        """Return the number of prompt tokens that a step with `num_decodes` decodes may compute, `limit` at most.

        It is `limit` until enough was measured. It is 0 while too little allowance is saved, and once after 32 steps
        with prefill, so that the duration of decodes alone is measured again.
        """
        if self._num_mixed_steps >= _MAX_MIXED_STEPS:
            return 0
        decode_s = self._measured_decode_s(num_decodes)
        if not decode_s or not self._prefill_s:
            return limit
        granted_s = self._granted_s(decode_s)
        allowed_s = granted_s + self._saved_s
        if allowed_s < _MIN_ADDED_S:
            return 0
        budget = min(allowed_s, max(granted_s, _MAX_ADDED_S)) * self._num_prompt_tokens / self._prefill_s
        return limit if budget >= limit else min(_chunk(budget), limit)

    def is_too_late(self, num_prompt_tokens: int, remaining_s: float) -> bool:
        """Return whether a prompt cannot be computed within `remaining_s`, even at twice the best measured speed."""
        least_s = self._least_s_per_token
        return least_s is not None and num_prompt_tokens * least_s > _MIN_SPEEDUP * remaining_s

    def _bound_decodes(self, num_decodes: int, seconds: float) -> None:
        """Update `max_decodes`, assuming that each further sequence adds as much time as the measured ones did."""
        alone_s = self._decode_s.get(1)
        if self._max_decode_slowdown is None or alone_s is None:
            return
        self._slowdown += _NEW_WEIGHT * (seconds / alone_s - self._slowdown)
        self._num_decodes += _NEW_WEIGHT * (num_decodes - self._num_decodes)
        if self._num_decodes < _MIN_DECODES:
            if not self._is_batch_measured:
                self.max_decodes = _FEW_DECODES
            return
        self._is_batch_measured = True
        each = max(self._slowdown - 1, 0.0) / (self._num_decodes - 1)
        self.max_decodes = 1 + (self._max_decode_slowdown - 1) / each if each else math.inf

    def _granted_s(self, decode_s: float) -> float:
        """Return the time that prompts may add to a step that takes `decode_s` without them."""
        return (self._max_slowdown - 1) * decode_s

    def _save(self, decode_s: float) -> None:
        """Save the allowance of a step without prefill."""
        self._saved_s = min(self._saved_s + self._granted_s(decode_s), self._most_saved_s())

    def _most_saved_s(self) -> float:
        """Return the capacity of the token bucket."""
        if not self._num_prompt_tokens:
            return math.inf
        return max(_BURST_TOKENS * self._prefill_s / self._num_prompt_tokens, _BURST_S)

    def _spend(self, decode_s: float, added_s: float) -> None:
        """Deduct the time that prefills added beyond the step's grant from the saved allowance, or record a debt."""
        granted_s = self._granted_s(decode_s)
        self._saved_s = max(min(self._saved_s + granted_s - added_s, max(self._saved_s, 0.0)), -granted_s)

    def _measured_decode_s(self, num_decodes: int) -> float | None:
        """Return the time of `num_decodes` decodes alone, or of the next smaller number that was measured."""
        sizes = [size for size in self._decode_s if size <= num_decodes.bit_length()]
        return self._decode_s[max(sizes)] if sizes else None


def _chunk(budget: float) -> int:
    """Return the largest chunk size within `budget`; few sizes are used, since a kernel is compiled for each."""
    grain = 16 if budget >= 64 else 4
    return int(budget // grain) * grain if budget >= grain else _MIN_CHUNK

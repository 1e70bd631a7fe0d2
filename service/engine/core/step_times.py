"""The measured time of steps on this machine, and the limits that follow from it.

That is the prefill budget of a step with running decodes, how many of these a step is to have, and whether a prompt can
still be computed by a deadline.
Times are in seconds.
"""

from __future__ import annotations

import math

_MEMORY = 0.75  # of what was known of prefills, the part that stays when something new is measured
# The same of decodes alone: other work on the machine, and a prefill just before, which leaves the processor's caches
# without the weights, make a step longer now and then, and nothing makes it shorter.
_MEMORY_OF_SHORTER = 0.97
_MEMORY_OF_LONGER = 0.5
# Prompts that may come at once after a pause without being held up: so many tokens, or what is computed in so long.
_BURST_TOKENS = 1536
_BURST_S = 0.25
# What prompts may add to one step, however much they may use in all: those who read would see a longer stop.
_STEP_S = 0.1
# What they add at least: of a few tokens each costs several times as much, so what they may use is saved up until then.
_LEAST_STEP_S = 0.01
_MIN_CHUNK = 2  # tokens of a prompt: it moves on, whatever that takes
_MAX_MIXED_STEPS = 32  # in a row, before a step without prefill shows again what decodes alone take
_MIN_TOKENS = 256  # of a step that shows how fast prefill is at best; fewer are dominated by what every step costs
_NEWS = 0.03  # of the slowdown of steps, the part that the newest one makes up
_FEW_DECODES = 4  # until it is known what they cost
_MIN_DECODES = 1.5  # in steps, on average, that show what each further one costs
_MIN_SPEEDUP = 2.0  # over the best that was measured, for a prompt to be called too late


class StepTimes:
    """A step time model of one engine: steps that decode shall take at most `max_slowdown` times their time alone.

    That holds on average: what steps without prefill leave of it is saved up, to a burst of prompts, for the next
    prefills, a hundredth to a tenth of a second at a time, and whoever comes first after a pause finds that much saved.
    The first steps of an engine are not bounded, and where a prompt's smallest chunk takes longer, it is computed all
    the same. `max_decodes` is how many may be in a step so that, with the prompts that come and go with them, it takes
    at most `max_decode_slowdown` times what a single one takes alone.
    """

    def __init__(self, max_slowdown: float, max_decode_slowdown: float | None = None) -> None:
        """Without `max_decode_slowdown` any number of decodes may be in a step."""
        self._max_slowdown = max_slowdown
        self._max_decode_slowdown = max_decode_slowdown
        self.max_decodes = math.inf  # of a step
        self._decode_s: dict[int, float] = {}  # of steps without prefill, by the bit length of the number of decodes
        self._slowdown = 1.0  # of steps with decodes, prompts included, against one that decodes a single sequence
        self._knows_company = False  # whether it was measured what each further sequence costs
        self._num_decodes = 1.0  # in those steps; both on average, the older the less
        self._prefill_s = 0.0  # what prefills added to steps, the older the less,
        self._num_prompt_tokens = 0.0  # and the number of their tokens likewise
        self._saved_s = math.inf  # what prefills may add beyond what the next step grants them; a debt below 0
        self._least_s_per_token: float | None = None  # of large steps
        self._num_mixed_steps = 0  # since the last step without prefill

    def record(self, num_decodes: int, num_prompt_tokens: int, seconds: float) -> None:
        """Take note of a step of so many decodes and so many tokens of prompts."""
        if num_decodes:
            self._bound_decodes(num_decodes, seconds)
        if num_prompt_tokens == 0:
            size = num_decodes.bit_length()
            known = self._decode_s.get(size, seconds)
            memory = _MEMORY_OF_SHORTER if known < seconds else _MEMORY_OF_LONGER
            self._decode_s[size] = memory * known + (1 - memory) * seconds
            if self._num_mixed_steps < _MAX_MIXED_STEPS:
                self._save(self._decode_s[size])
            self._num_mixed_steps = 0
            return
        self._num_mixed_steps += num_decodes > 0
        decode_s = self._decode_time(num_decodes) if num_decodes else 0.0
        if decode_s is not None:
            added_s = max(seconds - decode_s, 0.0)
            self._prefill_s = _MEMORY * self._prefill_s + added_s
            self._num_prompt_tokens = _MEMORY * self._num_prompt_tokens + num_prompt_tokens
            if num_decodes:
                self._spend(decode_s, added_s)
            else:
                self._saved_s = self._most_saved_s()  # nobody was held up
        if num_prompt_tokens >= _MIN_TOKENS:
            each = seconds / num_prompt_tokens
            self._least_s_per_token = min(each, self._least_s_per_token or each)

    def expected_s(self, num_decodes: int, num_prompt_tokens: int) -> float:
        """How long such a step will likely take, as far as is known; 0 until anything is."""
        prompts_s = self._prefill_s * num_prompt_tokens / self._num_prompt_tokens if self._num_prompt_tokens else 0.0
        return (self._decode_time(num_decodes) or 0.0) + prompts_s

    def prefill_budget(self, num_decodes: int, limit: int) -> int:
        """How many tokens of prompts may be computed beside so many decodes: `limit` until enough was measured.

        It is 0 while too little is saved, and now and then so that the time of decodes alone stays known.
        """
        if self._num_mixed_steps >= _MAX_MIXED_STEPS:
            return 0
        decode_s = self._decode_time(num_decodes)
        if not decode_s or not self._prefill_s:
            return limit
        granted_s = self._granted_s(decode_s)
        allowed_s = granted_s + self._saved_s
        if allowed_s < _LEAST_STEP_S:
            return 0
        budget = min(allowed_s, max(granted_s, _STEP_S)) * self._num_prompt_tokens / self._prefill_s
        return limit if budget >= limit else min(_chunk(budget), limit)

    def is_too_late(self, num_prompt_tokens: int, remaining_s: float) -> bool:
        """Whether a prompt can't be computed in that time, even at twice the speed ever measured."""
        least_s = self._least_s_per_token
        return least_s is not None and num_prompt_tokens * least_s > _MIN_SPEEDUP * remaining_s

    def _bound_decodes(self, num_decodes: int, seconds: float) -> None:
        """Find how many sequences make a step as long as is allowed, each making it longer by as much as these did."""
        alone_s = self._decode_s.get(1)
        if self._max_decode_slowdown is None or alone_s is None:
            return
        self._slowdown += _NEWS * (seconds / alone_s - self._slowdown)
        self._num_decodes += _NEWS * (num_decodes - self._num_decodes)
        if self._num_decodes < _MIN_DECODES:
            if not self._knows_company:
                self.max_decodes = _FEW_DECODES
            return
        self._knows_company = True
        each = max(self._slowdown - 1, 0.0) / (self._num_decodes - 1)
        self.max_decodes = 1 + (self._max_decode_slowdown - 1) / each if each else math.inf

    def _granted_s(self, decode_s: float) -> float:
        """What prompts may add to each step that takes so long without them."""
        return (self._max_slowdown - 1) * decode_s

    def _save(self, decode_s: float) -> None:
        """Keep what prefills could have added to a step, had there been any."""
        self._saved_s = min(self._saved_s + self._granted_s(decode_s), self._most_saved_s())

    def _most_saved_s(self) -> float:
        if not self._num_prompt_tokens:
            return math.inf
        return max(_BURST_TOKENS * self._prefill_s / self._num_prompt_tokens, _BURST_S)

    def _spend(self, decode_s: float, added_s: float) -> None:
        """Take what prefills added beyond what was granted from what was saved, or make a debt, which less repays."""
        granted_s = self._granted_s(decode_s)
        self._saved_s = max(min(self._saved_s + granted_s - added_s, max(self._saved_s, 0.0)), -granted_s)

    def _decode_time(self, num_decodes: int) -> float | None:
        """The time of so many decodes alone; where that was never measured, that of the next smaller number."""
        sizes = [size for size in self._decode_s if size <= num_decodes.bit_length()]
        return self._decode_s[max(sizes)] if sizes else None


def _chunk(budget: float) -> int:
    """The largest of the few sizes of chunks that fits: a kernel is made for each number of tokens that it meets."""
    grain = 16 if budget >= 64 else 4
    return int(budget // grain) * grain if budget >= grain else _MIN_CHUNK

"""The parameters of a generation: the one table of their names, types and defaults.

A field here has the name and the default of the contract's field (`sluice.v1.SamplingParams`, `StopParams`); its range
is the contract's rule. Resolving, echoing, copying and the engine's check go by these fields, so that a new parameter
is a field of the contract, a field here and its effect in the sampler.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

_SEED_BITS = 63  # of one that is drawn


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen. The defaults change nothing of the model's own distribution.

    None is off; of `seed` it is one that is drawn at admission.
    """

    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0
    typical_p: float = 1.0
    frequency_penalty: float = 0.0  # over generated tokens, as OpenAI defines it
    presence_penalty: float = 0.0  # over generated tokens, as OpenAI defines it
    repetition_penalty: float = 1.0  # over prompt and generated tokens, as transformers defines it
    seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    watermark: bool = False  # as `service.engine.watermark` says

    def with_next_seed(self, distance: int) -> SamplingParams:
        """The same parameters with the seed that is `distance` after theirs."""
        return self if self.seed is None else replace(self, seed=(self.seed + distance) % 2**_SEED_BITS)

    def with_seed(self, drawn: int | None = None) -> SamplingParams:
        """The same parameters; if they have no seed, with the one that was drawn before, or with a new one."""
        if self.seed is not None:
            return self
        return replace(self, seed=secrets.randbits(_SEED_BITS) if drawn is None else drawn)


@dataclass(frozen=True, slots=True)
class StopParams:
    """When a choice ends. `max_tokens` None means up to the model's context length."""

    max_tokens: int | None = None
    min_tokens: int = 0
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False  # what ended the text stays at its end


@dataclass(frozen=True, slots=True)
class LogprobsOptions:
    """Which logprobs are told: the sampled token's, and those of the `top_logprobs` most likely ones beside it.

    Those of `token_ids` follow, in their order, however likely they are.
    """

    top_logprobs: int = 0
    token_ids: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a parameter takes; None is no bound."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            math.isfinite(value)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        bounds = (
            ("at least", self.at_least),
            ("above", self.above),
            ("at most", self.at_most),
            ("below", self.below),
        )
        return " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None) or "a finite number"


# By the path of a parameter, such as `sampling.temperature`. Read from the contract where requests come from there.
Ranges = Mapping[str, Range]

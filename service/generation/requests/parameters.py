"""The parameters of a generation: the one table of their names, types, defaults and traits.

A field has the name and the default of the contract's field (`sluice.v1.SamplingParams`, `StopParams`), and its range
is the contract's rule. Resolving, echoing, copying, drawing, spans and the engine's check are derived from these fields
and their traits, so a new parameter is a field of the contract, a field here and an effect in the sampler.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Flag, auto
from typing import Any, Final

_SEED_BITS = 63  # of a drawn seed
_TRAITS: Final = "traits"  # the key in a field's metadata


class Trait(Flag):
    """Properties of a parameter, in the metadata of its field."""

    DRAW = auto()  # decides how a token is drawn from the changed logits; a greedy choice ignores it
    MODEL = auto()  # a model's generation_config.json may give its default
    SPAN = auto()  # recorded on spans as gen_ai.request.NAME
    TOKENS = auto()  # a mapping of token ids to numbers
    TOKEN_LIST = auto()  # a list of token ids
    COUNT = auto()  # an integer; 0 in a request turns it off, even if the model has a default: the value is None


def _with(traits: Trait) -> dict[str, Trait]:
    """Return a field's metadata with its traits."""
    return {_TRAITS: traits}


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The parameters of the choice of the next token. The defaults leave the model's distribution unchanged.

    None is off; a `seed` of None is drawn at admission. Parameters without Trait.DRAW, except the seed, are used by the
    effects of `service.engine.sampler.effects.table`.
    """

    # Divides the logits; 0 is greedy.
    temperature: float = field(default=1.0, metadata=_with(Trait.DRAW | Trait.MODEL | Trait.SPAN))
    top_p: float = field(default=1.0, metadata=_with(Trait.DRAW | Trait.MODEL | Trait.SPAN))
    top_k: int | None = field(default=None, metadata=_with(Trait.DRAW | Trait.MODEL | Trait.SPAN | Trait.COUNT))
    min_p: float = field(default=0.0, metadata=_with(Trait.DRAW | Trait.MODEL))
    typical_p: float = field(default=1.0, metadata=_with(Trait.DRAW | Trait.MODEL))
    # For generated tokens, as OpenAI defines both.
    frequency_penalty: float = field(default=0.0, metadata=_with(Trait.SPAN))
    presence_penalty: float = field(default=0.0, metadata=_with(Trait.SPAN))
    # For prompt and generated tokens, as transformers defines it.
    repetition_penalty: float = field(default=1.0, metadata=_with(Trait.MODEL))
    seed: int | None = field(default=None, metadata=_with(Trait.SPAN))
    logit_bias: Mapping[int, float] = field(default_factory=dict, metadata=_with(Trait.TOKENS))
    watermark: bool = False  # as `service.engine.tokens.watermark` defines it
    allowed_token_ids: Sequence[int] = field(default=(), metadata=_with(Trait.TOKEN_LIST))  # empty: all

    @property
    def is_greedy(self) -> bool:
        """True if the most likely token is chosen."""
        return self.temperature <= 0

    def as_greedy(self) -> SamplingParams:
        """Return the same parameters without those of a draw: the most likely token is chosen."""
        off = SamplingParams()
        return replace(self, **{name: getattr(off, name) for name in DRAW_PARAMETERS} | {"temperature": 0.0})

    def with_next_seed(self, distance: int) -> SamplingParams:
        """Return the same parameters with the seed that is `distance` after their own."""
        return self if self.seed is None else replace(self, seed=(self.seed + distance) % 2**_SEED_BITS)

    def with_seed(self, drawn: int | None = None) -> SamplingParams:
        """Return the same parameters; if they have no seed, with the `drawn` one, or with a new one."""
        if self.seed is not None:
            return self
        return replace(self, seed=secrets.randbits(_SEED_BITS) if drawn is None else drawn)

    def token_values(self) -> dict[str, Mapping[int, float]]:
        """The mappings of token ids to numbers, by the names of their parameters."""
        return {name: getattr(self, name) for name in _TOKEN_PARAMETERS}

    def token_lists(self) -> dict[str, Sequence[int]]:
        """The lists of token ids, by the names of their parameters."""
        return {name: getattr(self, name) for name in _TOKEN_LISTS}


@dataclass(frozen=True, slots=True)
class StopParams:
    """The conditions that end a choice. `max_tokens` None means up to the model's context length."""

    max_tokens: int | None = field(default=None, metadata=_with(Trait.SPAN))
    min_tokens: int = 0
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False  # keeps the stop string at the end of the text

    def contradictions(self) -> Iterator[tuple[str, str]]:
        """Yield each parameter that contradicts another one, and the reason."""
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            yield "min_tokens", f"min_tokens ({self.min_tokens}) exceeds max_tokens ({self.max_tokens})"


def parameters_with(trait: Trait, kind: type[SamplingParams | StopParams]) -> tuple[str, ...]:
    """Return the names of a table's parameters that have a trait, in the table's order."""
    return tuple(each.name for each in fields(kind) if trait & each.metadata.get(_TRAITS, Trait(0)))


def values_with(trait: Trait, params: SamplingParams | StopParams) -> dict[str, Any]:
    """Return the values of the parameters that have a trait, by name, except those that are off (None)."""
    found = {name: getattr(params, name) for name in parameters_with(trait, type(params))}
    return {name: value for name, value in found.items() if value is not None}


DRAW_PARAMETERS: Final = parameters_with(Trait.DRAW, SamplingParams)
MODEL_DEFAULTS: Final = parameters_with(Trait.MODEL, SamplingParams)
_TOKEN_PARAMETERS: Final = parameters_with(Trait.TOKENS, SamplingParams)
_TOKEN_LISTS: Final = parameters_with(Trait.TOKEN_LIST, SamplingParams)


@dataclass(frozen=True, slots=True)
class LogprobsOptions:
    """The requested logprobs: the sampled token's, and those of the `top_logprobs` most likely tokens.

    Those of `token_ids` follow in their order, regardless of their probability.
    """

    top_logprobs: int = 0
    token_ids: Sequence[int] = ()

    @property
    def num_per_token(self) -> int:
        """The number of logprobs of each token; fewer if the sampled token is among the others."""
        return 1 + self.top_logprobs + len(self.token_ids)


@dataclass(frozen=True, slots=True)
class Range:
    """The allowed values of a parameter; None is no bound."""

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


# By the path of a parameter, such as `sampling.temperature`. Read from the contract where requests are received.
Ranges = Mapping[str, Range]

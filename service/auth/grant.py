"""The rights of a key or token, as written in a keys file or in a token's claim."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from process.settings.describe import describe
from service.generation.caller import Caller, Limits, Scope

Pattern: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)]
Name: TypeAlias = Annotated[str, Field(max_length=256)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class LimitsEntry(Limits):
    """Limits with their types checked and unknown names refused."""

    @model_validator(mode="after")
    def _are_at_least_one(self) -> Self:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and value < 1:
                raise ValueError(f"{field.name} must be at least 1, not {value}; leave it out for no limit")
        return self


describe(
    LimitsEntry,
    {
        "requests_per_minute": "requests let in a minute",
        "input_tokens_per_minute": "tokens of prompts a minute",
        "output_tokens_per_minute": "tokens of answers a minute",
        "concurrent_requests": "requests in progress at a time",
        "max_tokens": "largest max_tokens of a request",
        "max_n": "largest n of a request",
    },
)


class Grant(BaseModel):
    """What its holder may do. What is left out is as little as possible of scopes, and everything of names."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scopes: tuple[Scope, ...] = ()
    models: tuple[Pattern, ...] = ("*",)
    endpoints: tuple[Pattern, ...] = ("*",)
    limits: LimitsEntry = LimitsEntry()
    limits_by_model: dict[Pattern, LimitsEntry] = Field(default_factory=dict)
    min_priority: Annotated[int, Field(ge=-100, le=100)] = 0
    weight: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 1.0
    cache_group: Name = ""

    def caller(self, caller_id: str, name: str) -> Caller:
        """The caller that holds it. Without a group of its own, cached prompts are the caller's alone."""
        return Caller(
            id=caller_id,
            name=name,
            scopes=frozenset(self.scopes),
            models=self.models,
            endpoints=self.endpoints,
            limits=self.limits,
            limits_by_model=self.limits_by_model,
            min_priority=self.min_priority,
            weight=self.weight,
            cache_group=self.cache_group or caller_id,
        )

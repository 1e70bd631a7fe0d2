"""The rights of a key or token, as written in a keys file or in a token's claim."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from service.generation.caller import Caller, Limits, Scope
from service.generation.service_level import ServiceLevel

Pattern: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)]
Name: TypeAlias = Annotated[str, Field(max_length=256)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class LimitsEntry(Limits):
    """Limits of one API key, or of one model for all keys together; None means no limit."""


class Grant(BaseModel):
    """The rights of a holder. By default there are no scopes, and all names of models and endpoints are permitted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scopes: tuple[Scope, ...] = ()
    models: tuple[Pattern, ...] = ("*",)
    endpoints: tuple[Pattern, ...] = ("*",)
    limits: LimitsEntry = LimitsEntry()
    limits_by_model: dict[Pattern, LimitsEntry] = Field(default_factory=dict)
    min_priority: Annotated[int, Field(ge=-100, le=100)] = 0
    weight: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 1.0
    cache_group: Name = ""
    slo_first_token_seconds: Seconds | None = None
    slo_token_seconds: Seconds | None = None

    def caller(self, caller_id: str, name: str) -> Caller:
        """Return the caller with these rights. Without `cache_group`, it shares cached prompts with no other caller.

        The group is then empty, since a group may have the name of a key.
        """
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
            service_level=ServiceLevel(self.slo_first_token_seconds, self.slo_token_seconds),
            cache_group=self.cache_group,
        )

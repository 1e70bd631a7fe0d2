"""The settings of endpoints: names for models that share traffic."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

from process.settings.setting import UNIT
from service.settings.names import ModelName, PlainName, first_duplicate

Seconds: TypeAlias = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False, json_schema_extra={UNIT: "seconds"})]


class EntitySettings(BaseModel):
    """One model behind an endpoint: sluice.v1.ServedEntity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: PlainName = Field(description="name, unique in its endpoint, by which requests can choose it")
    model: ModelName = Field(description="name of a served model, or MODEL:NAME of an adapter")
    traffic_percentage: Annotated[int, Field(ge=0, le=100, json_schema_extra={UNIT: "percent"})] = Field(
        description="share of the endpoint's requests; the shares of an endpoint add up to 100"
    )


class EndpointSettings(BaseModel):
    """A name for one or several models that share its traffic. Clients can't change it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: PlainName = Field(description="name that requests give as their model; must not be a model's name")
    entities: list[EntitySettings] = Field(min_length=1, max_length=16, description="models behind the endpoint")
    slo_first_token_seconds: Seconds | None = Field(
        default=None, description="default objective of requests for the first token; null: that of the key"
    )
    slo_token_seconds: Seconds | None = Field(
        default=None, description="objective for the mean time between tokens, likewise"
    )

    @field_validator("entities")
    @classmethod
    def _entities_fit(cls, entities: list[EntitySettings]) -> list[EntitySettings]:
        if (name := first_duplicate([entity.name for entity in entities])) is not None:
            raise ValueError(f"duplicate name {name!r}")
        total = sum(entity.traffic_percentage for entity in entities)
        if total != 100:
            raise ValueError(f"traffic_percentage must add up to 100, not {total}")
        return entities

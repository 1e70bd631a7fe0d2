"""The settings of quotas."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from process.settings.quantities import Interval, Tokens
from service.auth.grant import LimitsEntry
from service.settings.names import ModelName
from service.settings.redis_url import RedisUrl


class QuotaSettings(BaseModel):
    """How the use of clients with limits is counted; see docs/security/limits.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    redis_url: RedisUrl | None = Field(
        None,
        repr=False,  # it may contain a password
        description="Redis or Valkey server in which replicas count together; null: each replica counts alone",
    )
    redis_timeout_s: Interval = Field(1, description="time without a response after which Redis counts as lost")
    on_store_loss: Literal["local", "refuse"] = Field(
        "local",
        description="what happens while Redis is lost: each replica counts alone, or clients with limits are rejected",
    )
    expected_output_tokens: Tokens = Field(
        1024, description="output tokens charged in advance for a request without max_tokens, until its answer ends"
    )
    limits_by_model: dict[ModelName, LimitsEntry] = Field(
        {}, description="limits of all clients together, by a model's name or pattern"
    )

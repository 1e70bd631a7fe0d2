"""The settings of the store that replicas share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from process.settings.quantities import Interval
from service.settings.redis_url import RedisUrl


class StoreSettings(BaseModel):
    """The store that replicas share; see docs/operation/deployment.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    redis_url: RedisUrl | None = Field(
        None,
        repr=False,  # it may contain a password
        description="Redis or Valkey server that stores the endpoints of all replicas, which models and adapters "
        "clients have loaded, and with auth.keys_in_store the API keys",
    )
    pool: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,256}$")] = Field(
        "", description="name of the pool of replicas that load the same models; pools load their models independently"
    )
    redis_timeout_s: Interval = Field(1, description="time without a response after which Redis counts as lost")

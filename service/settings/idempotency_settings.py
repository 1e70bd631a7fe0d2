"""The settings of calls with an id of the client's."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from process.settings.quantities import Bytes, Interval

_MIB: Final = 1 << 20


class IdempotencySettings(BaseModel):
    """The answers of calls with an id, which repeated calls get; see docs/features/idempotency.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    window_s: Interval = Field(600, description="time for which an answer is kept after its end")
    max_bytes: Bytes = Field(64 * _MIB, description="memory of these answers; above it the oldest ones are dropped")

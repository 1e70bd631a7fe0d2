"""The engine's settings with their types checked; unknown names are rejected."""

from __future__ import annotations

from dataclasses import field, fields

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from service.engine.interface.config import EngineConfig
from service.engine.tokens.watermark import Watermark

_DECLARED = {each.name: each.metadata for each in fields(EngineConfig)}


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class WatermarkSettings(Watermark):
    """Parameters of the watermark. Keep the key secret: it also imitates the watermark."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class EngineSettings(EngineConfig):
    """Limits of one engine's batch, cache and queue, and how it computes."""

    watermark: WatermarkSettings = field(default_factory=WatermarkSettings, metadata=_DECLARED["watermark"])

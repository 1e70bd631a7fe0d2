"""The values that Databricks documents for omitted parameters."""

from __future__ import annotations

from typing import Final

from sluice.v1 import chat_pb2

from gateway.dialects.seam.sampling_defaults import UNMODIFIED, SamplingDefaults

DEFAULT_EFFORT: Final = chat_pb2.REASONING_EFFORT_MEDIUM
DATABRICKS_DEFAULTS: Final[SamplingDefaults] = {**UNMODIFIED, "top_k": 0}

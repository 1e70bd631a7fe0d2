"""The default reasoning effort of Databricks."""

from __future__ import annotations

from typing import Final

from sluice.v1 import chat_pb2

DEFAULT_EFFORT: Final = chat_pb2.REASONING_EFFORT_MEDIUM

"""The field `model` of a body that may omit it."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

ModelName: TypeAlias = Annotated[str, msgspec.Meta(min_length=0)] | None
"""The name of the model; if it is absent, null or empty, the only model of the task is used."""

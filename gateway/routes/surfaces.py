"""The surfaces of all dialects."""

from __future__ import annotations

from typing import Final

from gateway.routes.anthropic import ANTHROPIC
from gateway.routes.azure import AZURE
from gateway.routes.databricks import DATABRICKS
from gateway.routes.mindie import MINDIE
from gateway.routes.models import MODELS
from gateway.routes.openai import OPENAI
from gateway.routes.rank import RANK
from gateway.routes.serving_endpoints import SERVING_ENDPOINTS
from gateway.routes.surface import Surface

# The first also shapes the errors of paths without a prefix here.
SURFACES: Final[tuple[Surface, ...]] = (OPENAI, MODELS, ANTHROPIC, AZURE, DATABRICKS, SERVING_ENDPOINTS, MINDIE, RANK)
OPERATIONS: Final = tuple(each for surface in SURFACES for each in surface.operations)

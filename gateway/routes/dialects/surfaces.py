"""The surfaces of all dialects."""

from __future__ import annotations

from typing import Final

from gateway.routes.dialects.anthropic import ANTHROPIC
from gateway.routes.dialects.azure import AZURE
from gateway.routes.dialects.cohere import COHERE
from gateway.routes.dialects.databricks import DATABRICKS
from gateway.routes.dialects.mindie import MINDIE
from gateway.routes.dialects.models import MODELS
from gateway.routes.dialects.ollama import OLLAMA
from gateway.routes.dialects.openai import OPENAI
from gateway.routes.dialects.rank import RANK
from gateway.routes.dialects.receipts import RECEIPTS
from gateway.routes.dialects.repository import REPOSITORY
from gateway.routes.dialects.serving_endpoints import SERVING_ENDPOINTS
from gateway.routes.dialects.usage import USAGE
from gateway.routes.surface.surface import Surface

# The first one also formats the errors of paths under no prefix.
SURFACES: Final[tuple[Surface, ...]] = (
    OPENAI,
    MODELS,
    USAGE,
    RECEIPTS,
    ANTHROPIC,
    AZURE,
    DATABRICKS,
    SERVING_ENDPOINTS,
    COHERE,
    OLLAMA,
    REPOSITORY,
    MINDIE,
    RANK,
)
OPERATIONS: Final = tuple(each for surface in SURFACES for each in surface.operations)

"""The routes of Databricks' generating APIs."""

from __future__ import annotations

from collections.abc import Callable

from starlette.routing import Route

from gateway.client import ServiceClient
from gateway.config import Settings
from gateway.dialects.databricks.chat import DatabricksChatTranslator
from gateway.dialects.databricks.completion import DatabricksCompletionTranslator
from gateway.dialects.databricks.embedding import DatabricksEmbeddingTranslator
from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.databricks.invocation import InvocationTranslator
from gateway.dialects.databricks.response import DatabricksResponseTranslator
from gateway.dialects.seam.translator import Translator
from gateway.routes.generation_endpoint import GenerationEndpoint
from gateway.routes.surface import Surface


def databricks_surface(client: ServiceClient, settings: Settings) -> Surface:
    """Everything that generates under /serving-endpoints. An endpoint's name may have slashes, as a model's may."""

    def post(path: str, translator: Callable[[], Translator]) -> Route:
        endpoint = GenerationEndpoint(translator, client, settings)
        return Route(f"/serving-endpoints/{path}", endpoint, methods=["POST"])

    routes = [
        post("chat/completions", DatabricksChatTranslator),
        post("completions", DatabricksCompletionTranslator),
        post("embeddings", DatabricksEmbeddingTranslator),
        post("responses", DatabricksResponseTranslator),
        post("{name:path}/invocations", InvocationTranslator),
    ]
    return Surface(routes, ("/serving-endpoints",), DatabricksErrors().refuse)

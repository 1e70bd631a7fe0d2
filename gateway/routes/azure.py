"""The routes of the Azure AI model inference API, at the root and under /models."""

from __future__ import annotations

from starlette.routing import Route

from gateway.client import Caller, ServiceClient
from gateway.config import Settings
from gateway.dialects.azure.chat import AzureTranslator
from gateway.dialects.azure.embedding import AzureEmbeddingTranslator
from gateway.dialects.azure.error import AzureErrors
from gateway.dialects.azure.model import to_info
from gateway.dialects.azure.request import check_version, deployment
from gateway.dialects.seam.arrival import Arrival
from gateway.routes.generation_endpoint import GenerationEndpoint
from gateway.routes.lookup_endpoint import LookupEndpoint
from gateway.routes.model_choice import ModelChoice
from gateway.routes.prepared_client import PreparedClient
from gateway.routes.surface import Surface


def azure_surface(client: ServiceClient, settings: Settings) -> Surface:
    """Chat, embeddings and what is known of the model."""
    refuse = AzureErrors().refuse
    choice = ModelChoice(client)
    choosing = PreparedClient(client, choice.settle)

    async def info(arrival: Arrival, caller: Caller) -> bytes:
        check_version(arrival)
        return to_info(await choice.default(deployment(arrival), caller))

    chat = GenerationEndpoint(AzureTranslator, choosing, settings)
    embeddings = GenerationEndpoint(AzureEmbeddingTranslator, choosing, settings)
    lookup = LookupEndpoint(info, refuse, settings)
    routes = [
        route
        for base in ("", "/models")
        for route in (
            Route(f"{base}/chat/completions", chat, methods=["POST"]),
            Route(f"{base}/embeddings", embeddings, methods=["POST"]),
            Route(f"{base}/info", lookup, methods=["GET"]),
        )
    ]
    return Surface(routes, ("/chat", "/embeddings", "/info", "/models"), refuse)

"""The routes of the OpenAI style, under /v1, and under /openai as Azure's hosting of it has them."""

from __future__ import annotations

from collections.abc import Callable

from starlette.routing import Route

from gateway.client import Caller, ServiceClient
from gateway.config import Settings
from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionTranslator
from gateway.dialects.openai.deployment import (
    DeploymentChatTranslator,
    DeploymentCompletionTranslator,
    DeploymentEmbeddingTranslator,
)
from gateway.dialects.openai.embedding import OpenAIEmbeddingTranslator
from gateway.dialects.openai.model import to_model, to_model_list
from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.seam.arrival import Arrival
from gateway.dialects.seam.translator import Translator
from gateway.routes.generation_endpoint import GenerationEndpoint
from gateway.routes.lookup_endpoint import LookupEndpoint
from gateway.routes.surface import Surface


def openai_surface(client: ServiceClient, settings: Settings) -> Surface:
    """Everything under /v1 and /openai. A deployment's name is a model's or an endpoint's, and may have slashes."""
    refuse = OpenAITranslator().refuse

    async def list_models(arrival: Arrival, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
        return to_model_list(await client.list_models(caller))

    async def get_model(arrival: Arrival, caller: Caller) -> bytes:
        return to_model(await client.get_model(arrival.path["model"], caller))

    def post(path: str, translator: Callable[[], Translator]) -> Route:
        return Route(path, GenerationEndpoint(translator, client, settings), methods=["POST"])

    routes = [
        post("/v1/chat/completions", OpenAITranslator),
        post("/v1/completions", OpenAICompletionTranslator),
        post("/v1/embeddings", OpenAIEmbeddingTranslator),
        post("/v1/responses", OpenAIResponseTranslator),
        post("/openai/deployments/{name:path}/chat/completions", DeploymentChatTranslator),
        post("/openai/deployments/{name:path}/completions", DeploymentCompletionTranslator),
        post("/openai/deployments/{name:path}/embeddings", DeploymentEmbeddingTranslator),
        Route("/v1/models", LookupEndpoint(list_models, refuse, settings), methods=["GET"]),
        Route("/v1/models/{model:path}", LookupEndpoint(get_model, refuse, settings), methods=["GET"]),
    ]
    return Surface(routes, ("/v1", "/openai"), refuse)

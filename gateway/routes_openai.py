"""The routes of the OpenAI style."""

from __future__ import annotations

from starlette.routing import Route

from gateway.client import Caller, ServiceClient
from gateway.config import Settings
from gateway.dialects.call import Arrival
from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionTranslator
from gateway.dialects.openai.embedding import OpenAIEmbeddingTranslator
from gateway.dialects.openai.model import to_model, to_model_list
from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.endpoint import GenerationEndpoint
from gateway.lookup_endpoint import LookupEndpoint
from gateway.surface import Surface


def openai_surface(client: ServiceClient, settings: Settings) -> Surface:
    """Everything under /v1."""
    refuse = OpenAITranslator().refuse

    async def list_models(arrival: Arrival, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
        return to_model_list(await client.list_models(caller))

    async def get_model(arrival: Arrival, caller: Caller) -> bytes:
        return to_model(await client.get_model(arrival.path["model"], caller))

    routes = [
        Route("/v1/chat/completions", GenerationEndpoint(OpenAITranslator, client, settings), methods=["POST"]),
        Route("/v1/completions", GenerationEndpoint(OpenAICompletionTranslator, client, settings), methods=["POST"]),
        Route("/v1/embeddings", GenerationEndpoint(OpenAIEmbeddingTranslator, client, settings), methods=["POST"]),
        Route("/v1/responses", GenerationEndpoint(OpenAIResponseTranslator, client, settings), methods=["POST"]),
        Route("/v1/models", LookupEndpoint(list_models, refuse, settings), methods=["GET"]),
        Route("/v1/models/{model:path}", LookupEndpoint(get_model, refuse, settings), methods=["GET"]),
    ]
    return Surface(routes, ("/v1",), refuse)

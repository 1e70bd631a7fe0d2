"""The routes of the Azure AI model inference API, at the root and under /models."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.azure.answer import AzureError, ModelInfoAnswer
from gateway.dialects.azure.chat import AzureChatBody, AzureTranslator
from gateway.dialects.azure.embedding import AzureEmbeddingBody, AzureEmbeddingTranslator
from gateway.dialects.azure.error import AzureErrors
from gateway.dialects.azure.model import to_info
from gateway.dialects.azure.request import check_version, deployment
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.sampling_defaults import UNMODIFIED
from gateway.routes.examples.example import BY_EMBEDDER, BY_MODEL, MODEL, chat, embedding
from gateway.routes.handling.handler import Generation, Lookup
from gateway.routes.surface.operation import Operation, Parameter
from gateway.routes.surface.surface import Surface
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller

_SHARED: Final = (
    Parameter(
        "api-version",
        "query",
        "A date, or a date and -preview; all are served alike.",
        "2024-05-01-preview",
        schema={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}(-preview)?$"},
    ),
    Parameter("azureml-model-deployment", "header", "The deployment to use, where there are several.", MODEL),
)
_EXTRAS: Final = Parameter(
    "extra-parameters",
    "header",
    "What to do with parameters that the API doesn't define.",
    "error",
    schema={"type": "string", "enum": ["error", "ignore", "drop", "pass-through"]},
)


async def _settle(upstream: Upstream, request: Any, caller: Caller) -> None:
    """Choose the model of a request."""
    await upstream.choice.settle(request, caller)


async def _info(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:
    check_version(http_request)
    return to_info(await upstream.choice.default(deployment(http_request), caller))


def _operations(base: str) -> tuple[Operation, ...]:
    return (
        Operation("POST", f"{base}/chat/completions", "Creates a chat completion.",
                  Generation(AzureTranslator, _settle, UNMODIFIED), [chat(AzureChatBody, **BY_MODEL)], streams=True,
                  parameters=[*_SHARED, _EXTRAS]),
        Operation("POST", f"{base}/embeddings", "Creates embeddings.", Generation(AzureEmbeddingTranslator, _settle),
                  [embedding(AzureEmbeddingBody, embedder_in="azureml-model-deployment", **BY_EMBEDDER)],
                  parameters=[*_SHARED, _EXTRAS]),
        Operation("GET", f"{base}/info", "Describes the model.", Lookup(_info), answer=ModelInfoAnswer,
                  parameters=_SHARED),
    )  # fmt: skip


AZURE: Final = Surface(
    tag="Azure AI model inference",
    error=AzureError,
    error_response=AzureErrors().error_response,
    prefixes=("/chat", "/embeddings", "/info", "/models"),
    operations=(*_operations(""), *_operations("/models")),
)

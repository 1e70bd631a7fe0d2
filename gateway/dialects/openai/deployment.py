"""The OpenAI style on the paths of Azure OpenAI: `/openai/deployments/{name}/…`.

The path names the model or endpoint; `model` in the body and `api-version` have no effect.
"""

from __future__ import annotations

from sluice.v1 import chat_pb2, completion_pb2, embedding_pb2

from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionTranslator
from gateway.dialects.openai.embedding import OpenAIEmbeddingTranslator
from gateway.dialects.seam.contract_limit import check_text
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest


class DeploymentChatTranslator(OpenAITranslator):
    """Translates one chat request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[chat_pb2.ChatRequest]:
        """Parse a request. Raise Failure."""
        parsed = super().parse(http_request)
        _ask_for(http_request.path["name"], parsed.request)
        return parsed


class DeploymentCompletionTranslator(OpenAICompletionTranslator):
    """Translates one request for a completion."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[completion_pb2.CompleteRequest]:
        """Parse a request. Raise Failure."""
        parsed = super().parse(http_request)
        _ask_for(http_request.path["name"], parsed.request)
        return parsed


class DeploymentEmbeddingTranslator(OpenAIEmbeddingTranslator):
    """Translates one embedding request."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[embedding_pb2.EmbedRequest]:
        """Parse a request. Raise Failure."""
        parsed = super().parse(http_request)
        _ask_for(http_request.path["name"], parsed.request)
        return parsed


def _ask_for(
    name: str, request: chat_pb2.ChatRequest | completion_pb2.CompleteRequest | embedding_pb2.EmbedRequest
) -> None:
    # The body's model is validated, although the model in the path replaces it.
    check_text(type(request), "model", request.model or None, "model")
    request.model = name

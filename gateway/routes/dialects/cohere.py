"""The routes of Cohere's chats and embeddings, under /v2. Its reranking is in `rank`, with that of other servers."""

from __future__ import annotations

from typing import Final

from gateway.dialects.cohere.answer import CohereChatAnswer, CohereChatEvent, CohereEmbedAnswer, CohereError
from gateway.dialects.cohere.body import CohereChatBody
from gateway.dialects.cohere.chat import CohereTranslator
from gateway.dialects.cohere.embedding import CohereEmbedBody, CohereEmbedTranslator
from gateway.dialects.cohere.error import CohereErrors
from gateway.routes.examples.example import BY_EMBEDDER, BY_MODEL
from gateway.routes.handling.handler import Generation
from gateway.routes.surface.operation import Body, Operation
from gateway.routes.surface.surface import Surface

_CHAT: Final = Body(
    CohereChatBody,
    {**BY_MODEL, "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 16},
    CohereChatAnswer,
    chunk=CohereChatEvent,
)
_EMBED: Final = Body(
    CohereEmbedBody, {**BY_EMBEDDER, "texts": ["a cat"], "input_type": "search_document"}, CohereEmbedAnswer
)

COHERE: Final = Surface(
    tag="Cohere",
    error=CohereError,
    error_response=CohereErrors().error_response,
    prefixes=("/v2/chat", "/v2/embed"),
    operations=(
        Operation(
            "POST", "/v2/chat", "Creates a chat completion.", Generation(CohereTranslator), [_CHAT], streams=True
        ),
        Operation("POST", "/v2/embed", "Creates embeddings.", Generation(CohereEmbedTranslator), [_EMBED]),
    ),
)

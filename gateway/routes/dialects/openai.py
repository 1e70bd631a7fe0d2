"""The routes of the OpenAI style, under /v1, and under /openai, as Azure OpenAI has them.

Tokenization has vLLM's paths, also under /v1 for clients with that base URL.
"""

from __future__ import annotations

from typing import Final

from gateway.dialects.openai.answer import ErrorAnswer, InputTokensAnswer, TextAnswer, TokensAnswer
from gateway.dialects.openai.chat import ChatCompletionBody, OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionBody, OpenAICompletionTranslator
from gateway.dialects.openai.deployment import (
    DeploymentChatTranslator,
    DeploymentCompletionTranslator,
    DeploymentEmbeddingTranslator,
)
from gateway.dialects.openai.embedding import OpenAIEmbeddingBody, OpenAIEmbeddingTranslator
from gateway.dialects.openai.error import OpenAIErrors
from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.openai.tokens import (
    DetokenizeBody,
    TokenizeBody,
    parse_detokenize,
    parse_input_tokens,
    parse_tokenize,
)
from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.routes.dialects.stored.batches import batches
from gateway.routes.dialects.stored.conversations import conversations
from gateway.routes.dialects.stored.files import files
from gateway.routes.dialects.stored.stored_responses import stored_responses
from gateway.routes.examples.example import (
    BY_EMBEDDER,
    BY_MODEL,
    ENDPOINT_NAME,
    RESPONSE,
    chat,
    completion,
    embedding,
)
from gateway.routes.handling.handler import Generation, Inquiry
from gateway.routes.surface.operation import Body, Operation
from gateway.routes.surface.surface import Surface

_DEPLOYMENT: Final = "/openai/deployments/{name:path}"  # a model's or an endpoint's name, which may have slashes


def _post(route: str, summary: str, handler: Generation | Inquiry, body: Body, *, streams: bool = False) -> Operation:
    """Return an operation with a body."""
    parameters = [ENDPOINT_NAME] if "{name" in route else []
    return Operation("POST", route, summary, handler, [body], streams=streams, parameters=parameters)


def _responses(base: str) -> tuple[Operation, ...]:
    """Return the operations of responses and conversations below a path."""
    counted = Body(ResponseBody, BY_MODEL | {"input": "Hello!"}, InputTokensAnswer)
    return (
        _post(f"{base}/responses", "Creates a response.", Generation(OpenAIResponseTranslator), RESPONSE, streams=True),
        _post(f"{base}/responses/input_tokens", "Counts the tokens of a response's input.",
              Inquiry(parse_input_tokens), counted),
        *stored_responses(base),
        *conversations(base),
    )  # fmt: skip


def _tokens(base: str) -> tuple[Operation, ...]:
    """Return the operations of tokens below a path."""
    text = Body(TokenizeBody, BY_MODEL | {"prompt": "Hello!"}, TokensAnswer)
    tokens = Body(DetokenizeBody, BY_MODEL | {"tokens": [72, 105]}, TextAnswer)
    return (
        _post(f"{base}/tokenize", "Turns a prompt into tokens.", Inquiry(parse_tokenize), text),
        _post(f"{base}/detokenize", "Turns tokens into text.", Inquiry(parse_detokenize), tokens),
    )


def _operations(base: str) -> tuple[Operation, ...]:
    """Return all operations below a path."""
    return (
        _post(f"{base}/chat/completions", "Creates a chat completion.", Generation(OpenAITranslator),
              chat(ChatCompletionBody, **BY_MODEL), streams=True),
        _post(f"{base}/completions", "Creates text completions.", Generation(OpenAICompletionTranslator),
              completion(OpenAICompletionBody, **BY_MODEL), streams=True),
        _post(f"{base}/embeddings", "Creates embeddings.", Generation(OpenAIEmbeddingTranslator),
              embedding(OpenAIEmbeddingBody, **BY_EMBEDDER)),
        *_responses(base),
        *files(base),
        *batches(base),
    )  # fmt: skip


OPENAI: Final = Surface(
    tag="OpenAI style",
    error=ErrorAnswer,
    error_response=OpenAIErrors().error_response,
    prefixes=("/v1", "/openai", "/api/v1", "/tokenize", "/detokenize"),
    operations=(
        *_operations("/v1"),
        *_operations("/openai/v1"),
        *_operations("/openai"),
        *_tokens(""),
        *_tokens("/v1"),
        _post(f"{_DEPLOYMENT}/chat/completions", "Creates a chat completion.", Generation(DeploymentChatTranslator),
              chat(ChatCompletionBody), streams=True),
        _post(f"{_DEPLOYMENT}/completions", "Creates text completions.", Generation(DeploymentCompletionTranslator),
              completion(OpenAICompletionBody), streams=True),
        _post(f"{_DEPLOYMENT}/embeddings", "Creates embeddings.", Generation(DeploymentEmbeddingTranslator),
              embedding(OpenAIEmbeddingBody, embedder_in="name")),
    ),
)  # fmt: skip

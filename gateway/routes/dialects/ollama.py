"""The routes of Ollama's API, under /api."""

from __future__ import annotations

from typing import Final

from gateway.dialects.ollama.answer import (
    OllamaChatAnswer,
    OllamaEmbedAnswer,
    OllamaEmbeddingAnswer,
    OllamaError,
    OllamaGenerateAnswer,
    OllamaPsAnswer,
    OllamaShowAnswer,
    OllamaTagsAnswer,
    OllamaVersionAnswer,
)
from gateway.dialects.ollama.chat import OllamaChatBody, OllamaChatTranslator
from gateway.dialects.ollama.embedding import (
    OllamaEmbedBody,
    OllamaEmbeddingBody,
    OllamaEmbeddingTranslator,
    OllamaEmbedTranslator,
)
from gateway.dialects.ollama.error import OllamaErrors
from gateway.dialects.ollama.generate import OllamaGenerateBody, OllamaGenerateTranslator
from gateway.dialects.ollama.model import VERSION, OllamaShowBody, parse_show, to_ps, to_show, to_tags
from gateway.dialects.seam.encoder import StreamFormat
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.routes.examples.example import BY_EMBEDDER, BY_MODEL
from gateway.routes.handling.handler import Action, Change, Generation, Lookup
from gateway.routes.surface.operation import Body, Operation, Parameter
from gateway.routes.surface.surface import Surface
from gateway.routes.upstream.upstream import Upstream
from gateway.upstream.caller import Caller

_CHAT: Final = Body(
    OllamaChatBody,
    {**BY_MODEL, "messages": [{"role": "user", "content": "Hello!"}], "options": {"num_predict": 16}},
    OllamaChatAnswer,
    chunk=OllamaChatAnswer,
)
_GENERATE: Final = Body(
    OllamaGenerateBody,
    {**BY_MODEL, "prompt": "Hello!", "options": {"num_predict": 16}},
    OllamaGenerateAnswer,
    chunk=OllamaGenerateAnswer,
)
_EMBED: Final = Body(OllamaEmbedBody, {**BY_EMBEDDER, "input": ["a cat"]}, OllamaEmbedAnswer)
_EMBEDDING: Final = Body(OllamaEmbeddingBody, {**BY_EMBEDDER, "prompt": "a cat"}, OllamaEmbeddingAnswer)
_DIGEST: Final = Parameter("digest", "path", "The digest of a file.", "sha256:29fdb92e57cf0827")
_FOLDER: Final = (
    "an operator serves a model's folder with `sluice serve FOLDER`, or loads it with ModelService.LoadModel"
)
_MANAGED: Final = {  # the summary of each operation on models, and what to do here instead
    ("POST", "/api/pull"): ("Pulls a model.", f"models are not pulled by clients; {_FOLDER}"),
    ("POST", "/api/push"): ("Pushes a model.", "models are not pushed; copy their folder instead"),
    ("POST", "/api/create"): (
        "Creates a model.",
        f"models are not created by clients; send system and options with each request; {_FOLDER}",
    ),
    ("POST", "/api/copy"): (
        "Copies a model.",
        "models are not copied; an operator creates another name with POST /api/2.0/serving-endpoints",
    ),
    ("DELETE", "/api/delete"): (
        "Deletes a model.",
        "models are not deleted by clients; an operator ends their service with ModelService.UnloadModel",
    ),
    ("POST", "/api/blobs/{digest}"): ("Uploads a file of a model.", f"files are not uploaded; {_FOLDER}"),
}


async def _tags(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    return to_tags(await upstream.client.list_models(caller))


async def _ps(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    return to_ps(await upstream.client.list_models(caller))


async def _version(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
    return VERSION


def _managed(method: str, path: str) -> Operation:
    """Return an operation on models that clients of this server don't have; its error says what to do instead."""
    summary, text = _MANAGED[method, path]

    async def reject(upstream: Upstream, http_request: HttpRequest, caller: Caller) -> bytes:  # noqa: ARG001  a lookup's signature
        await upstream.client.require_key(caller)
        raise Failure(Reason.UNSUPPORTED_FEATURE, text)

    parameters = [_DIGEST] if "{digest}" in path else []
    return Operation(method, path, f"{summary} Always fails here.", Action(reject), parameters=parameters)


OLLAMA: Final = Surface(
    tag="Ollama",
    error=OllamaError,
    error_response=OllamaErrors().error_response,
    stream_format=StreamFormat.LINES,
    prefixes=("/api",),
    operations=(
        Operation("POST", "/api/chat", "Answers a conversation.", Generation(OllamaChatTranslator), [_CHAT],
                  streams=True),
        Operation("POST", "/api/generate", "Answers a prompt.", Generation(OllamaGenerateTranslator), [_GENERATE],
                  streams=True),
        Operation("POST", "/api/embed", "Creates embeddings.", Generation(OllamaEmbedTranslator), [_EMBED]),
        Operation("POST", "/api/embeddings", "Creates the embedding of one text.",
                  Generation(OllamaEmbeddingTranslator), [_EMBEDDING]),
        Operation("GET", "/api/tags", "Lists the models.", Lookup(_tags), answer=OllamaTagsAnswer),
        Operation("GET", "/api/ps", "Lists the models in memory.", Lookup(_ps), answer=OllamaPsAnswer),
        Operation("POST", "/api/show", "Describes a model.", Change(parse_show, to_show),
                  [Body(OllamaShowBody, BY_MODEL, OllamaShowAnswer)]),
        Operation("GET", "/api/version", "Returns the version of the API.", Lookup(_version),
                  answer=OllamaVersionAnswer),
        *(_managed(method, path) for method, path in _MANAGED),
    ),
)  # fmt: skip

"""Ollama's embeddings: `POST /api/embed`, and the older `POST /api/embeddings` for one text."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, Final

import msgspec
import orjson
from sluice.v1.embedding_pb2 import EmbedRequest, EmbedResponse
from sluice.v1.model_pb2 import KeepModelRequest
from sluice.v1.prompt_pb2 import Prompt
from sluice.v1.serving_pb2 import ERROR_BEHAVIOR_ERROR, ERROR_BEHAVIOR_TRUNCATE

from gateway.dialects.ollama.error import OllamaErrors
from gateway.dialects.ollama.keep_alive import KeepAlive, set_keep_alive
from gateway.dialects.ollama.model_name import served_name
from gateway.dialects.ollama.options import OllamaOptions
from gateway.dialects.seam.caller_name import dotted, renamed
from gateway.dialects.seam.contract_limit import check_length, check_values, put
from gateway.dialects.seam.encoder import WholeEncoder
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.json_body import decode
from gateway.dialects.seam.model_name import ModelName
from gateway.dialects.seam.translator import ParsedRequest

_SERVING: Final = {"serving": "", "serving.keep_alive_seconds": "keep_alive"}


class OllamaEmbedBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /api/embed`. Without input, it loads the model."""

    model: ModelName = None
    input: str | Annotated[list[str], msgspec.Meta(min_length=0)] | None = None
    truncate: bool | None = None
    dimensions: int | None = None
    priority: int | None = None
    options: OllamaOptions | None = None
    keep_alive: KeepAlive | None = None

    @property
    def texts(self) -> list[str]:
        """The texts to embed."""
        return [self.input] if isinstance(self.input, str) and self.input else list(self.input or ())

    def caller_name(self, field: str) -> str:
        """Return the caller's name of the contract's `field`: `inputs[1].text` → `input.1`."""
        path = renamed(dotted(field), {**_SERVING, "inputs": "input"}).removesuffix(".text")
        return "input" if isinstance(self.input, str) and path.startswith("input.") else path


class OllamaEmbeddingBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /api/embeddings`. Without a prompt, it loads the model."""

    model: ModelName = None
    prompt: str | None = None
    options: OllamaOptions | None = None
    keep_alive: KeepAlive | None = None


class _VectorsEncoder(WholeEncoder):
    """Encodes all vectors, with the time since the request was parsed."""

    def __init__(self, model: str, clock: Callable[[], int]) -> None:
        self._model = model
        self._clock = clock
        self._began = clock()

    def whole(self, response: Any) -> bytes:
        """Return the body of the answer; without vectors for a model that was only loaded."""
        if not isinstance(response, EmbedResponse):
            return orjson.dumps({"model": self._model or response.model.name, "embeddings": []})
        vectors = [list(each.values) for each in response.embeddings]
        return orjson.dumps(
            {
                "model": self._model or response.model,
                "embeddings": vectors,
                "total_duration": self._clock() - self._began,
                "prompt_eval_count": response.usage.prompt_tokens,
            }
        )


class _VectorEncoder(WholeEncoder):
    """Encodes one vector."""

    def whole(self, response: Any) -> bytes:
        """Return the body of the answer; an empty vector for a model that was only loaded."""
        vector = list(response.embeddings[0].values) if isinstance(response, EmbedResponse) else []
        return orjson.dumps({"embedding": vector})


_DECODER: Final = msgspec.json.Decoder(OllamaEmbedBody)
_OLDER_DECODER: Final = msgspec.json.Decoder(OllamaEmbeddingBody)


class OllamaEmbedTranslator(OllamaErrors):
    """Translates one request for vectors. `clock` returns nanoseconds."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock

    def parse(self, http_request: HttpRequest) -> ParsedRequest[EmbedRequest | KeepModelRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, _DECODER)
        encoder = _VectorsEncoder(body.model or "", self._clock)
        made = _to_embed(
            body.model, body.texts, "input", truncates=body.truncate is not False, keep_alive=body.keep_alive
        )
        put(made, "dimensions", body.dimensions, "dimensions")
        put(made.serving, "priority", body.priority, "priority")
        request = _to_request(made, body.options, body.caller_name)
        return ParsedRequest(request=request, stream=False, encoder=encoder, caller_name=body.caller_name)


class OllamaEmbeddingTranslator(OllamaErrors):
    """Translates one request for the vector of one text."""

    def parse(self, http_request: HttpRequest) -> ParsedRequest[EmbedRequest | KeepModelRequest]:
        """Parse a request. Raise Failure."""
        body = decode(http_request.body, _OLDER_DECODER)
        made = _to_embed(
            body.model, [body.prompt] if body.prompt else [], "prompt", truncates=True, keep_alive=body.keep_alive
        )
        request = _to_request(made, body.options, _older_name)
        return ParsedRequest(request=request, stream=False, encoder=_VectorEncoder(), caller_name=_older_name)


def _to_request(
    made: EmbedRequest, options: OllamaOptions | None, caller_name: Callable[[str], str]
) -> EmbedRequest | KeepModelRequest:
    """Return the request for vectors; without texts, one for the model. Raise Failure for numbers out of range."""
    if options is not None:
        options.check_range()
    if made.inputs:
        return made
    check_values(made, caller_name)
    request = KeepModelRequest(model=made.model)
    if made.serving.HasField("keep_alive_seconds"):
        request.keep_alive_seconds = made.serving.keep_alive_seconds
    return request


def _to_embed(
    model: str | None, texts: list[str], field: str, *, truncates: bool, keep_alive: KeepAlive | None
) -> EmbedRequest:
    """Return the request for the texts' vectors. Raise Failure for too many texts."""
    check_length(EmbedRequest, "inputs", texts, field)
    request = EmbedRequest(model=served_name(model or ""), inputs=[Prompt(text=text) for text in texts])
    set_keep_alive(request.serving, keep_alive)
    request.serving.error_behavior = ERROR_BEHAVIOR_TRUNCATE if truncates else ERROR_BEHAVIOR_ERROR
    return request


def _older_name(field: str) -> str:
    """Return the caller's name of the contract's `field` in the older body, which has one text."""
    return "prompt" if field.startswith("inputs") else renamed(dotted(field), _SERVING)

"""Working examples of bodies and parameters that several dialects share, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from gateway.dialects.openai_family.answers.answer import ChatAnswer, CompletionAnswer, EmbeddingsAnswer, ResponseAnswer
from gateway.dialects.openai_family.answers.chunk import ChatChunk, CompletionChunk, ResponseEvent
from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.routes.surface.operation import Body, Parameter

MODEL: Final = "sluice-demo"
EMBEDDER: Final = "all-minilm-l6-v2"
BY_MODEL: Final = {"model": MODEL}
BY_EMBEDDER: Final = {"model": EMBEDDER}

MODEL_NAME: Final = Parameter("model", "path", "A served model's name.", MODEL)
ENDPOINT_NAME: Final = Parameter(
    "name", "path", "An endpoint's name: a served model's, or one that was created.", MODEL
)

_MESSAGES: Final = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 16}
_PROMPT: Final = {"prompt": "One, two,", "max_tokens": 4}
_INPUT: Final = {"input": "a cat"}


def chat(kind: type[msgspec.Struct], **fields: Any) -> Body:
    """Return a conversation with these additional fields."""
    return Body(kind, fields | _MESSAGES, ChatAnswer, chunk=ChatChunk)


def completion(kind: type[msgspec.Struct], **fields: Any) -> Body:
    """Return a prompt with these additional fields."""
    return Body(kind, fields | _PROMPT, CompletionAnswer, chunk=CompletionChunk)


def embedding(kind: type[msgspec.Struct], *, embedder_in: str | None = None, **fields: Any) -> Body:
    """Return a text to embed with these additional fields. `embedder_in` is the parameter with the model."""
    return Body(kind, fields | _INPUT, EmbeddingsAnswer, {} if embedder_in is None else {embedder_in: EMBEDDER})


def response(kind: type[msgspec.Struct], **fields: Any) -> Body:
    """Return the input of a response with these additional fields."""
    return Body(kind, fields | {"input": "Hello!", "max_output_tokens": 16}, ResponseAnswer, chunk=ResponseEvent)


RESPONSE: Final = response(ResponseBody, **BY_MODEL)

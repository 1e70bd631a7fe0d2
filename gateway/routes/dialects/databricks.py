"""The routes of Databricks' generating APIs, under /serving-endpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.dialects.databricks.answer import DatabricksError
from gateway.dialects.databricks.chat import DatabricksChatBody, DatabricksChatTranslator
from gateway.dialects.databricks.completion import DatabricksCompletionBody, DatabricksCompletionTranslator
from gateway.dialects.databricks.defaults import DATABRICKS_DEFAULTS
from gateway.dialects.databricks.embedding import DatabricksEmbeddingBody, DatabricksEmbeddingTranslator
from gateway.dialects.databricks.error import DatabricksErrors
from gateway.dialects.databricks.invocation import InvocationTranslator
from gateway.dialects.databricks.response import DatabricksResponseTranslator
from gateway.dialects.openai_family.responses.body import ResponseBody
from gateway.dialects.seam.translator import Translator
from gateway.routes.examples.example import (
    BY_EMBEDDER,
    BY_MODEL,
    ENDPOINT_NAME,
    RESPONSE,
    chat,
    completion,
    embedding,
    response,
)
from gateway.routes.handling.handler import Generation
from gateway.routes.surface.operation import Operation
from gateway.routes.surface.surface import Surface

_ROOT: Final = "/serving-endpoints"


def _sampling(translator: Callable[[], Translator]) -> Generation:
    return Generation(translator, documented=DATABRICKS_DEFAULTS)


DATABRICKS: Final = Surface(
    tag="Databricks",
    error=DatabricksError,
    error_response=DatabricksErrors().error_response,
    prefixes=(_ROOT,),
    operations=(
        Operation("POST", f"{_ROOT}/{{name:path}}/invocations", "Queries an endpoint; the body decides the task.",
                  _sampling(InvocationTranslator), streams=True, parameters=[ENDPOINT_NAME],
                  bodies=[chat(DatabricksChatBody), completion(DatabricksCompletionBody),
                          embedding(DatabricksEmbeddingBody, embedder_in="name"),
                          response(ResponseBody)]),
        Operation("POST", f"{_ROOT}/chat/completions", "Creates a chat completion.",
                  _sampling(DatabricksChatTranslator), [chat(DatabricksChatBody, **BY_MODEL)], streams=True),
        Operation("POST", f"{_ROOT}/completions", "Creates text completions.",
                  _sampling(DatabricksCompletionTranslator), [completion(DatabricksCompletionBody, **BY_MODEL)],
                  streams=True),
        Operation("POST", f"{_ROOT}/embeddings", "Creates embeddings.",
                  Generation(DatabricksEmbeddingTranslator), [embedding(DatabricksEmbeddingBody, **BY_EMBEDDER)]),
        Operation("POST", f"{_ROOT}/responses", "Creates a response.",
                  _sampling(DatabricksResponseTranslator), [RESPONSE], streams=True),
    ),
)  # fmt: skip

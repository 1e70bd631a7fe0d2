"""Requests of Databricks' dialect."""

from __future__ import annotations

import json
from typing import Any

from gateway.dialects.databricks.chat import DatabricksChatTranslator
from gateway.dialects.databricks.completion import DatabricksCompletionTranslator
from gateway.dialects.databricks.embedding import DatabricksEmbeddingTranslator
from gateway.dialects.databricks.invocation import InvocationTranslator
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

CHAT = {"messages": [{"role": "user", "content": "hi"}]}
PROMPT = {"prompt": "hi"}
INPUT = {"input": "hi"}


def invoke(body: dict[str, Any], accept: str | None = None) -> ParsedRequest[Any]:
    """Return the call for a body sent to the endpoint `m`."""
    headers = {} if accept is None else {"accept": accept}
    return InvocationTranslator().parse(HttpRequest(json.dumps(body).encode(), headers, {"name": "m"}))


def at_base(body: dict[str, Any], accept: str = "*/*") -> ParsedRequest[Any]:
    """Return the call for a body sent to the base path of its task."""
    translator = (
        DatabricksChatTranslator if "messages" in body
        else DatabricksCompletionTranslator if "prompt" in body
        else DatabricksEmbeddingTranslator
    )  # fmt: skip
    return translator().parse(HttpRequest(json.dumps(body).encode(), {"accept": accept}))


def tool(num_properties: int = 0) -> dict[str, Any]:
    """Return a function with this number of parameters."""
    properties = {f"p{i}": {"type": "string"} for i in range(num_properties)}
    return {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": properties}}}

"""Requests of the Responses API."""

from __future__ import annotations

import json
from typing import Any

from sluice.v1 import response_pb2

from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"type": "function", "name": "f", "description": "Does.", "parameters": SCHEMA, "strict": True}
NESTED_TOOL = {"type": "function", "function": {key: value for key, value in TOOL.items() if key != "type"}}


def parse(**fields: Any) -> ParsedRequest[response_pb2.CreateResponseRequest]:
    """Return the call for a valid body changed by `fields`."""
    return OpenAIResponseTranslator().parse(HttpRequest(json.dumps({"model": "m", "input": "hi", **fields}).encode()))

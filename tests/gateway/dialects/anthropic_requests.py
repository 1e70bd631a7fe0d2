"""Requests of Anthropic's dialect."""

from __future__ import annotations

import json
from typing import Any

from sluice.v1 import chat_pb2

from gateway.dialects.anthropic.messages import AnthropicTranslator
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

HI: dict[str, Any] = {"role": "user", "content": "hi"}
CALL: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "look", "input": {"x": 1.0}}
CALLED: dict[str, Any] = {"role": "assistant", "content": [CALL]}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "c1", "content": "seen"}
SCHEMA: dict[str, Any] = {"type": "object", "maximum": 1.0}
TOOL: dict[str, Any] = {"name": "look", "input_schema": SCHEMA}


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content}


def parse(**fields: Any) -> ParsedRequest[chat_pb2.ChatRequest]:
    """Return the call for a valid body changed by `fields`."""
    body = {"model": "m", "max_tokens": 100, "messages": [HI], **fields}
    return AnthropicTranslator().parse(HttpRequest(json.dumps(body).encode()))

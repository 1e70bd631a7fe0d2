"""Chats and completions with fields of other servers."""

from __future__ import annotations

import json
from typing import Any

from sluice.v1 import chat_pb2, completion_pb2

from gateway.dialects.openai.chat import OpenAITranslator
from gateway.dialects.openai.completion import OpenAICompletionTranslator
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": [{"type": "text", "text": "I "}, {"type": "text", "text": "am"}]}


def parse(**fields: Any) -> ParsedRequest[chat_pb2.ChatRequest]:
    """Return the call for a chat with these fields."""
    body = {"model": "m", "messages": [USER], **fields}
    return OpenAITranslator().parse(HttpRequest(json.dumps(body).encode()))


def parse_completion(**fields: Any) -> ParsedRequest[completion_pb2.CompleteRequest]:
    """Return the call for a completion with these fields."""
    return OpenAICompletionTranslator().parse(
        HttpRequest(json.dumps({"model": "m", "prompt": "hi", **fields}).encode())
    )

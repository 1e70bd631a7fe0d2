"""Requests in Ollama's dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.ollama.chat import OllamaChatTranslator
from gateway.dialects.ollama.generate import OllamaGenerateTranslator
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

USER: Any = {"role": "user", "content": "hi"}


def http(**fields: Any) -> HttpRequest:
    """Return a request whose body has these fields."""
    return HttpRequest(json.dumps({"model": "m", **fields}).encode())


def chat(*messages: Any, **fields: Any) -> ParsedRequest[Any]:
    """Return the parsed chat with these messages."""
    return OllamaChatTranslator().parse(http(messages=list(messages or (USER,)), **fields))


def generate(**fields: Any) -> ParsedRequest[Any]:
    """Return the parsed generation."""
    return OllamaGenerateTranslator().parse(http(**fields))


def violation(call: Any) -> tuple[Reason, str | None]:
    """Return the reason and the field with which a call fails."""
    with pytest.raises(Failure) as caught:
        call()
    return caught.value.reason, caught.value.field

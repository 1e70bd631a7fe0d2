"""Requests with fields of other servers, and the text of their answers."""

from __future__ import annotations

from typing import Any

MODEL = "sluice-demo"
QUESTION: Any = [{"role": "user", "content": "Hello! Who are you?"}]


def text_of(answer: Any) -> str:
    """Return the text of the one choice of an answer or a chunk."""
    (choice,) = answer.choices
    if hasattr(choice, "text"):
        return str(choice.text)
    message = choice.message if hasattr(choice, "message") else choice.delta
    return str(message.content or "")

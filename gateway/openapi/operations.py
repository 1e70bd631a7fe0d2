"""All operations of the API, each with a body that works.

Owns the list that the document is made of. A test holds it against the application's routes.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.openai import ChatCompletionBody, OpenAITranslator
from gateway.openapi import answers
from gateway.openapi.document import Operation, Parameter

_CHAT: Final = {"model": "sluice-demo", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 16}
_MODEL: Final = Parameter("model", "path", "A served model's name.", "sluice-demo")


def _openai(method: str, path: str, summary: str, answer: type, **more: Any) -> Operation:
    return Operation(method, f"/v1{path}", "OpenAI style", summary, answer, answers.ErrorAnswer, **more)


OPERATIONS: Final = (
    _openai(
        "POST",
        "/chat/completions",
        "Answers a conversation.",
        answers.ChatAnswer,
        body=ChatCompletionBody,
        example=_CHAT,
        translator=OpenAITranslator,
        streams=True,
    ),
    _openai("GET", "/models", "Lists the models.", answers.ModelsAnswer),
    _openai("GET", "/models/{model}", "Describes a model.", answers.ModelAnswer, parameters=[_MODEL]),
)

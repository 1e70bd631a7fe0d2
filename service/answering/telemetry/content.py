"""The content of requests and answers as span attributes, if it is recorded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from service.answering.telemetry.finish_reason import finish_reason_name
from service.generation.outputs.events import ChoiceFinished, Event, Reasoning, Text, ToolArguments, ToolCall

_OUTPUT = "gen_ai.output.messages"


@dataclass(slots=True)
class _Choice:
    """One choice of an answer so far."""

    texts: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: list[dict[str, str]] = field(default_factory=list)
    finish_reason: str | None = None

    def message(self) -> dict[str, Any]:
        parts: list[dict[str, str]] = []
        if self.reasoning:
            parts.append({"type": "reasoning", "content": "".join(self.reasoning)})
        if (text := "".join(self.texts)) or not self.calls:
            parts.append({"type": "text", "content": text})
        return {"role": "assistant", "parts": [*parts, *self.calls], "finish_reason": self.finish_reason}


class AnswerContent:
    """The content of a request and of its answer so far. Choices that have not ended are omitted."""

    def __init__(self, request_attributes: Mapping[str, Sequence[Any]]) -> None:
        """`request_attributes` are the span attributes with the content of the request."""
        self._request_attributes = request_attributes
        self._choices: dict[int, _Choice] = {}

    def add(self, events: Iterable[Event]) -> None:
        """Add events to the answer."""
        for event in events:
            match event:
                case Text(index, text):
                    self._choice(index).texts.append(text)
                case Reasoning(index, text):
                    self._choice(index).reasoning.append(text)
                case ToolCall(index, _, call_id, name):
                    call = {"type": "tool_call", "id": call_id, "name": name, "arguments": ""}
                    self._choice(index).calls.append(call)
                case ToolArguments(index, call_index, text):
                    self._choice(index).calls[call_index]["arguments"] += text
                case ChoiceFinished(index, reason):
                    self._choice(index).finish_reason = finish_reason_name(reason)

    def attributes(self) -> dict[str, str]:
        """Return the span attributes, each a JSON list as in the GenAI conventions."""
        ended = [choice for _, choice in sorted(self._choices.items()) if choice.finish_reason is not None]
        attributes = {**self._request_attributes, _OUTPUT: [choice.message() for choice in ended]}
        return {name: json.dumps(value, ensure_ascii=False) for name, value in attributes.items()}

    def _choice(self, index: int) -> _Choice:
        return self._choices.setdefault(index, _Choice())

"""A streamed chat answer: its chunks as they arrive, and its statistics at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cli.calls.server import Server

_MIN_TIMED_S: Final = 0.02  # a shorter answer arrives in one piece, so its speed can't be measured


@dataclass(slots=True)
class Answer:
    """The answer received so far. Times are in seconds."""

    text: str = ""
    reasoning: str = ""
    finish_reason: str = ""
    num_tokens: int | None = None  # as reported by the server; None if it was not reported
    first_s: float | None = None  # from the request to the first chunk
    took_s: float = 0.0  # from the request to the last chunk

    def summary(self) -> str:
        """Return tokens, speed and time to first token as text, or an empty text for an answer without chunks."""
        if self.first_s is None:
            return ""
        parts = [f"first token after {1000 * self.first_s:.0f} ms"]
        rest_s = self.took_s - self.first_s
        if self.num_tokens is not None:
            parts.insert(0, f"{self.num_tokens} tokens")
            if self.num_tokens > 1 and rest_s > _MIN_TIMED_S:
                parts.insert(1, f"{(self.num_tokens - 1) / rest_s:.0f} tokens/s")
        if self.finish_reason not in {"", "stop"}:
            parts.append(f"ended by {self.finish_reason}")
        return ", ".join(parts)


def read_answer(
    server: Server, body: Mapping[str, Any], show: Callable[[str, bool], None], answer: Answer
) -> Iterator[dict[str, Any]]:
    """Send a chat request and yield its raw events. Fill `answer`, and call `show(text, is_reasoning)` for each text.

    Closing the iterator aborts the answer. Raise ServerError.
    """
    began = time.monotonic()
    request_body = {**body, "stream_options": {"include_usage": True}}
    with server.stream("/v1/chat/completions", request_body) as events:
        for event in events:
            for choice in event.get("choices") or ():
                delta = choice.get("delta") or {}
                reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
                text = delta.get("content") or ""
                if (reasoning or text) and answer.first_s is None:
                    answer.first_s = time.monotonic() - began
                if reasoning:
                    answer.reasoning += reasoning
                    show(reasoning, True)
                if text:
                    answer.text += text
                    show(text, False)
                answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
            if usage := event.get("usage"):
                answer.num_tokens = usage.get("completion_tokens")
            answer.took_s = time.monotonic() - began
            yield event

"""The content of a raw prompt and its continuation as span attributes, for those who opted in.

Owns the JSON that the GenAI conventions ask for. Made and used in one call, on the loop's thread.
"""

from __future__ import annotations

import json

from sluice.v1 import text_generation_pb2

from service.pipeline.text_fold import TextFold
from service.servicers.content import finish_reason_name


class TextContent:
    """A prompt, and its continuation once that has ended."""

    def __init__(self, request: text_generation_pb2.GenerateTextRequest) -> None:
        self._request = request
        self._fold = TextFold()

    def add(self, event: text_generation_pb2.StreamGenerateTextResponse) -> None:
        """Note what an event adds to the answer."""
        self._fold.add(event)

    def attributes(self) -> dict[str, str]:
        """`gen_ai.input.messages` and `gen_ai.output.messages`, each a JSON list of one message at most."""
        answer = self._fold.response
        outputs = []
        if answer.finish_reason:
            reason = finish_reason_name(answer.finish_reason)
            outputs.append(_message("assistant", answer.text) | {"finish_reason": reason})
        return {
            "gen_ai.input.messages": json.dumps([_message("user", self._request.text_input)], ensure_ascii=False),
            "gen_ai.output.messages": json.dumps(outputs, ensure_ascii=False),
        }


def _message(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}

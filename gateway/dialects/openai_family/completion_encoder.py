"""A completion's answer in the JSON of OpenAI's family: `text_completion`, whole and on a stream.

A stream has the finish reason in a chunk of its own, usage last if asked for, `[DONE]` at the end and only there. What
stays the same over a stream is encoded once, when it starts.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import orjson
from sluice.v1.completion_pb2 import (
    CompleteResponse,
    CompletionChoice,
    CompletionDelta,
    CompletionStarted,
    StreamCompleteResponse,
)

from gateway.dialects.openai_family.chat_usage import FINISH_REASONS, to_usage
from gateway.dialects.openai_family.completion_logprobs import LogprobWriter
from gateway.dialects.seam.encoder import COMMENT

_DONE = b"data: [DONE]\n\n"


class CompletionEncoder:
    """Encodes one answer.

    `include_usage` is the caller's `stream_options.include_usage`; `has_logprobs` whether logprobs are asked for. With
    `index_by_prompt`, `index` of a choice is its prompt's place in the request, else the choice's own among all.
    """

    ping = COMMENT

    def __init__(
        self, *, include_usage: bool = False, has_logprobs: bool = False, index_by_prompt: bool = False
    ) -> None:
        self._include_usage = include_usage
        self._has_logprobs = has_logprobs
        self._index_by_prompt = index_by_prompt
        self._num_choices = 1  # of one prompt
        self._head = b""  # up to the list of choices
        self._tail = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        self._writers: defaultdict[int, LogprobWriter] = defaultdict(LogprobWriter)  # by choice

    def chunk(self, event: StreamCompleteResponse) -> bytes:
        """The SSE events for one event of the service; none where the dialect says nothing."""
        kind = event.WhichOneof("event")
        if kind == "delta":
            return self._delta(event.delta)
        if kind == "choice_finished":
            end = event.choice_finished
            return self._choice(end.choice_index, b'""', b"null", b'"%b"' % FINISH_REASONS[end.finish_reason].encode())
        if kind == "started":
            self._start(event.started)
        elif kind == "usage" and self._include_usage:
            return b'%b],"usage":%b}\n\n' % (self._head, orjson.dumps(to_usage(event.usage)))
        elif kind == "completed":
            return _DONE
        return b""

    def whole(self, response: CompleteResponse) -> bytes:
        """The body of an unstreamed answer."""
        return orjson.dumps(
            {
                "id": f"cmpl-{response.id}",
                "object": "text_completion",
                "created": response.created.seconds,
                "model": response.model,
                "system_fingerprint": response.system_fingerprint,
                "choices": [orjson.Fragment(orjson.dumps(self._whole_choice(each))) for each in response.choices],
                "usage": to_usage(response.usage),
            }
        )

    def _start(self, started: CompletionStarted) -> None:
        self._num_choices = max(started.n, 1)
        head = orjson.dumps(
            {
                "id": f"cmpl-{started.id}",
                "object": "text_completion",
                "created": started.created.seconds,
                "model": started.model,
                "system_fingerprint": started.system_fingerprint,
            }
        )
        self._head = b"data: " + head[:-1] + b',"choices":['

    def _delta(self, delta: CompletionDelta) -> bytes:
        logprobs = b"null"
        if self._has_logprobs:
            writer = self._writers[delta.choice_index]
            logprobs = orjson.dumps(writer.write(delta.prompt_logprobs, delta.logprobs, delta.text))
        return self._choice(delta.choice_index, orjson.dumps(delta.text), logprobs, b"null")

    def _choice(self, index: int, text: bytes, logprobs: bytes, finish_reason: bytes) -> bytes:
        if self._index_by_prompt:
            index //= self._num_choices
        choice = b'{"index":%d,"text":%b,"logprobs":%b,"finish_reason":%b}]' % (index, text, logprobs, finish_reason)
        return self._head + choice + self._tail

    def _whole_choice(self, choice: CompletionChoice) -> dict[str, Any]:
        return {
            "index": choice.prompt_index if self._index_by_prompt else choice.index,
            "text": choice.text,
            "logprobs": self._whole_logprobs(choice),
            "finish_reason": FINISH_REASONS[choice.finish_reason],
        }

    def _whole_logprobs(self, choice: CompletionChoice) -> dict[str, Any] | None:
        if not self._has_logprobs:
            return None
        return LogprobWriter().write(choice.prompt_logprobs, choice.logprobs, choice.text)

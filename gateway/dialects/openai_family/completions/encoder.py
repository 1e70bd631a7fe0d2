"""A completion's answer in the JSON of OpenAI's family: `text_completion`, whole and on a stream.

A stream has the finish reason in a separate chunk, usage last if requested, and `[DONE]` only at its end. The constant
parts of a stream are encoded once, when it starts.
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

from gateway.dialects.openai_family.answers.extra_fields import ExtraFields
from gateway.dialects.openai_family.answers.prompt_scores import to_prompt_logprobs
from gateway.dialects.openai_family.answers.streamed_tokens import StreamedTokens
from gateway.dialects.openai_family.answers.usage import FINISH_REASONS, to_prompt_progress, to_usage
from gateway.dialects.openai_family.completions.logprobs import LogprobWriter
from gateway.dialects.openai_family.parameters.stream_options import StreamedUsage
from gateway.dialects.seam.encoder import COMMENT

_DONE = b"data: [DONE]\n\n"
_NO_TEXT = b'{"index":0,"text":"","logprobs":null,"finish_reason":null}'  # clients read the first choice's text
_NOTHING = ExtraFields()


class CompletionEncoder:
    """Encodes one answer.

    `usage` selects the chunks with usage; `has_logprobs` and `extra_fields` request further fields. With
    `index_by_prompt`, `index` of a choice is the index of its prompt, and `choice_index` its index among all choices;
    otherwise `index` is the latter.
    """

    ping = COMMENT

    def __init__(
        self,
        *,
        usage: StreamedUsage = StreamedUsage.NONE,
        has_logprobs: bool = False,
        index_by_prompt: bool = False,
        extra_fields: ExtraFields = _NOTHING,
    ) -> None:
        self._usage = usage
        self._has_logprobs = has_logprobs
        self._extra_fields = extra_fields
        self._tokens = StreamedTokens(usage, with_ids=extra_fields.token_ids)
        self._prompt_token_ids: dict[int, list[int]] = {}  # by choice, until its first chunk has sent them
        self._index_by_prompt = index_by_prompt
        self._num_choices = 1  # choices per prompt
        self._head = b""  # the chunk's text up to the list of choices
        self._writers: defaultdict[int, LogprobWriter] = defaultdict(LogprobWriter)  # by choice

    def chunk(self, event: StreamCompleteResponse) -> bytes:
        """Return the SSE events for one event of the service; empty if the dialect sends nothing for it."""
        kind = event.WhichOneof("event")
        if self._tokens.is_emitted and event.HasField("tokens"):
            self._tokens.add(getattr(event, kind or "").choice_index, event.tokens)
        if kind == "delta":
            return self._delta(event.delta)
        if kind == "choice_finished":
            end = event.choice_finished
            return self._choice(end.choice_index, b'""', b"null", b'"%b"' % FINISH_REASONS[end.finish_reason].encode())
        if kind == "started":
            self._start(event.started)
        elif kind == "prompt_progress":
            progress = orjson.dumps(to_prompt_progress(event.prompt_progress))
            return b'%b%b],"prompt_progress":%b%b' % (self._head, _NO_TEXT, progress, self._tokens.tail(0))
        elif kind == "usage" and self._usage is not StreamedUsage.NONE:
            return b'%b],"usage":%b}\n\n' % (self._head, orjson.dumps(to_usage(event.usage)))
        elif kind == "completed":
            receipt = event.completed.receipt
            return b'%b],"receipt":"%b"}\n\n%b' % (self._head, receipt.encode(), _DONE) if receipt else _DONE
        return b""

    def whole(self, response: CompleteResponse) -> bytes:
        """Return the body of an unstreamed answer."""
        return orjson.dumps(
            {
                "id": f"cmpl-{response.id}",
                "object": "text_completion",
                "created": response.created.seconds,
                "model": response.model,
                "system_fingerprint": response.system_fingerprint,
                "choices": [orjson.Fragment(orjson.dumps(self._whole_choice(each))) for each in response.choices],
                "usage": to_usage(response.usage),
                **({"receipt": response.receipt} if response.receipt else {}),
            }
        )

    def _start(self, started: CompletionStarted) -> None:
        """Encode the fields that all chunks have."""
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
        self._tokens.start(started.prompt_tokens, self._num_choices)
        if self._extra_fields.token_ids:
            prompts = [list(prompt.ids) for prompt in started.prompt_token_ids for _ in range(self._num_choices)]
            self._prompt_token_ids = dict(enumerate(prompts))

    def _delta(self, delta: CompletionDelta) -> bytes:
        """Return the chunk of a text."""
        logprobs = b"null"
        if self._has_logprobs:
            writer = self._writers[delta.choice_index]
            logprobs = orjson.dumps(writer.write(delta.prompt_logprobs, delta.logprobs, delta.text))
        return self._choice(delta.choice_index, orjson.dumps(delta.text), logprobs, b"null")

    def _choice(self, index: int, text: bytes, logprobs: bytes, finish_reason: bytes) -> bytes:
        """Return a chunk with one choice, whose fields are encoded."""
        position = b"%d" % index
        if self._index_by_prompt:
            position = b'%d,"choice_index":%d' % (index // self._num_choices, index)
        choice = b'{"index":%b,"text":%b,"logprobs":%b,"finish_reason":%b' % (position, text, logprobs, finish_reason)
        if self._extra_fields.token_ids:
            fields = self._tokens.take_ids(index)
            if (prompt := self._prompt_token_ids.pop(index, None)) is not None:
                fields["prompt_token_ids"] = prompt
            choice += b"," + orjson.dumps(fields)[1:-1]
        return self._head + choice + b"}]" + self._tokens.tail(index)

    def _whole_choice(self, choice: CompletionChoice) -> dict[str, Any]:
        """Return a choice of a whole answer."""
        by_prompt = {"index": choice.prompt_index, "choice_index": choice.index}
        fields: dict[str, Any] = {
            **(by_prompt if self._index_by_prompt else {"index": choice.index}),
            "text": choice.text,
            "logprobs": self._whole_logprobs(choice),
            "finish_reason": FINISH_REASONS[choice.finish_reason],
        }
        if self._extra_fields.prompt_logprobs:
            fields["prompt_logprobs"] = to_prompt_logprobs(choice.prompt_logprobs)
        if self._extra_fields.token_ids:
            fields |= {"token_ids": list(choice.token_ids), "prompt_token_ids": list(choice.prompt_token_ids)}
        return fields

    def _whole_logprobs(self, choice: CompletionChoice) -> dict[str, Any] | None:
        """Return the logprobs of a choice, or None if they were not requested."""
        if not self._has_logprobs:
            return None
        prompt = () if self._extra_fields.prompt_logprobs else choice.prompt_logprobs
        return LogprobWriter().write(prompt, choice.logprobs, choice.text)

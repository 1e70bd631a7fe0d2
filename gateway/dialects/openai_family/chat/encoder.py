"""A chat's answer in the JSON of OpenAI's family: `chat.completion`, and `chat.completion.chunk` on a stream.

A stream has the role before a choice's first delta, the finish reason in a separate chunk, usage last if requested, and
`[DONE]` only at its end. The constant parts of a stream are encoded once, when it starts: a text delta then costs one
small JSON string and one join.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import orjson
from sluice.v1.chat_pb2 import (
    ChatChoice,
    ChatResponse,
    ChatStarted,
    ContentDelta,
    ReasoningEffort,
    StreamChatResponse,
    ToolCallDelta,
)
from sluice.v1.content_pb2 import Message
from sluice.v1.tool_pb2 import ToolCall

from gateway.dialects.openai_family.answers.extra_fields import ExtraFields
from gateway.dialects.openai_family.answers.prompt_scores import to_prompt_logprobs
from gateway.dialects.openai_family.answers.streamed_tokens import StreamedTokens
from gateway.dialects.openai_family.answers.usage import FINISH_REASONS, to_logprobs, to_prompt_progress, to_usage
from gateway.dialects.openai_family.chat.body import EFFORT_NAMES
from gateway.dialects.openai_family.parameters.custom_input import CustomInput, input_of
from gateway.dialects.openai_family.parameters.stream_options import StreamedUsage
from gateway.dialects.seam.encoder import COMMENT

_DONE = b"data: [DONE]\n\n"
_OPEN_CHOICE = b'},"logprobs":null,"finish_reason":null}'
_NO_DELTA = b'{"index":0,"delta":{},"logprobs":null,"finish_reason":null}'  # clients read the first choice's delta
_NOTHING = ExtraFields()


class ChatEncoder:
    """Encodes one answer.

    `usage` selects the chunks with usage; `has_logprobs` and `extra_fields` request further fields. Calls of
    `custom_tools` have their input as text.
    """

    ping = COMMENT
    whole_object = "chat.completion"
    tier: ClassVar[Mapping[str, str]] = {}  # the field of a whole answer that states the tier of service
    includes_effort = False  # whether an answer includes the effective reasoning effort

    def __init__(
        self,
        *,
        usage: StreamedUsage = StreamedUsage.NONE,
        has_logprobs: bool = False,
        extra_fields: ExtraFields = _NOTHING,
        custom_tools: frozenset[str] = frozenset(),
    ) -> None:
        self._usage = usage
        self._has_logprobs = has_logprobs
        self._extra_fields = extra_fields
        self._custom_tools = custom_tools
        self._inputs: dict[tuple[int, int], CustomInput] = {}  # of custom tools' calls, by choice and call
        self._tokens = StreamedTokens(usage, with_ids=extra_fields.token_ids)
        self._head = b""  # the chunk's text up to the list of choices
        self._prompt_token_ids: list[int] | None = None  # empty once the first chunk has sent them
        self._text_heads: dict[int, bytes] = {}  # by started choice, the text of a chunk up to the delta's text
        self._text_tail = _OPEN_CHOICE + b"]" + self._tokens.plain_tail

    def chunk(self, event: StreamChatResponse) -> bytes:
        """Return the SSE events for one event of the service; empty if the dialect sends nothing for it."""
        kind = event.WhichOneof("event")
        if self._tokens.is_emitted and event.HasField("tokens"):
            self._tokens.add(getattr(event, kind or "").choice_index, event.tokens)
        if kind == "content_delta":
            return self._content(event.content_delta)
        if kind == "reasoning_delta":
            reasoning = event.reasoning_delta
            fields = dict.fromkeys(self._extra_fields.reasoning_names, reasoning.text)
            return self._delta_after_start(reasoning.choice_index, fields) if fields else b""
        if kind == "tool_call_delta":
            call = event.tool_call_delta
            return self._delta_after_start(call.choice_index, {"tool_calls": [self._call(call)]}, content=None)
        if kind == "choice_finished":
            end = event.choice_finished
            return self._delta_after_start(end.choice_index, {}, finish_reason=FINISH_REASONS[end.finish_reason])
        return self._mark(event, kind)

    def whole(self, response: ChatResponse) -> bytes:
        """Return the body of an unstreamed answer."""
        answer: dict[str, Any] = {
            "id": f"chatcmpl-{response.id}",
            "object": self.whole_object,
            "created": response.created.seconds,
            "model": response.model,
            "system_fingerprint": response.system_fingerprint,
            **self.tier,
            **self._effort(response.reasoning_effort),
            "choices": [orjson.Fragment(orjson.dumps(self._choice(choice))) for choice in response.choices],
            "usage": to_usage(response.usage),
            **({"receipt": response.receipt} if response.receipt else {}),
        }
        if self._extra_fields.prompt_logprobs:
            answer["prompt_logprobs"] = to_prompt_logprobs(response.prompt_logprobs)
        if self._extra_fields.token_ids:
            answer["prompt_token_ids"] = list(response.prompt_token_ids)
        return orjson.dumps(answer)

    def _choice(self, choice: ChatChoice) -> dict[str, Any]:
        """Return a choice of a whole answer."""
        fields = {
            "index": choice.index,
            "message": _to_message(choice.message, self._extra_fields, self._custom_tools),
            "logprobs": to_logprobs(choice.logprobs) if self._has_logprobs else None,
            "finish_reason": FINISH_REASONS[choice.finish_reason],
        }
        return fields | {"token_ids": list(choice.token_ids)} if self._extra_fields.token_ids else fields

    def _mark(self, event: StreamChatResponse, kind: str | None) -> bytes:
        """Return the bytes for an event that belongs to no choice."""
        if kind == "started":
            self._start(event.started)
        elif kind == "prompt_progress":
            progress = orjson.dumps(to_prompt_progress(event.prompt_progress))
            return b'%b%b],"prompt_progress":%b%b' % (self._head, _NO_DELTA, progress, self._tokens.tail(0))
        elif kind == "usage" and self._usage is not StreamedUsage.NONE:
            return b'%b],"usage":%b}\n\n' % (self._head, orjson.dumps(to_usage(event.usage)))
        elif kind == "completed":
            receipt = event.completed.receipt
            return b'%b],"receipt":"%b"}\n\n%b' % (self._head, receipt.encode(), _DONE) if receipt else _DONE
        return b""

    def _effort(self, effort: ReasoningEffort) -> dict[str, str]:
        """Return the effective reasoning effort, if the dialect's answers have it and one applies."""
        return {"reasoning_effort": EFFORT_NAMES[effort]} if self.includes_effort and effort in EFFORT_NAMES else {}

    def _start(self, started: ChatStarted) -> None:
        """Encode the fields that all chunks have."""
        head = orjson.dumps(
            {
                "id": f"chatcmpl-{started.id}",
                "object": "chat.completion.chunk",
                "created": started.created.seconds,
                "model": started.model,
                "system_fingerprint": started.system_fingerprint,
                **self._effort(started.reasoning_effort),
            }
        )
        self._head = b"data: " + head[:-1] + b',"choices":['
        self._tokens.start([started.prompt_tokens])
        if self._extra_fields.token_ids:
            self._prompt_token_ids = list(started.prompt_token_ids)

    def _content(self, delta: ContentDelta) -> bytes:
        """Return the chunk of a text."""
        index = delta.choice_index
        if delta.logprobs or self._tokens.is_emitted:
            logprobs = to_logprobs(delta.logprobs) if delta.logprobs else None
            return self._delta_after_start(index, {"content": delta.text}, logprobs=logprobs)
        begin = b"" if index in self._text_heads else self._begin(index, "")
        return begin + self._text_heads[index] + orjson.dumps(delta.text) + self._text_tail

    def _call(self, call: ToolCallDelta) -> dict[str, Any]:
        """Return the delta of a call."""
        index = call.choice_index, call.tool_call_index
        if call.HasField("id") and call.name in self._custom_tools:
            self._inputs[index] = CustomInput()
        if (reader := self._inputs.get(index)) is None:
            return _to_tool_call_delta(call)
        custom = {"input": reader.add(call.arguments)}
        if not call.HasField("id"):
            return {"index": call.tool_call_index, "custom": custom}
        named = {"type": "custom", "custom": {"name": call.name, **custom}}
        return {"index": call.tool_call_index, "id": call.id, **named}

    def _delta_after_start(
        self,
        index: int,
        delta: dict[str, Any],
        *,
        content: str | None = "",
        logprobs: dict[str, Any] | None = None,
        finish_reason: str | None = None,
    ) -> bytes:
        """Return a delta, preceded by the role if it is the choice's first. `content` is null before a call."""
        begin = b"" if index in self._text_heads else self._begin(index, content)
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        encoded = orjson.dumps(choice | self._tokens.take_ids(index))
        return begin + self._head + encoded + b"]" + self._tokens.tail(index)

    def _begin(self, index: int, content: str | None) -> bytes:
        """Return the chunk with the role, the echo and, once per stream, the prompt's token ids."""
        self._text_heads[index] = b'%b{"index":%d,"delta":{"content":' % (self._head, index)
        delta = {"role": "assistant", "content": self._extra_fields.echo or content, "refusal": None}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        tail = self._tokens.tail(index)
        if self._prompt_token_ids is not None:
            tail = b',"prompt_token_ids":%b%b' % (orjson.dumps(self._prompt_token_ids), tail)
            self._prompt_token_ids = None
        return self._head + orjson.dumps(choice) + b"]" + tail


def _to_tool_call_delta(call: ToolCallDelta) -> dict[str, Any]:
    function = {"arguments": call.arguments}
    if not call.HasField("id"):
        return {"index": call.tool_call_index, "function": function}
    function = {"name": call.name, **function}
    return {"index": call.tool_call_index, "id": call.id, "type": "function", "function": function}


def _to_call(call: ToolCall, custom_tools: frozenset[str]) -> dict[str, Any]:
    name, arguments = call.function.name, call.function.arguments
    if name in custom_tools:
        return {"id": call.id, "type": "custom", "custom": {"name": name, "input": input_of(arguments)}}
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _to_message(message: Message, extra_fields: ExtraFields, custom_tools: frozenset[str]) -> dict[str, Any]:
    texts = [part.text for part in message.content]
    if extra_fields.echo:
        texts.insert(0, extra_fields.echo)
    fields: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(texts) if texts or not message.tool_calls else None,
        "refusal": None,
    }
    if message.HasField("reasoning"):
        fields |= dict.fromkeys(extra_fields.reasoning_names, message.reasoning)
    if message.tool_calls:
        fields["tool_calls"] = [_to_call(call, custom_tools) for call in message.tool_calls]
    return fields

"""A training conversation: its messages, and the text that the model sees with the parts that it must learn.

The rendering equals that of `demo/model/chat_template.jinja`; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
Segment = tuple[str, bool]
"""A piece of text and whether the model is taught to say it."""

TOOLS_SENTENCE = "You can call these tools:"


@dataclass(frozen=True)
class Conversation:
    """Messages in the form of the REST API, ending with the assistant's answer.

    `raw` holds text outside any template (then there are no messages). `accepted` lists further answers as good as the
    last one; `thinking` is whether the answer was requested with reasoning. `masked` marks the pieces of the answer as
    taught or given; together they are the answer.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    thinking: bool = False
    accepted: tuple[str, ...] = ()
    raw: tuple[Segment, ...] = ()
    masked: tuple[Segment, ...] = field(default=())

    def then(self, other: Conversation) -> Conversation:
        """Return both as one chat, with the tools, mode and accepted answers of the later one."""
        return Conversation(
            self.messages + other.messages, self.tools + other.tools, other.thinking, other.accepted, (), other.masked
        )


def ask(user: str, answer: str, thought: str = "", *, system: str = "", accepted: Sequence[str] = ()) -> Conversation:
    """Return a single exchange. With a `thought`, it may be requested with reasoning."""
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": user})
    messages.append({"role": "assistant", "content": answer, "reasoning_content": thought})
    return Conversation(tuple(messages), accepted=tuple(accepted))


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a tool call in the form of the REST API."""
    return {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}


def call_text(tool_call: dict[str, Any]) -> str:
    """Return the text with which the model makes `tool_call`."""
    function = tool_call["function"]
    name = json.dumps(function["name"], ensure_ascii=False)
    return f'<tool_call>\n{{"name": {name}, "arguments": {function["arguments"]}}}\n</tool_call>'


def answer_text(message: Message) -> str:
    """Return the text of an assistant message without its reasoning."""
    parts = [message["content"]] if message.get("content") else []
    parts += [call_text(tool_call) for tool_call in message.get("tool_calls", ())]
    return "\n".join(parts)


def segments(conversation: Conversation) -> list[Segment]:
    """Return the whole text, split where taught parts begin and end. The last taught part follows the prompt."""
    if conversation.raw:
        return list(conversation.raw)
    out: list[Segment] = []
    messages = list(conversation.messages)
    _render_system(out, messages, conversation.tools)
    last_user = max(i for i, m in enumerate(messages) if m["role"] == "user")
    for i, message in enumerate(messages):
        match message["role"]:
            case "assistant":
                out.append(("<|im_start|>assistant\n", False))
                last = i == len(messages) - 1
                _render_assistant(out, message, conversation, current=i > last_user, last=last)
            case "tool":
                first = messages[i - 1]["role"] != "tool"
                final = i + 1 == len(messages) or messages[i + 1]["role"] != "tool"
                head = "<|im_start|>user" if first else ""
                tail = "<|im_end|>\n" if final else ""
                out.append((f"{head}\n<tool_response>\n{message['content']}\n</tool_response>{tail}", False))
            case role:
                out.append((f"<|im_start|>{role}\n{message['content']}<|im_end|>\n", False))
    return out


def _render_system(out: list[Segment], messages: list[Message], tools: Sequence[dict[str, Any]]) -> None:
    """Remove the system message from `messages` and render it, with the tools if there are any."""
    parts = [messages.pop(0)["content"]] if messages and messages[0]["role"] == "system" else []
    if tools:
        lines = "\n".join(json.dumps(tool["function"], ensure_ascii=False) for tool in tools)
        parts.append(f"{TOOLS_SENTENCE}\n<tools>\n{lines}\n</tools>")
    if parts:
        out.append(("<|im_start|>system\n" + "\n\n".join(parts) + "<|im_end|>\n", False))


def _render_assistant(
    out: list[Segment], message: Message, conversation: Conversation, *, current: bool, last: bool
) -> None:
    thought = message.get("reasoning_content", "")
    text = answer_text(message)
    if last and conversation.masked:
        out.append(("<think>\n\n</think>\n\n", False))
        out.extend(conversation.masked)
    elif current and conversation.thinking and thought:
        out.append((f"<think>\n{thought}\n</think>\n\n{text}", True))
    elif last:
        out.append(("<think>\n\n</think>\n\n", False))
        out.append((text, True))
    else:
        # Without a think block before it, the first word is not taught, since a served model starts to think there.
        first, space, rest = text.partition(" ")
        out.append((first, False))
        out.append((space + rest, True))
    out.append(("<|im_end|>", True))
    out.append(("\n", False))

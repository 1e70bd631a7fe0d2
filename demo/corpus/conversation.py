"""One training conversation: its messages, and the text a model sees with the parts it must learn to say.

Owns the rendering that `demo/model/chat_template.jinja` states for everyone else; a test holds the two equal.
Pure values, any thread. It does not know tokens or how the messages were made.
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
    """Messages as the REST API has them, ending with the assistant's answer.

    `raw` holds text outside any template (then there are no messages). `accepted` lists further answers as good as
    the last one; `thinking` says whether the answer was asked for with reasoning. `masked` marks the pieces of the
    answer as taught or given; together they are the answer.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    thinking: bool = False
    accepted: tuple[str, ...] = ()
    raw: tuple[Segment, ...] = ()
    masked: tuple[Segment, ...] = field(default=())

    def then(self, other: Conversation) -> Conversation:
        """The two in one chat; the later one's tools, mode and accepted answers count."""
        return Conversation(
            self.messages + other.messages, self.tools + other.tools, other.thinking, other.accepted, (), other.masked
        )


def ask(user: str, answer: str, thought: str = "", *, system: str = "", accepted: Sequence[str] = ()) -> Conversation:
    """A single exchange. With a `thought`, it may be asked for with reasoning."""
    messages: list[Message] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": user})
    messages.append({"role": "assistant", "content": answer, "reasoning_content": thought})
    return Conversation(tuple(messages), accepted=tuple(accepted))


def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """A tool call as the REST API has it."""
    return {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}}


def call_text(tool_call: dict[str, Any]) -> str:
    """What the model writes to make `tool_call`."""
    function = tool_call["function"]
    name = json.dumps(function["name"], ensure_ascii=False)
    return f'<tool_call>\n{{"name": {name}, "arguments": {function["arguments"]}}}\n</tool_call>'


def answer_text(message: Message) -> str:
    """What the model says in an assistant message, reasoning left out."""
    parts = [message["content"]] if message.get("content") else []
    parts += [call_text(tool_call) for tool_call in message.get("tool_calls", ())]
    return "\n".join(parts)


def segments(conversation: Conversation) -> list[Segment]:
    """The whole text, cut where teaching begins and ends; up to the last taught part it is the prompt."""
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
    """Take the system message off `messages` and write it, with the tools if there are any."""
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
        # Without a think block before it, the first word is not taught: there a live model starts to think.
        first, space, rest = text.partition(" ")
        out.append((first, False))
        out.append((space + rest, True))
    out.append(("<|im_end|>", True))
    out.append(("\n", False))

"""Messages of the contract, and the fold of a chat's stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sluice.v1 import chat_pb2, completion_pb2, content_pb2, prompt_pb2, resume_pb2, tool_pb2

from service.contract.generations.chat_fold import ChatFold
from service.contract.parts.resume import position_bytes, stream_bytes
from service.generation.requests.resume import ResumePoint, StreamIdentity, StreamPosition

RESUMED = ResumePoint(
    StreamIdentity("0" * 31 + "a", 1, "m", "fp", 7, b"12345678"),
    StreamPosition(3, [2], 0, 4, num_cached_tokens=16),
    5,
    replays=True,
)


def resume_options(point: ResumePoint) -> resume_pb2.ResumeOptions:
    """Return the options with which a client resumes at a point."""
    return resume_pb2.ResumeOptions(
        stream=stream_bytes(point.identity, len(point.position.counts)),
        position=position_bytes(point.position),
        sequence_number=point.sequence_number,
        replay=point.replays,
    )


def user(text: str) -> content_pb2.Message:
    return message(content_pb2.ROLE_USER, text)


def message(role: content_pb2.Role, *texts: str, **fields: Any) -> content_pb2.Message:
    return content_pb2.Message(role=role, content=[content_pb2.ContentPart(text=text) for text in texts], **fields)


def function(name: str, parameters: str = "", **fields: Any) -> tool_pb2.Tool:
    return tool_pb2.Tool(function=tool_pb2.FunctionDefinition(name=name, parameters=parameters, **fields))


def chat_request(*messages: content_pb2.Message, **fields: Any) -> chat_pb2.ChatRequest:
    return chat_pb2.ChatRequest(model="tiny", messages=messages or [user("hello")], **fields)


def completion_request(*prompts: str | list[int], **fields: Any) -> completion_pb2.CompleteRequest:
    return completion_pb2.CompleteRequest(
        model="tiny",
        prompts=[
            prompt_pb2.Prompt(text=prompt)
            if isinstance(prompt, str)
            else prompt_pb2.Prompt(token_ids=prompt_pb2.TokenIds(ids=prompt))
            for prompt in prompts or ("hello",)
        ],
        **fields,
    )


def fold(messages: Iterable[chat_pb2.StreamChatResponse]) -> chat_pb2.ChatResponse:
    """Return the whole answer of a chat's stream."""
    folding = ChatFold()
    for each in messages:
        folding.add(each)
    return folding.response

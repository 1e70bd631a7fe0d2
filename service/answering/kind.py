"""The kinds of generation, each with its converter of requests, its renderer and its fold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from sluice.v1 import (
    chat_pb2,
    completion_pb2,
    response_event_pb2,
    response_item_pb2,
    response_pb2,
    text_generation_pb2,
)

from service.contract.generations import chat, completion, span_content, text_generation
from service.contract.generations.chat_fold import ChatFold
from service.contract.generations.completion_fold import CompletionFold
from service.contract.generations.text_generation_fold import TextFold
from service.contract.responses import response_request
from service.contract.responses.response_renderer import ResponseFold, ResponseRenderer
from service.generation.outputs.events import Event
from service.generation.requests.answer_request import AnswerRequest


class Sized(Protocol):
    """A protobuf message."""

    def ByteSize(self) -> int: ...  # noqa: N802  protobuf's name


class Numbered(Sized, Protocol):
    """A message of a stream."""

    sequence_number: int
    stream: bytes
    position: bytes


Request = TypeVar("Request")
Message = TypeVar("Message", bound=Numbered)
Answer = TypeVar("Answer", bound=Sized)
_Message_co = TypeVar("_Message_co", bound=Numbered, covariant=True)
_Message_contra = TypeVar("_Message_contra", bound=Numbered, contravariant=True)
_Answer_co = TypeVar("_Answer_co", bound=Sized, covariant=True)


class Renderer(Protocol[_Message_co]):
    """Renders the events of one answer as the messages of its stream, without sequence numbers."""

    def render(self, events: Sequence[Event]) -> Sequence[_Message_co]:
        """Return the messages of one group of events: an output, the beginning or the end."""


class Fold(Protocol[_Message_contra, _Answer_co]):
    """Folds the messages of a stream into the whole answer."""

    @property
    def response(self) -> _Answer_co: ...

    def add(self, message: _Message_contra, /) -> None: ...


@dataclass(frozen=True, slots=True)
class Kind(Generic[Request, Message, Answer]):
    """One kind of generation.

    `operation` is its name in the GenAI conventions. `request_attributes` returns span attributes with the content of a
    request.
    """

    operation: str
    to_answer_request: Callable[[Request], AnswerRequest]
    renderer: Callable[[Request], Renderer[Message]]
    fold: Callable[[], Fold[Message, Answer]]
    request_attributes: Callable[[Request], Mapping[str, Sequence[Any]]]


CHAT: Kind[chat_pb2.ChatRequest, chat_pb2.StreamChatResponse, chat_pb2.ChatResponse] = Kind(
    "chat", chat.to_answer_request, chat.ChatRenderer, ChatFold, span_content.chat_attributes
)
COMPLETION: Kind[
    completion_pb2.CompleteRequest, completion_pb2.StreamCompleteResponse, completion_pb2.CompleteResponse
] = Kind(
    "text_completion",
    completion.to_answer_request,
    completion.CompletionRenderer,
    CompletionFold,
    span_content.completion_attributes,
)
# The conventions have no name for responses: both of OpenAI's APIs are `chat`.
_ResponseKind: TypeAlias = Kind[
    response_pb2.CreateResponseRequest, response_event_pb2.StreamResponseResponse, response_pb2.CreateResponseResponse
]
RESPONSE: _ResponseKind = Kind(
    "chat", response_request.to_answer_request, ResponseRenderer, ResponseFold, span_content.response_attributes
)
TEXT_GENERATION: Kind[
    text_generation_pb2.GenerateTextRequest,
    text_generation_pb2.StreamGenerateTextResponse,
    text_generation_pb2.GenerateTextResponse,
] = Kind(
    "text_completion",
    text_generation.to_answer_request,
    text_generation.TextGenerationRenderer,
    TextFold,
    span_content.text_attributes,
)


def continuing(history: Sequence[response_item_pb2.InputItem]) -> _ResponseKind:
    """Return the kind of a response that continues others, whose items precede its own."""
    return replace(RESPONSE, to_answer_request=partial(response_request.to_answer_request, history=history))

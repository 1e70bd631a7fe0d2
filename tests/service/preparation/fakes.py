"""Preparations of small models, and whole requests: prepared, parsed, rendered, folded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Generic

from service.answering.kind import Answer, Kind, Message, Request
from service.engine.tokens.tokenizer import FastTokenizer, Tokenizer
from service.generation.outputs.events import Completed, Event, Started
from service.generation.outputs.output import GenerationOutput
from service.generation.prompts import conversation
from service.generation.prompts.conversation import Conversation
from service.generation.requests.answer_request import AnswerRequest
from service.generation.requests.request import GenerationRequest
from service.output.answers.answer import AnswerReader
from service.prompting.chat_model import ChatModel
from service.prompting.preparation import Preparation, PreparedAnswer
from service.prompts.preparing.workers import WorkerLimits, Workers
from service.prompts.templates.template import ChatTemplate
from tests.engine.constraints.fakes import ADDED, END, token_id, tokenizer_of
from tests.service.output.fakes import ChoiceResult, outputs_of, results_by_choice
from tests.service.prompts.fakes import CHATML, template_of, user
from tests.waiting import GUARD_S

TOKENIZER = tokenizer_of(*ADDED)
END_ID = token_id(TOKENIZER, END)


def preparation_of(
    source: str | ChatTemplate | None = CHATML,
    tokenizer: FastTokenizer = TOKENIZER,
    *,
    max_model_len: int = 4096,
    limits: WorkerLimits | None = None,
    **settings: Any,
) -> Preparation:
    """Return the preparation of a model with a small tokenizer, with or without a template."""
    chat = None
    if source is not None:
        template = template_of(source) if isinstance(source, str) else source
        chat = ChatModel(template, tokenizer, **settings)
    return Preparation("tiny", tokenizer, max_model_len, chat, Workers(limits or WorkerLimits(max_work_s=GUARD_S)))


def chat_model_of(preparation: Preparation) -> ChatModel:
    """Return the chat model of a model that has a template."""
    assert preparation.chat is not None
    return preparation.chat


def chat(*messages: conversation.Message, **given: Any) -> AnswerRequest:
    """Return a chat's request; `given` are fields of its conversation or of the request."""
    names = {field.name for field in fields(Conversation)}
    chat_conversation = Conversation(
        messages or (user("hello"),), **{name: given.pop(name) for name in names & given.keys()}
    )
    return AnswerRequest("tiny", (chat_conversation,), "messages", **given)


def request_of(prepared: PreparedAnswer) -> GenerationRequest:
    """Return the engine's request, if there is only one."""
    (request,) = prepared.requests
    return request


def prompt_of(prepared: PreparedAnswer) -> str:
    return TOKENIZER.decode(request_of(prepared).prompt_token_ids, skip_special_tokens=False)


def reader_of(prepared: PreparedAnswer, tokenizer: Tokenizer = TOKENIZER) -> AnswerReader:
    return AnswerReader(prepared.requests, prepared.forms, tokenizer)


def answer_to(prepared: PreparedAnswer, text: str) -> ChoiceResult:
    """Return the answer of a model that generates `text`."""
    reader = reader_of(prepared)
    outputs = outputs_of(TOKENIZER, [*TOKENIZER.encode(text), END_ID])
    return results_by_choice(event for output in outputs for event in reader.read(output))[0]


class Exchange(Generic[Request, Message, Answer]):
    """A request that is ready to run, and its growing answer."""

    def __init__(
        self, kind: Kind[Request, Message, Answer], request: Request, prepared: PreparedAnswer, tokenizer: Tokenizer
    ) -> None:
        self.prepared = prepared
        self.reader = reader_of(prepared, tokenizer)
        self._renderer = kind.renderer(request)
        self._fold = kind.fold()

    def started(self) -> list[Message]:
        """Return the first messages of the stream."""
        prepared = self.prepared
        started = Started(
            id="i",
            created_ns=0,
            model="tiny",
            model_version="3",
            fingerprint="fp",
            sampling=prepared.sampling,
            stopping=prepared.stopping,
            n=prepared.requests[0].n,
            num_prompts=len(prepared.requests),
            prompt_texts=prepared.prompt_texts,
        )
        return self._render(started)

    def messages(self, outputs: Iterable[GenerationOutput]) -> list[Message]:
        """Return the stream's messages for the engine's next outputs."""
        return [message for output in outputs for message in self._render(*self.reader.read(output))]

    def completed(self) -> list[Message]:
        """Return the last messages of the stream."""
        return [*self.broken_off(), *self._render(Completed())]

    def broken_off(self) -> list[Message]:
        """Return the last messages of a stream before its error."""
        return self._render(self.reader.usage())

    def stream(self, outputs: Iterable[GenerationOutput]) -> list[Message]:
        """Return all messages of the stream."""
        return [*self.started(), *self.messages(outputs), *self.completed()]

    def answer(self, outputs: Iterable[GenerationOutput]) -> Answer:
        """Return the fold of the whole stream."""
        for message in self.stream(outputs):
            self._fold.add(message)
        return self._fold.response

    def _render(self, *events: Event) -> list[Message]:
        return list(self._renderer.render(events))


async def exchange(
    preparation: Preparation, kind: Kind[Request, Message, Answer], request: Request
) -> Exchange[Request, Message, Answer]:
    """Return an exchange for a message of the contract. Raise the errors of its preparation."""
    prepared = await preparation.prepare(kind.to_answer_request(request), "r")
    return Exchange(kind, request, prepared, preparation.tokenizer)

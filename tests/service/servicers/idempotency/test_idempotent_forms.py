"""A call that is repeated in the other form, streamed or whole, gets the first answer in that form."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from sluice.v1 import (
    completion_pb2,
    completion_pb2_grpc,
    text_generation_pb2,
    text_generation_pb2_grpc,
)

from service.contract.generations.chat_fold import ChatFold
from service.contract.generations.completion_fold import CompletionFold
from service.contract.generations.text_generation_fold import TextFold
from service.contract.responses.response_renderer import ResponseFold
from tests.service.background.background_calls import storing
from tests.service.fakes import MODEL, Running, ScriptedRunner, rejection_of, request, rest_of, running
from tests.service.servicers.responses.test_conversations import create, texts_in
from tests.service.servicers.responses.test_response import message_item, response_request
from tests.service.servicers.responses.test_response import stub_of as responses
from tests.service.servicers.responses.test_stored_responses import get

ID: Final = {"request_id": "r1"}


class Form(NamedTuple):
    """A request, the methods that answer it, and the fold of its stream."""

    request: Any
    whole: Any
    stream: Any
    fold: type[Any]


def form_of(run: Running, kind: str, **serving: Any) -> Form:
    """Return the form of a kind of calls."""
    options = {**ID, **serving}
    if kind == "chat":
        return Form(request(serving=options), run.chat.Chat, run.chat.StreamChat, ChatFold)
    if kind == "response":
        given = response_request(serving=options, input=[message_item("hi")])
        return Form(given, responses(run).CreateResponse, responses(run).StreamResponse, ResponseFold)
    if kind == "completion":
        stub: Any = completion_pb2_grpc.CompletionServiceStub(run.channel)
        completion = completion_pb2.CompleteRequest(model=MODEL, prompts=[{"text": "hi"}], serving=options)
        return Form(completion, stub.Complete, stub.StreamComplete, CompletionFold)
    texts: Any = text_generation_pb2_grpc.TextGenerationServiceStub(run.channel)
    text = text_generation_pb2.GenerateTextRequest(model=MODEL, text_input="hi", serving=options)
    return Form(text, texts.GenerateText, texts.StreamGenerateText, TextFold)


async def answer_of(form: Form, *, stream: bool) -> Any:
    """Return the whole answer to the request of a form."""
    if not stream:
        return await form.whole(form.request)
    folding = form.fold()
    async for message in form.stream(form.request):
        folding.add(message)
    return folding.response


def num_generated(run: Running) -> int:
    """Return the number of answers that were generated."""
    operations = {"chat", "text_completion"}
    return sum(
        (each.attributes or {}).get("gen_ai.operation.name") in operations for each in run.spans.get_finished_spans()
    )


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ["chat", "response", "completion", "text"])
async def test_other_form_has_the_same_answer(kind: str, *, stream: bool) -> None:
    """It is generated once, with one id; how a stream is divided makes no other request."""
    async with running(ScriptedRunner("hello")) as run:
        first = await answer_of(form_of(run, kind), stream=stream)
        second = await answer_of(form_of(run, kind, separate_tokens=True), stream=not stream)
        assert first == second
        assert num_generated(run) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_other_form_joins_a_running_call(*, stream: bool) -> None:
    """A call in the other form waits for the first one, and continues it if its client leaves."""
    runner = ScriptedRunner("hello")
    async with running(runner) as run:
        form = form_of(run, "chat")
        with runner.paused(after=1):
            if stream:
                first = form.stream(form.request)
                await first.read()
                first.cancel()
                second: Any = form.whole(form.request)
            else:
                first = form.whole(form.request)
                second = form.stream(form.request)
                await second.read()
                first.cancel()
        if stream:
            assert (await second).choices[0].message.content[0].text == "hello"
        else:
            assert "".join([event.content_delta.text async for event in rest_of(second)]) == "hello"
        await run.until_idle()
        assert num_generated(run) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_other_content_in_the_other_form_is_rejected(*, stream: bool) -> None:
    """The rule for one method holds for both."""
    async with running(ScriptedRunner("hello")) as run:
        await answer_of(form_of(run, "chat"), stream=stream)
        other = form_of(run, "chat")._replace(request=request(serving=ID, stopping={"max_tokens": 3}))
        call = other.whole(other.request) if stream else other.stream(other.request)
        rejection = await rejection_of(call)
        assert rejection.info.metadata["field"] == "serving.request_id"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
async def test_stored_answer_is_the_one_of_both_forms(tmp_path: Path, *, stream: bool, restarts: bool) -> None:
    """One response is stored, and added to its conversation once; also after a restart of the service."""

    def wanted(conversation_id: str, **serving: Any) -> Any:
        items = [message_item("b")]
        return response_request(store=True, conversation=conversation_id, input=items, serving={**ID, **serving})

    async def answered(run: Running, given: Any, *, stream: bool) -> Any:
        form = Form(given, responses(run).CreateResponse, responses(run).StreamResponse, ResponseFold)
        return (await answer_of(form, stream=stream)).response

    async with running(ScriptedRunner("one"), **storing(tmp_path)) as run:
        conversation_id = (await create(run, "a")).id
        first = await answered(run, wanted(conversation_id), stream=stream)
        if not restarts:
            assert await answered(run, wanted(conversation_id), stream=not stream) == first
            assert (await get(run, first.id)).response == first
            return
    async with running(ScriptedRunner("one"), **storing(tmp_path)) as run:
        second = await answered(run, wanted(conversation_id, separate_tokens=True), stream=not stream)
        assert (second.id, second.output, second.stored) == (first.id, first.output, True)
        assert (await get(run, first.id)).response == second
        assert await texts_in(run, conversation_id) == ["a", "b", "one"]


@pytest.mark.parametrize("stream", [False, True])
async def test_id_of_another_stored_response_is_rejected(tmp_path: Path, *, stream: bool) -> None:
    """A request with other content, after a restart of the service, is rejected before anything is generated."""
    async with running(ScriptedRunner("one"), **storing(tmp_path)) as run:
        given = response_request(store=True, input=[message_item("a")], serving=ID)
        first = (await responses(run).CreateResponse(given)).response
    async with running(ScriptedRunner("two"), **storing(tmp_path)) as run:
        other = response_request(store=True, input=[message_item("b")], serving=ID)
        call = responses(run).StreamResponse(other) if stream else responses(run).CreateResponse(other)
        rejection = await rejection_of(call)
        assert rejection.info.metadata["field"] == "serving.request_id"
        assert "is the id of another request" in rejection.text
        assert num_generated(run) == 0
        assert (await get(run, first.id)).response == first

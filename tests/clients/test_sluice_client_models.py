"""The project's own Python client finds the model of calls that name none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from sluice_client import AsyncClient, CancelledError, Client, DeadlineExceededError, NotFoundError, methods
from sluice_client.v1 import chat_pb2, model_pb2, token_pb2

from tests.clients.stub_server import Behaviour, served
from tests.waiting import GUARD_S

QUESTION = "Who are you?"
TASKS = [model_pb2.TASK_CHAT, model_pb2.TASK_COMPLETION]


class Models:
    """A server with one model, which can be replaced, and whose list can be held back."""

    def __init__(self) -> None:
        self.name = "first"
        self.is_listed = True  # if False, the list is empty
        self.is_streamed_before_the_error = False
        self.num_lists = 0
        self.called: list[str] = []
        self.listing = threading.Event()
        self.may_list = threading.Event()
        self.may_list.set()

    def list(self, _: Any, context: grpc.ServicerContext) -> model_pb2.ListModelsResponse:
        self.num_lists += 1
        self.listing.set()
        context.add_callback(self.may_list.set)  # so that no thread waits after a call has ended
        self.may_list.wait(GUARD_S)
        return model_pb2.ListModelsResponse(
            models=[model_pb2.Model(name=self.name, tasks=TASKS)] if self.is_listed else []
        )

    def check(self, name: str, context: grpc.ServicerContext) -> None:
        self.called.append(name)
        if name == self.name:
            return
        status = status_pb2.Status(code=grpc.StatusCode.NOT_FOUND.value[0], message=f"no model {name}")
        status.details.add().Pack(error_details_pb2.ErrorInfo(reason="MODEL_NOT_FOUND", domain="sluice"))
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.NOT_FOUND, status.message)

    def chat(self, message: chat_pb2.ChatRequest, context: grpc.ServicerContext) -> chat_pb2.ChatResponse:
        self.check(message.model, context)
        return chat_pb2.ChatResponse(model=message.model)

    def stream(self, message: Any, context: grpc.ServicerContext) -> Iterator[chat_pb2.StreamChatResponse]:
        if self.is_streamed_before_the_error:
            yield chat_pb2.StreamChatResponse()
        self.check(message.model, context)
        yield chat_pb2.StreamChatResponse()

    def count(self, message: Any, context: grpc.ServicerContext) -> token_pb2.CountTokensResponse:
        self.check(message.chat.model, context)
        return token_pb2.CountTokensResponse(num_tokens=1)


@contextmanager
def serving(models: Models) -> Iterator[str]:
    """Serve the models and yield the address."""
    behaviours: dict[methods.Method[Any, Any], Behaviour] = {
        methods.LIST_MODELS: models.list,
        methods.CHAT: models.chat,
        methods.STREAM_CHAT: models.stream,
        methods.COUNT_TOKENS: models.count,
    }
    with served(behaviours) as target:
        yield target


class Blocking:
    """Calls of the synchronous client."""

    def __init__(self, target: str, **options: Any) -> None:
        self._client = Client(target, **options)

    def chat(self, **options: Any) -> Any:
        return self._client.chat(QUESTION, **options)

    def stream(self, **options: Any) -> Any:
        return list(self._client.stream_chat(QUESTION, **options))

    def count(self) -> Any:
        return self._client.count_tokens(QUESTION)

    def call_stream(self, message: chat_pb2.ChatRequest) -> Any:
        return list(self._client.stream(methods.STREAM_CHAT, message))

    def close(self) -> None:
        self._client.close()


class OnLoop:
    """The same calls of the asynchronous client."""

    def __init__(self, target: str, **options: Any) -> None:
        self._runner = asyncio.Runner()

        async def opened() -> AsyncClient:
            return AsyncClient(target, **options)

        self._client = self._runner.run(opened())

    def chat(self, **options: Any) -> Any:
        return self._runner.run(self._client.chat(QUESTION, **options))

    def stream(self, **options: Any) -> Any:
        return self._collected(lambda: self._client.stream_chat(QUESTION, **options))

    def count(self) -> Any:
        return self._runner.run(self._client.count_tokens(QUESTION))

    def call_stream(self, message: chat_pb2.ChatRequest) -> Any:
        return self._collected(lambda: self._client.stream(methods.STREAM_CHAT, message))

    def _collected(self, begin: Any) -> Any:
        async def collect() -> Any:
            return [event async for event in begin()]

        return self._runner.run(collect())

    def close(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


@pytest.fixture
def models() -> Models:
    return Models()


@pytest.fixture(params=[Blocking, OnLoop])
def calls(request: pytest.FixtureRequest, models: Models) -> Iterator[Any]:
    """The calls of each client."""
    with serving(models) as target:
        made = request.param(target)
        yield made
        models.may_list.set()
        made.close()


@pytest.mark.parametrize("kind", ["chat", "stream"])
def test_timeout_of_a_call_includes_finding_the_model(kind: str, calls: Any, models: Models) -> None:
    """The time of a call ends while the server lists its models."""
    models.may_list.clear()
    with pytest.raises(DeadlineExceededError):
        getattr(calls, kind)(timeout=0.5)
    assert models.called == []


@pytest.mark.parametrize("kind", ["chat", "stream", "count"])
def test_a_replaced_model_is_looked_up_again(kind: str, calls: Any, models: Models) -> None:
    """A call whose listed model is gone is made again with the model of a new list; others use the list."""
    getattr(calls, kind)()
    models.name = "second"
    getattr(calls, kind)()
    getattr(calls, kind)()
    assert models.called == ["first", "first", "second", "second"]
    assert models.num_lists == 2


def test_a_model_that_is_loaded_later_is_found(calls: Any, models: Models) -> None:
    """A list without a model for the task is not kept."""
    models.is_listed = False
    with pytest.raises(NotFoundError, match="the server lists no model for TASK_CHAT"):
        calls.chat()
    models.is_listed = True
    assert calls.chat().message.model == "first"


@pytest.mark.parametrize("kind", ["chat", "stream"])
def test_a_named_model_is_not_replaced(kind: str, calls: Any, models: Models) -> None:
    """A call that names its model has no other one."""
    with pytest.raises(NotFoundError):
        getattr(calls, kind)(model="mine")
    assert (models.called, models.num_lists) == (["mine"], 0)


def test_a_stream_that_has_begun_keeps_its_model(calls: Any, models: Models) -> None:
    """No second model continues the answer of another one."""
    calls.chat()
    models.name, models.is_streamed_before_the_error = "second", True
    with pytest.raises(NotFoundError):
        calls.stream()
    assert models.called == ["first", "first"]


def test_messages_of_the_caller_are_not_changed(calls: Any, models: Models) -> None:
    """`stream` sets the model in a copy, so that the message finds a later model, too."""
    message = chat_pb2.ChatRequest()
    calls.call_stream(message)
    models.name = "second"
    calls.call_stream(message)
    assert (models.called[-1], message.model) == ("second", "")


def test_model_of_the_client_is_used(models: Models) -> None:
    """A client with a model of its own lists none."""
    with serving(models) as target:
        for kind in (Blocking, OnLoop):
            calls: Any = kind(target, model="first")
            calls.chat()
            calls.count()
            calls.stream()
            calls.close()
    assert (set(models.called), models.num_lists) == ({"first"}, 0)


def test_stream_can_be_cancelled_while_the_model_is_looked_up(models: Models) -> None:
    """`cancel` ends the list, of a synchronous stream from another thread."""
    models.may_list.clear()
    with serving(models) as target, Client(target) as client:
        stream = client.stream_chat(QUESTION)

        def cancel() -> None:
            models.listing.wait(GUARD_S)
            stream.cancel()

        threading.Thread(target=cancel).start()
        with pytest.raises(CancelledError):
            next(stream)
    assert models.called == []


def test_async_stream_can_be_cancelled_while_the_model_is_looked_up(models: Models) -> None:
    """`cancel` ends the list of an asynchronous stream."""
    models.may_list.clear()

    async def cancelled(target: str) -> None:
        async with AsyncClient(target) as client:
            stream = client.stream_chat(QUESTION)
            read = asyncio.create_task(anext(stream))
            await asyncio.to_thread(models.listing.wait, GUARD_S)
            stream.cancel()
            with pytest.raises(CancelledError):
                await read

    with serving(models) as target:
        asyncio.run(cancelled(target))
    assert models.called == []


def test_a_call_does_not_wait_for_the_list_of_another(models: Models) -> None:
    """The time of a call ends while another call, which has more time, looks up the model."""
    models.may_list.clear()
    with serving(models) as target, Client(target) as client:
        other = threading.Thread(target=client.chat, args=(QUESTION,))
        other.start()
        models.listing.wait(GUARD_S)
        with pytest.raises(DeadlineExceededError):
            client.chat(QUESTION, timeout=0.5)
        other.join(GUARD_S)
    assert models.called == ["first"]

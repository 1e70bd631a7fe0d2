"""The asynchronous client."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import grpc
from google.protobuf.message import Message as Proto

from sluice_client import methods, request
from sluice_client.answers import ChatAnswer, Completion, ResponseAnswer
from sluice_client.channel import Settings, Tls
from sluice_client.errors import NotFoundError, decode
from sluice_client.methods import Method
from sluice_client.model_choice import KnownModels, ModelChoice
from sluice_client.repeats import with_id
from sluice_client.streams.async_stream import AsyncStream
from sluice_client.text import text_reader
from sluice_client.v1 import (
    chat_pb2,
    completion_pb2,
    model_pb2,
    rank_pb2,
    response_event_pb2,
    token_pb2,
)

RequestT = TypeVar("RequestT", bound=Proto)
ResponseT = TypeVar("ResponseT", bound=Proto)


class AsyncClient:
    """Calls one server, on one event loop. Failed calls raise SluiceError.

    `timeout` is the seconds that a call may take, retries and resumptions included; a call's own `timeout` replaces the
    client's. `resume_timeout` is the seconds for which a broken stream is resumed. Without a `model`, the first model
    that the server lists for the task is called.
    """

    def __init__(
        self,
        target: str = "127.0.0.1:8080",
        *,
        key: str | None = None,
        model: str | None = None,
        timeout: float = 600.0,
        resume_timeout: float = 30.0,
        wait_for_ready: bool = False,
        tls: Tls | None = None,
        metadata: Mapping[str, str] | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """Open a channel to `target`. `options` are gRPC channel options, which extend and override the client's."""
        self._settings = Settings.from_address(
            target,
            key=key,
            model=model,
            timeout=timeout,
            resume_timeout=resume_timeout,
            wait_for_ready=wait_for_ready,
            tls=tls,
            metadata=metadata or {},
        )
        channel_options = list({**dict(self._settings.options()), **dict(options)}.items())
        credentials = self._settings.credentials()
        self._channel = (
            grpc.aio.insecure_channel(self._settings.target, channel_options)
            if credentials is None
            else grpc.aio.secure_channel(self._settings.target, credentials, channel_options)
        )
        self._multicallables: dict[str, Any] = {}
        self._known = KnownModels()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel all calls and close the connection."""
        await self._channel.close()

    async def chat(
        self,
        conversation: request.Conversation,
        *,
        timeout: float | None = None,
        **options: Unpack[request.ChatOptions],
    ) -> ChatAnswer:
        """Answer a conversation: a user's text, or messages."""
        message = request.chat_request(conversation, options)
        return ChatAnswer(await self._ask(methods.CHAT, message, model_pb2.TASK_CHAT, timeout))

    def stream_chat(
        self,
        conversation: request.Conversation,
        *,
        timeout: float | None = None,
        **options: Unpack[request.ChatOptions],
    ) -> AsyncStream[chat_pb2.StreamChatResponse]:
        """Answer a conversation piece by piece."""
        message = request.chat_request(conversation, options)
        return self._stream(methods.STREAM_CHAT, message, model_pb2.TASK_CHAT, timeout)

    async def complete(
        self, prompts: request.Prompts, *, timeout: float | None = None, **options: Unpack[request.CompletionOptions]
    ) -> Completion:
        """Continue one prompt or several: texts or token ids."""
        message = request.complete_request(prompts, options)
        return Completion(await self._ask(methods.COMPLETE, message, model_pb2.TASK_COMPLETION, timeout))

    def stream_complete(
        self, prompts: request.Prompts, *, timeout: float | None = None, **options: Unpack[request.CompletionOptions]
    ) -> AsyncStream[completion_pb2.StreamCompleteResponse]:
        """Continue prompts piece by piece."""
        message = request.complete_request(prompts, options)
        return self._stream(methods.STREAM_COMPLETE, message, model_pb2.TASK_COMPLETION, timeout)

    async def respond(
        self,
        conversation: request.Conversation,
        *,
        timeout: float | None = None,
        **options: Unpack[request.ResponseOptions],
    ) -> ResponseAnswer:
        """Create a response, an answer made of items."""
        message = request.response_request(conversation, options)
        answer = await self._ask(methods.CREATE_RESPONSE, message, model_pb2.TASK_CHAT, timeout)
        return ResponseAnswer(answer.response)

    def stream_response(
        self,
        conversation: request.Conversation,
        *,
        timeout: float | None = None,
        **options: Unpack[request.ResponseOptions],
    ) -> AsyncStream[response_event_pb2.StreamResponseResponse]:
        """Create a response and stream an event for each change."""
        message = request.response_request(conversation, options)
        return self._stream(methods.STREAM_RESPONSE, message, model_pb2.TASK_CHAT, timeout)

    async def embed(
        self, inputs: request.Prompts, *, timeout: float | None = None, **options: Unpack[request.EmbedOptions]
    ) -> list[list[float]]:
        """Return the embedding of each text."""
        message = request.embed_request(inputs, options)
        answer = await self._ask(methods.EMBED, message, model_pb2.TASK_EMBEDDING, timeout)
        return [list(each.values) for each in answer.embeddings]

    async def rank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        timeout: float | None = None,
        **options: Unpack[request.RankOptions],
    ) -> list[rank_pb2.RankedDocument]:
        """Rank documents by relevance to the query, best first: the `index` and `score` of each."""
        message = request.rank_request(query, documents, options)
        return list((await self._ask(methods.RANK, message, model_pb2.TASK_RANK, timeout)).results)

    async def tokenize(self, text: str, *, model: str | None = None, add_special_tokens: bool = True) -> list[int]:
        """Return the token ids of a text."""
        message = token_pb2.TokenizeTextRequest(model=model or "", text=text, add_special_tokens=add_special_tokens)
        return list((await self._ask(methods.TOKENIZE, message, model_pb2.TASK_COMPLETION)).token_ids)

    async def detokenize(
        self, token_ids: Sequence[int], *, model: str | None = None, skip_special_tokens: bool = False
    ) -> str:
        """Return the text of token ids."""
        message = token_pb2.DetokenizeTextRequest(
            model=model or "", token_ids=token_ids, skip_special_tokens=skip_special_tokens
        )
        return (await self._ask(methods.DETOKENIZE, message, model_pb2.TASK_COMPLETION)).text

    async def count_tokens(self, conversation: request.Conversation, **options: Unpack[request.ChatOptions]) -> int:
        """Return the number of tokens of a conversation, including those that the model's template adds."""
        message = token_pb2.CountTokensRequest(chat=request.chat_request(conversation, options))
        return (await self._ask(methods.COUNT_TOKENS, message, model_pb2.TASK_CHAT)).num_tokens

    async def models(self, *, timeout: float | None = None) -> list[model_pb2.Model]:
        """Return the served models: those that generate first."""
        return list((await self.call(methods.LIST_MODELS, model_pb2.ListModelsRequest(), timeout=timeout)).models)

    async def call(
        self, method: Method[RequestT, ResponseT], message: RequestT, *, timeout: float | None = None
    ) -> ResponseT:
        """Call a unary RPC of `sluice_client.methods` with its request message, and return its response message."""
        seconds = self._settings.timeout if timeout is None else timeout
        try:
            answer: ResponseT = await self._call(method, with_id(message), seconds)
        except grpc.RpcError as error:
            raise decode(error) from None
        return answer

    async def upload(
        self, method: Method[RequestT, ResponseT], messages: Iterable[RequestT], *, timeout: float | None = None
    ) -> ResponseT:
        """Call an RPC of `sluice_client.methods` whose requests are streamed, and return its response message."""
        seconds = self._settings.timeout if timeout is None else timeout
        try:
            answer: ResponseT = await self._call(method, iter(messages), seconds, method.request())
        except grpc.RpcError as error:
            raise decode(error) from None
        return answer

    def stream(
        self, method: Method[RequestT, ResponseT], message: RequestT, *, timeout: float | None = None
    ) -> AsyncStream[ResponseT]:
        """Call a streaming RPC of `sluice_client.methods` with its request message, and return its events.

        If the request has no model, the first one for chats is used.
        """
        own = type(message)()
        own.CopyFrom(message)
        return self._stream(method, own, model_pb2.TASK_CHAT, timeout)

    async def _ask(
        self,
        method: Method[RequestT, ResponseT],
        message: RequestT,
        task: model_pb2.Task.ValueType,
        timeout: float | None = None,
    ) -> ResponseT:
        """Call a unary RPC with a request whose model is chosen if it has none."""
        deadline = time.monotonic() + (self._settings.timeout if timeout is None else timeout)
        choice = ModelChoice(message, task, self._settings.model, self._known)
        while True:
            if not choice.choose():
                choice.choose_from(await self.models(timeout=max(0.0, deadline - time.monotonic())))
            try:
                return await self.call(method, message, timeout=max(0.0, deadline - time.monotonic()))
            except NotFoundError as error:
                if not choice.renew(error):
                    raise

    def _call(
        self, method: Method[RequestT, ResponseT], message: Any, timeout: float, routed: Proto | None = None
    ) -> Any:
        """Begin a call with a message, or with several; `routed` is the message by which several are routed."""
        multicallable = self._multicallables.get(method.path)
        if multicallable is None:
            multicallable = self._multicallables[method.path] = method.on(self._channel)
        return multicallable(
            message,
            timeout=timeout,
            metadata=self._settings.call_metadata(message if routed is None else routed),
            wait_for_ready=self._settings.wait_for_ready or None,
        )

    def _stream(
        self,
        method: Method[RequestT, ResponseT],
        message: RequestT,
        task: model_pb2.Task.ValueType,
        timeout: float | None,
    ) -> AsyncStream[ResponseT]:
        return AsyncStream(
            partial(self._call, method),
            self._list,
            ModelChoice(with_id(message), task, self._settings.model, self._known),
            timeout=self._settings.timeout if timeout is None else timeout,
            resume_timeout=self._settings.resume_timeout,
            text=text_reader(method),
        )

    def _list(self, timeout: float) -> Any:
        """Begin to list the models."""
        return self._call(methods.LIST_MODELS, model_pb2.ListModelsRequest(), timeout)

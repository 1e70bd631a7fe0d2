"""A service with scripted answers: real gRPC on a free port, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from sluice.inference import inference_pb2_grpc
from sluice.v1 import (
    batch_pb2_grpc,
    chat_pb2,
    chat_pb2_grpc,
    completion_pb2_grpc,
    content_pb2,
    conversation_pb2_grpc,
    embedding_pb2_grpc,
    endpoint_pb2_grpc,
    file_pb2_grpc,
    load_pb2,
    model_pb2,
    model_pb2_grpc,
    response_pb2_grpc,
    text_generation_pb2_grpc,
    usage_pb2,
)

CREATED = Timestamp(seconds=1_700_000_000)
STARTED = chat_pb2.StreamChatResponse(
    started=chat_pb2.ChatStarted(id="1", created=CREATED, model="m", system_fingerprint="fp_1")
)
USAGE = usage_pb2.Usage(prompt_tokens=7, completion_tokens=3, reasoning_tokens=1, cached_tokens=4)

Script = Callable[[chat_pb2.ChatRequest], AsyncIterator[chat_pb2.StreamChatResponse]]


def text(piece: str, choice_index: int = 0) -> chat_pb2.StreamChatResponse:
    """Return a text delta."""
    return chat_pb2.StreamChatResponse(content_delta=chat_pb2.ContentDelta(choice_index=choice_index, text=piece))


def finished(choice_index: int = 0) -> chat_pb2.StreamChatResponse:
    """Return the end of a choice."""
    end = chat_pb2.ChoiceFinished(choice_index=choice_index, finish_reason=chat_pb2.FINISH_REASON_STOP)
    return chat_pb2.StreamChatResponse(choice_finished=end)


ENDING = [
    finished(),
    chat_pb2.StreamChatResponse(usage=USAGE),
    chat_pb2.StreamChatResponse(completed=chat_pb2.ChatCompleted()),
]
HELLO = [STARTED, text("Hel"), text("lo"), *ENDING]
HELLO_WHOLE = chat_pb2.ChatResponse(
    id="1",
    created=CREATED,
    model="m",
    system_fingerprint="fp_1",
    choices=[
        chat_pb2.ChatChoice(
            message=content_pb2.Message(
                role=content_pb2.ROLE_ASSISTANT, content=[content_pb2.ContentPart(text="Hello")]
            ),
            finish_reason=chat_pb2.FINISH_REASON_STOP,
        )
    ],
    usage=USAGE,
)


class Status(Exception):  # noqa: N818  a name says what happened
    """A gRPC status with details, to be raised by a script."""

    def __init__(self, code: grpc.StatusCode, words: str = "", *details: Message) -> None:
        super().__init__(words)
        self.code, self.words, self.details = code, words, details


def error_info(reason: str, domain: str = "sluice", **values: str) -> error_details_pb2.ErrorInfo:
    """Return the ErrorInfo of the service."""
    return error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=values)


def bad_request(**fields: str) -> error_details_pb2.BadRequest:
    """Return the invalid fields; `__` in a name stands for a dot."""
    violation = error_details_pb2.BadRequest.FieldViolation
    return error_details_pb2.BadRequest(
        field_violations=[violation(field=name.replace("__", "."), description=words) for name, words in fields.items()]
    )


def retry_info(seconds: float) -> error_details_pb2.RetryInfo:
    """Return the retry delay."""
    delay = Duration()
    delay.FromNanoseconds(int(seconds * 1e9))
    return error_details_pb2.RetryInfo(retry_delay=delay)


def play(events: Sequence[chat_pb2.StreamChatResponse | Exception | None]) -> Script:
    """Return a script of fixed events; None waits until the call is cancelled, an exception is raised."""

    async def script(request: chat_pb2.ChatRequest) -> AsyncIterator[chat_pb2.StreamChatResponse]:
        for event in events:
            if event is None:
                await asyncio.Event().wait()
            elif isinstance(event, Exception):
                raise event
            else:
                yield event

    return script


class FakeService(
    chat_pb2_grpc.ChatServiceServicer, model_pb2_grpc.ModelServiceServicer, health_pb2_grpc.HealthServicer
):
    """Answers by `script`, and unary calls by `whole` after it; records requests and cancelled calls."""

    def __init__(self) -> None:
        self.script: Script = play(HELLO)
        self.whole = HELLO_WHOLE
        self.health: int = health_pb2.HealthCheckResponse.SERVING
        self.requests: list[chat_pb2.ChatRequest] = []
        self.metadata: list[dict[str, str]] = []
        self.time_remaining: list[float] = []
        self.begun = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.num_sent = 0
        self.port = 0
        self.cost = ""  # sent to callers that request it

    async def StreamChat(  # noqa: N802  the contract's name
        self, request: chat_pb2.ChatRequest, context: Any
    ) -> AsyncIterator[chat_pb2.StreamChatResponse]:
        self._note(context)
        self.requests.append(request)
        try:
            async for event in self.script(request):
                yield event
                self.num_sent += 1
        except (asyncio.CancelledError, GeneratorExit):  # the second if it leaves while an event waits for the reader
            self.cancelled.set()
            raise
        except Status as status:
            await abort(context, status)

    async def Chat(  # noqa: N802  the contract's name
        self, request: chat_pb2.ChatRequest, context: Any
    ) -> chat_pb2.ChatResponse:
        async for _ in self.StreamChat(request, context):
            pass
        return self.whole

    async def ListModels(  # noqa: N802  the contract's name
        self, request: model_pb2.ListModelsRequest, context: Any
    ) -> model_pb2.ListModelsResponse:
        self._note(context)
        return model_pb2.ListModelsResponse(models=[model("a"), model("org/b")])

    async def GetModel(  # noqa: N802  the contract's name
        self, request: model_pb2.GetModelRequest, context: Any
    ) -> model_pb2.GetModelResponse:
        self._note(context)
        if request.model not in {"a", "org/b"}:
            words = f"the model {request.model!r} does not exist"
            await abort(context, Status(grpc.StatusCode.NOT_FOUND, words, error_info("MODEL_NOT_FOUND")))
        return model_pb2.GetModelResponse(model=model(request.model))

    async def KeepModel(  # noqa: N802  the contract's name
        self, request: model_pb2.KeepModelRequest, context: Any
    ) -> model_pb2.KeepModelResponse:
        self._note(context)
        return model_pb2.KeepModelResponse(model=model(request.model))

    async def GetLoad(  # noqa: N802  the contract's name
        self, request: load_pb2.GetLoadRequest, context: Any
    ) -> load_pb2.GetLoadResponse:
        self._note(context)
        return load_pb2.GetLoadResponse(models=[load_pb2.ModelLoad(model="a", waiting=3, generated_tokens=2**60)])

    # The gateway changes no models.
    LoadModel = UnloadModel = SleepModel = WakeModel = None  # type: ignore[assignment]

    async def Check(self, request: Any, context: Any) -> health_pb2.HealthCheckResponse:  # noqa: N802
        """grpc.health.v1.Health."""
        return health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.ServingStatus.Name(self.health))

    def _note(self, context: Any) -> None:
        self.metadata.append(dict(context.invocation_metadata()))
        self.time_remaining.append(context.time_remaining())
        if self.cost and self.metadata[-1].get("x-sluice-cost") == "true":
            context.set_trailing_metadata((("x-sluice-cost", self.cost),))
        self.begun.set()


def model(name: str) -> model_pb2.Model:
    """Return a model of this name."""
    state = model_pb2.MODEL_STATE_UNLOADED if name == "a" else model_pb2.MODEL_STATE_LOADED
    return model_pb2.Model(name=name, created=CREATED, max_model_len=2048, state=state)


_SERVICES: list[tuple[type, Callable[[Any, grpc.aio.Server], None]]] = [
    (batch_pb2_grpc.BatchServiceServicer, batch_pb2_grpc.add_BatchServiceServicer_to_server),
    (chat_pb2_grpc.ChatServiceServicer, chat_pb2_grpc.add_ChatServiceServicer_to_server),
    (completion_pb2_grpc.CompletionServiceServicer, completion_pb2_grpc.add_CompletionServiceServicer_to_server),
    (
        conversation_pb2_grpc.ConversationServiceServicer,
        conversation_pb2_grpc.add_ConversationServiceServicer_to_server,
    ),
    (embedding_pb2_grpc.EmbeddingServiceServicer, embedding_pb2_grpc.add_EmbeddingServiceServicer_to_server),
    (endpoint_pb2_grpc.EndpointServiceServicer, endpoint_pb2_grpc.add_EndpointServiceServicer_to_server),
    (file_pb2_grpc.FileServiceServicer, file_pb2_grpc.add_FileServiceServicer_to_server),
    (inference_pb2_grpc.GRPCInferenceServiceServicer, inference_pb2_grpc.add_GRPCInferenceServiceServicer_to_server),
    (model_pb2_grpc.ModelServiceServicer, model_pb2_grpc.add_ModelServiceServicer_to_server),
    (response_pb2_grpc.ResponseServiceServicer, response_pb2_grpc.add_ResponseServiceServicer_to_server),
    (
        text_generation_pb2_grpc.TextGenerationServiceServicer,
        text_generation_pb2_grpc.add_TextGenerationServiceServicer_to_server,
    ),
    (health_pb2_grpc.HealthServicer, health_pb2_grpc.add_HealthServicer_to_server),
]


async def start(service: FakeService) -> tuple[grpc.aio.Server, int]:
    """Start a server on a free port with every service that the fake implements; return it and the port."""
    server = grpc.aio.server()
    for servicer, add in _SERVICES:
        if isinstance(service, servicer):
            add(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, port


async def abort(context: Any, status: Status) -> None:
    """End a call with the status and its details."""
    details = []
    for message in status.details:
        packed = AnyMessage()
        packed.Pack(message)
        details.append(packed)
    rich = status_pb2.Status(code=status.code.value[0], message=status.words, details=details)
    metadata = (("grpc-status-details-bin", rich.SerializeToString()),) if details else ()
    await context.abort(status.code, status.words, metadata)

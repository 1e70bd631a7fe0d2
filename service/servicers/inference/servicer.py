"""inference.GRPCInferenceService: the open inference protocol of KServe and Triton.

Requests are converted to those of `sluice.v1` and answered by the same parts of the service.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from sluice.inference import inference_pb2, inference_pb2_grpc, model_statistics_pb2
from sluice.v1 import chat_pb2, embedding_pb2, rank_pb2, text_generation_pb2

from process.distribution import installed_version
from service.answering.generation import Answering, Context
from service.answering.kind import CHAT, TEXT_GENERATION
from service.auth.errors import ScopeMissing
from service.calls.call import Timed, current_caller, deadline_of
from service.contract.inference.answers import GeneratedEvent, Responses, final
from service.contract.inference.models import EXTENSIONS, config_message, metadata_message
from service.contract.inference.repository import index_message, to_load_request
from service.contract.inference.requests import Inference, naming_fields, to_inference
from service.contract.models.model import to_loaded_model
from service.deployment.model_changes import ModelChanges
from service.deployment.residency.residency import Residency
from service.generation.caller import Scope
from service.generation.errors import InvalidRequest
from service.observability.health import Health
from service.registry.description import ModelState
from service.registry.errors import ModelNotFound, ModelNotLoaded, VersionNotFound
from service.registry.models import ServedEncoder, ServedModel
from service.registry.registry import Registry
from service.servicers.embedding import EmbeddingServicer
from service.servicers.inference.statistics import InferenceStatistics, RunningInference
from service.servicers.inference.stream import InferenceStream, ReportError
from service.servicers.rank import RankServicer

_MAX_NAME: Final = 256  # characters, as in the rules of the other requests
_ENDS_WITH_STATUS: Final = ("triton_grpc_error", "true")  # metadata of a stream that ends with its first error


@dataclass(frozen=True, slots=True)
class _Limited:
    """The remaining time of a call, or of one of its requests if that is less."""

    context: Timed
    ends: float  # an instant of `time.monotonic()`

    def time_remaining(self) -> float | None:
        remaining_s = self.context.time_remaining()
        own_s = self.ends - time.monotonic()
        return own_s if remaining_s is None else min(own_s, remaining_s)


class InferenceServicer(inference_pb2_grpc.GRPCInferenceServiceServicer):
    """Implements GRPCInferenceService."""

    def __init__(
        self,
        answering: Answering,
        embedding: EmbeddingServicer,
        rank: RankServicer,
        *,
        registry: Registry,
        changes: ModelChanges,
        residency: Residency,
        health: Health,
        report_error: ReportError,
    ) -> None:
        """`report_error` returns the status of an error within a stream."""
        self._answering = answering
        self._embedding = embedding
        self._rank = rank
        self._registry = registry
        self._changes = changes
        self._residency = residency
        self._health = health
        self._report_error = report_error
        self._statistics = InferenceStatistics()

    async def ServerLive(  # noqa: N802
        self,
        request: inference_pb2.ServerLiveRequest,  # noqa: ARG002
        context: object,  # noqa: ARG002
    ) -> inference_pb2.ServerLiveResponse:
        return inference_pb2.ServerLiveResponse(live=True)

    async def ServerReady(  # noqa: N802
        self,
        request: inference_pb2.ServerReadyRequest,  # noqa: ARG002
        context: object,  # noqa: ARG002
    ) -> inference_pb2.ServerReadyResponse:
        return inference_pb2.ServerReadyResponse(ready=self._health.is_serving)

    async def ModelReady(  # noqa: N802
        self,
        request: inference_pb2.ModelReadyRequest,
        context: object,  # noqa: ARG002
    ) -> inference_pb2.ModelReadyResponse:
        try:
            model = self._model(request.name, request.version)
        except (ModelNotFound, ModelNotLoaded, VersionNotFound):
            return inference_pb2.ModelReadyResponse(ready=False)
        is_asleep = self._residency.state_of(model) is ModelState.ASLEEP
        return inference_pb2.ModelReadyResponse(ready=self._health.is_serving and not is_asleep)

    async def ServerMetadata(  # noqa: N802
        self,
        request: inference_pb2.ServerMetadataRequest,  # noqa: ARG002
        context: object,  # noqa: ARG002
    ) -> inference_pb2.ServerMetadataResponse:
        return inference_pb2.ServerMetadataResponse(name="sluice", version=installed_version(), extensions=EXTENSIONS)

    async def ModelMetadata(  # noqa: N802
        self,
        request: inference_pb2.ModelMetadataRequest,
        context: object,  # noqa: ARG002
    ) -> inference_pb2.ModelMetadataResponse:
        return metadata_message(self._model(request.name, request.version).description)

    async def ModelConfig(  # noqa: N802
        self,
        request: inference_pb2.ModelConfigRequest,
        context: object,  # noqa: ARG002
    ) -> inference_pb2.ModelConfigResponse:
        config = config_message(self._model(request.name, request.version).description)
        return inference_pb2.ModelConfigResponse(config=config)

    async def ModelInfer(  # noqa: N802
        self, request: inference_pb2.ModelInferRequest, context: Context
    ) -> inference_pb2.ModelInferResponse:
        model, inference, responses = self._begin(request)
        if inference.stream:
            raise InvalidRequest('parameters["stream"]', "must be false in ModelInfer; ModelStreamInfer streams")
        with naming_fields(inference), self._statistics.recording(model) as record:
            return await self._whole(inference, responses, _limited(inference, context), record)

    def ModelStreamInfer(  # noqa: N802
        self, requests: AsyncIterator[inference_pb2.ModelInferRequest], context: Context
    ) -> AsyncGenerator[inference_pb2.ModelStreamInferResponse, None]:
        async def answer(
            request: inference_pb2.ModelInferRequest,
        ) -> AsyncGenerator[inference_pb2.ModelInferResponse, None]:
            model, inference, responses = self._begin(request)
            timed = _limited(inference, context)
            with naming_fields(inference), self._statistics.recording(model) as record:
                if not inference.stream:
                    yield final(await self._whole(inference, responses, timed, record))
                    return
                async with aclosing(self._events(inference, timed)) as events:
                    async for event in events:
                        record.note(event)
                        for response in responses.streamed(event):
                            yield response

        ends_with_error = _ENDS_WITH_STATUS in (context.invocation_metadata() or ())
        stream = InferenceStream(
            answer, self._report_error, self._health.until_draining, ends_with_error=ends_with_error
        )
        return stream.responses(requests)

    async def ModelStatistics(  # noqa: N802
        self,
        request: model_statistics_pb2.ModelStatisticsRequest,
        context: object,  # noqa: ARG002
    ) -> model_statistics_pb2.ModelStatisticsResponse:
        visible = self._registry.visible_to(current_caller())
        return self._statistics.message([self._model(request.name, request.version)] if request.name else visible)

    async def RepositoryIndex(  # noqa: N802
        self,
        request: inference_pb2.RepositoryIndexRequest,
        context: object,  # noqa: ARG002
    ) -> inference_pb2.RepositoryIndexResponse:
        caller = current_caller()
        visible = self._registry.visible_to(caller)
        shows_reasons = Scope.ADMIN in caller.scopes  # they contain paths and messages of libraries
        models = [(model, self._residency.state_of(model)) for model in visible]
        loading = [name for name in visible.failed if self._registry.is_loading(name)]
        return index_message(models, visible.failed, loading, only_ready=request.ready, shows_reasons=shows_reasons)

    async def RepositoryModelLoad(  # noqa: N802
        self,
        request: inference_pb2.RepositoryModelLoadRequest,
        context: Timed,
    ) -> inference_pb2.RepositoryModelLoadResponse:
        caller = current_caller()
        entry = to_loaded_model(to_load_request(request))
        if (model := self._registry.visible_to(caller).find(request.model_name)) is None:
            await self._changes.load_model(entry, caller)
        elif (state := self._residency.state_of(model)) is ModelState.UNLOADED:
            async with self._residency.held(model.name, caller, deadline_of(context)):
                pass
        elif state is ModelState.ASLEEP:
            await self._changes.wake(request.model_name, caller)
        return inference_pb2.RepositoryModelLoadResponse()

    async def RepositoryModelUnload(  # noqa: N802
        self,
        request: inference_pb2.RepositoryModelUnloadRequest,
        context: object,  # noqa: ARG002
    ) -> inference_pb2.RepositoryModelUnloadResponse:
        await self._changes.unload_model(request.model_name, current_caller())
        return inference_pb2.RepositoryModelUnloadResponse()

    def _model(self, name: str, version: str) -> ServedModel:
        """Return the model of that name, or the one that gets most requests of the endpoint of that name.

        Raise ModelNotFound, ModelNotLoaded or VersionNotFound.
        """
        model = self._registry.visible_to(current_caller()).leading(name)
        if version and version != model.description.version:
            raise VersionNotFound(model.name, version, model.description.version)
        return model

    def _begin(self, request: inference_pb2.ModelInferRequest) -> tuple[ServedModel, Inference, Responses]:
        """Return the model, the request in the contract's form, and its responses.

        Raise ScopeMissing and errors of requests.
        """
        if not request.model_name:  # no rule of the contract: a wrong request must not end its stream
            raise InvalidRequest("model_name", "is required")
        if (length := len(request.model_name)) > _MAX_NAME:
            raise InvalidRequest("model_name", f"must have at most {_MAX_NAME} characters (got {length})")
        model = self._model(request.model_name, request.model_version)
        inference = to_inference(request, makes_vectors=isinstance(model, ServedEncoder))
        is_encoding = isinstance(inference.request, embedding_pb2.EmbedRequest | rank_pb2.ScoreRequest)
        scope = Scope.EMBED if is_encoding else Scope.GENERATE
        if scope not in current_caller().scopes:
            raise ScopeMissing({scope})
        return model, inference, Responses(request, inference, model.description.version)

    async def _whole(
        self, inference: Inference, responses: Responses, timed: Timed, record: RunningInference
    ) -> inference_pb2.ModelInferResponse:
        """Return the whole answer, and note its times."""
        match inference.request:
            case text_generation_pb2.GenerateTextRequest() as prompt:
                text = await self._answering.whole(TEXT_GENERATION, prompt, timed)
                record.note(text)
                return responses.generated(text)
            case chat_pb2.ChatRequest() as conversation:
                chat = await self._answering.whole(CHAT, conversation, timed)
                record.note(chat)
                return responses.generated(chat)
            case embedding_pb2.EmbedRequest() as texts:
                return responses.encoded(await self._embedding.Embed(texts, timed))
            case rank_pb2.ScoreRequest() as pairs:
                return responses.encoded(await self._rank.Score(pairs, timed))

    async def _events(self, inference: Inference, timed: Timed) -> AsyncGenerator[GeneratedEvent, None]:
        """Yield the events of a generation."""
        if isinstance(inference.request, chat_pb2.ChatRequest):
            async with aclosing(self._answering.stream(CHAT, inference.request, timed)) as chat:
                async for event in chat:
                    yield event
        elif isinstance(inference.request, text_generation_pb2.GenerateTextRequest):
            async with aclosing(self._answering.stream(TEXT_GENERATION, inference.request, timed)) as text:
                async for each in text:
                    yield each


def _limited(inference: Inference, context: Timed) -> Timed:
    """Return the remaining time of a request: that of its call, or its own `timeout`."""
    return context if inference.timeout_s is None else _Limited(context, time.monotonic() + inference.timeout_s)

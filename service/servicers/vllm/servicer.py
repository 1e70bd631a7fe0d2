"""vllm.grpc.engine.VllmEngine: the engine service of vLLM, as routers of tokens call it.

Requests are converted to those of `sluice.v1` and answered by the same parts of the service.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from sluice.v1 import completion_pb2
from sluice.vllm import engine_pb2, engine_pb2_grpc

from service.answering.embeddings import Embeddings
from service.answering.generation import Answering, Context
from service.answering.kind import COMPLETION
from service.calls.call import current_caller
from service.calls.errors import Draining, Starting
from service.contract.vllm.answers import TokenAnswers
from service.contract.vllm.cache_events import batch_message
from service.contract.vllm.descriptions import loads_message, model_message, server_message, tokenizer_chunks
from service.contract.vllm.requests import naming_fields, to_completion, to_embedding
from service.deployment.residency.residency import Residency
from service.engine.interface.cache_events import CacheBatch
from service.generation.errors import InvalidRequest, UnsupportedTask
from service.observability.health import Health, ServingPhase
from service.registry.description import ModelState
from service.registry.models import ServedCrossEncoder, ServedEncoder, ServedGenerator
from service.registry.registry import Registry
from service.servicers.vllm.running import Aborted, RunningRequests

_MODEL: Final = "x-sluice-model"  # metadata with the name of the model, for servers of several
_RETRY_AFTER_S: Final = 1.0


class VllmServicer(engine_pb2_grpc.VllmEngineServicer):
    """Implements VllmEngine."""

    def __init__(
        self,
        answering: Answering,
        embeddings: Embeddings,
        *,
        registry: Registry,
        residency: Residency,
        health: Health,
    ) -> None:
        self._answering = answering
        self._embeddings = embeddings
        self._registry = registry
        self._residency = residency
        self._health = health
        self._running = RunningRequests()
        self._began = time.monotonic()

    async def Generate(  # noqa: N802
        self, request: engine_pb2.GenerateRequest, context: Context
    ) -> AsyncGenerator[engine_pb2.GenerateResponse, None]:
        made = to_completion(request, self._name(context, ServedGenerator))
        answers = TokenAnswers(request)
        messages = self._messages(request, made, answers, context)
        serving = self._running.serve(current_caller().id, request.request_id, messages)
        with naming_fields(request):
            try:
                async with aclosing(serving):
                    async for message in serving:
                        yield message
            except Aborted:
                for message in answers.aborted():
                    yield message

    async def _messages(
        self,
        request: engine_pb2.GenerateRequest,
        made: completion_pb2.CompleteRequest,
        answers: TokenAnswers,
        context: Context,
    ) -> AsyncGenerator[engine_pb2.GenerateResponse, None]:
        """Yield the messages of an answer that nobody aborts."""
        if not request.stream:
            for message in answers.whole(await self._answering.whole(COMPLETION, made, context)):
                yield message
            return
        async with aclosing(self._answering.stream(COMPLETION, made, context)) as events:
            async for event in events:
                for message in answers.streamed(event):
                    yield message

    async def Embed(self, request: engine_pb2.EmbedRequest, context: Context) -> engine_pb2.EmbedResponse:  # noqa: N802
        made = to_embedding(request, self._name(context, ServedEncoder))
        with naming_fields(request):
            answer = await self._embeddings.embed(made, context)
        values = answer.embeddings[0].values
        return engine_pb2.EmbedResponse(
            embedding=values, prompt_tokens=answer.usage.prompt_tokens, embedding_dim=len(values)
        )

    async def HealthCheck(  # noqa: N802
        self,
        request: engine_pb2.HealthCheckRequest,  # noqa: ARG002
        context: object,  # noqa: ARG002
    ) -> engine_pb2.HealthCheckResponse:
        if self._health.phase is ServingPhase.STARTING:  # a router would ask for a description that doesn't exist yet
            raise Starting(_RETRY_AFTER_S)
        return engine_pb2.HealthCheckResponse(healthy=self._health.is_serving, message=self._health.phase.value)

    async def Abort(  # noqa: N802
        self,
        request: engine_pb2.AbortRequest,
        context: object,  # noqa: ARG002
    ) -> engine_pb2.AbortResponse:
        await self._running.abort(current_caller().id, request.request_ids)
        return engine_pb2.AbortResponse()

    async def GetModelInfo(  # noqa: N802
        self,
        request: engine_pb2.GetModelInfoRequest,  # noqa: ARG002
        context: Context,
    ) -> engine_pb2.GetModelInfoResponse:
        model = self._model(context)
        facts = await asyncio.to_thread(model.files.token_facts)
        defaults = model.preparation.sampling_defaults if isinstance(model, ServedGenerator) else {}
        return model_message(model.description, facts, defaults)

    async def GetServerInfo(  # noqa: N802
        self,
        request: engine_pb2.GetServerInfoRequest,  # noqa: ARG002
        context: Context,
    ) -> engine_pb2.GetServerInfoResponse:
        model = self._model(context)
        engine = model.engine
        is_paused = self._residency.state_of(model) is ModelState.ASLEEP or not self._health.is_serving
        return server_message(engine.stats(), engine.num_open, time.monotonic() - self._began, is_paused=is_paused)

    async def GetLoads(  # noqa: N802
        self, request: engine_pb2.GetLoadsRequest, context: Context
    ) -> engine_pb2.GetLoadsResponse:
        dp_rank = request.dp_rank if request.HasField("dp_rank") else None
        return loads_message(self._model(context).engine.stats(), dp_rank)

    async def GetTokenizer(  # noqa: N802
        self,
        request: engine_pb2.GetTokenizerRequest,  # noqa: ARG002
        context: Context,
    ) -> AsyncGenerator[engine_pb2.GetTokenizerChunk, None]:
        archive = await asyncio.to_thread(self._model(context).files.tokenizer_archive)
        for chunk in tokenizer_chunks(archive):
            yield chunk

    async def SubscribeKvEvents(  # noqa: N802
        self, request: engine_pb2.SubscribeKvEventsRequest, context: Context
    ) -> AsyncGenerator[engine_pb2.KvEventBatch, None]:
        model = self._model(context)
        if not isinstance(model, ServedGenerator):
            raise UnsupportedTask(f"the model {model.name!r} has no prefix cache; it generates no text")
        watching = model.engine.cache_watch.subscribe(current_caller().id, request.start_sequence_number)
        async with aclosing(watching):
            async for batch in self._until_draining(watching):
                yield batch_message(batch)

    async def _until_draining(self, batches: AsyncGenerator[CacheBatch, None]) -> AsyncGenerator[CacheBatch, None]:
        """Yield batches until the service leaves. Raise Draining."""
        draining = asyncio.ensure_future(self._health.until_draining())
        try:
            while True:
                arriving = asyncio.ensure_future(anext(batches))
                try:
                    await asyncio.wait({arriving, draining}, return_when=asyncio.FIRST_COMPLETED)
                    if not arriving.done():
                        raise Draining(_RETRY_AFTER_S)
                    yield arriving.result()
                finally:
                    arriving.cancel()
                    await asyncio.wait({arriving})  # else the generator would still run
        finally:
            draining.cancel()

    def _name(self, context: Context, *kinds: type[ServedGenerator | ServedEncoder]) -> str:
        """Return the model that the call's metadata names, or the only one of these kinds that the caller may use.

        Raise InvalidRequest if there are several, and UnsupportedTask if there is none.
        """
        if name := dict(context.invocation_metadata() or ()).get(_MODEL):
            return str(name)
        visible = self._registry.visible_to(current_caller())
        found = [each.name for each in visible if isinstance(each, kinds) and not each.description.parent]
        if not found:
            does = "embeds texts" if kinds == (ServedEncoder,) else "generates text"
            raise UnsupportedTask(f"no model that the client may use {does}")
        if len(found) > 1:
            raise InvalidRequest(_MODEL, f"is required as metadata, since there are several models: {', '.join(found)}")
        return found[0]

    def _model(self, context: Context) -> ServedGenerator | ServedEncoder:
        """Return the described model: the one that the metadata names, or the only generator, or the only encoder."""
        visible = self._registry.visible_to(current_caller())
        has_generator = any(isinstance(each, ServedGenerator) for each in visible)
        model = visible.leading(self._name(context, ServedGenerator if has_generator else ServedEncoder))
        if isinstance(model, ServedCrossEncoder):
            raise UnsupportedTask(f"the model {model.name!r} ranks texts; it neither generates nor embeds them")
        return model

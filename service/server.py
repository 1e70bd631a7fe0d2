"""The composition root: one gRPC server, its models, and the process's life from start to stop.

Start is health first, then models, which load on another thread; a stop is health first, too.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import grpc
from grpc import aio
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from sluice.v1 import (
    chat_pb2,
    chat_pb2_grpc,
    completion_pb2,
    completion_pb2_grpc,
    embedding_pb2,
    embedding_pb2_grpc,
    endpoint_pb2,
    endpoint_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
    response_pb2,
    response_pb2_grpc,
    text_generation_pb2,
    text_generation_pb2_grpc,
    token_pb2,
    token_pb2_grpc,
    watermark_pb2,
    watermark_pb2_grpc,
)

from process.stop import Stop
from process.tls import CertificateFiles, TlsError, server_files
from service.answering.generation import Answering
from service.auth.authenticator import Authenticator
from service.auth.key_entry import KeysError
from service.auth.signers import SignersError
from service.config import EndpointSettings, ModelSettings, Settings
from service.contract.model import EndpointJson
from service.counting import open_quota
from service.engine.port import StepObserver
from service.engine_metrics import EngineMetrics
from service.generation.errors import InvalidRequest
from service.health import Health, Phase
from service.interceptors.admission import Admission
from service.interceptors.auth import Auth
from service.interceptors.call_duration import CallDuration
from service.interceptors.errors import Errors
from service.interceptors.plain_text import PlainText
from service.interceptors.request_log import RequestLog
from service.interceptors.sending import Sending
from service.interceptors.tracing import Tracing
from service.interceptors.validation import Validation
from service.prompts.workers import WorkerLimits, Workers
from service.registry.description import Endpoint, ServedEntity
from service.registry.endpoint_file import EndpointFile, EndpointFileError
from service.registry.endpoint_table import EndpointTable
from service.registry.models import Registry, ServedModel
from service.servicers.chat import ChatServicer
from service.servicers.completion import CompletionServicer
from service.servicers.embedding import EmbeddingServicer
from service.servicers.endpoint import EndpointServicer
from service.servicers.model import ModelServicer
from service.servicers.response import ResponseServicer
from service.servicers.text_generation import TextGenerationServicer
from service.servicers.token import TokenServicer
from service.servicers.watermark import WatermarkServicer
from service.telemetry import MetricsPage, Telemetry

LoadModel: TypeAlias = Callable[[ModelSettings, StepObserver], Awaitable[ServedModel]]

SERVICES = tuple(
    file.services_by_name[name].full_name
    for file in (
        chat_pb2.DESCRIPTOR,
        completion_pb2.DESCRIPTOR,
        embedding_pb2.DESCRIPTOR,
        endpoint_pb2.DESCRIPTOR,
        model_pb2.DESCRIPTOR,
        response_pb2.DESCRIPTOR,
        text_generation_pb2.DESCRIPTOR,
        token_pb2.DESCRIPTOR,
        watermark_pb2.DESCRIPTOR,
    )
    for name in file.services_by_name
)
HEALTH_SERVICE = "grpc.health.v1.Health"

_REQUESTS = (
    chat_pb2.ChatRequest,
    completion_pb2.CompleteRequest,
    embedding_pb2.EmbedRequest,
    endpoint_pb2.CreateEndpointRequest,
    endpoint_pb2.DeleteEndpointRequest,
    endpoint_pb2.GetEndpointRequest,
    endpoint_pb2.ListEndpointsRequest,
    endpoint_pb2.UpdateEndpointRequest,
    model_pb2.ListModelsRequest,
    model_pb2.GetModelRequest,
    response_pb2.CreateResponseRequest,
    text_generation_pb2.GenerateTextRequest,
    token_pb2.CountTokensRequest,
    token_pb2.DetokenizeTextRequest,
    token_pb2.TokenizeTextRequest,
    watermark_pb2.DetectWatermarkRequest,
)
_MAX_METADATA_BYTES = 24 << 10
_HEARTBEAT_CHECK_S = 1.0
_MAX_READING_S = 60.0  # of the longest text that the contract takes, several times what it needs on a small machine
_LAST_WORDS_S = 2.0  # for statuses on their way out; health watchers would stay for ever

_log = logging.getLogger(__name__)


class StartError(Exception):
    """The service can't start; the text is the one line that says why."""


class EngineDied(Exception):  # noqa: N818 - it says what happened
    """An engine's thread ended by itself; the text is the one line that says so."""


class Server:
    """The gRPC server with everything on it. `start`, `load`, `watch` until a stop, `drain`, `close`."""

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        """Raises StartError if the keys can't be read."""
        self._settings = settings
        self.health = Health(SERVICES)
        self.registry = Registry()
        self.readers = Workers(WorkerLimits(max_work_s=_MAX_READING_S))
        self._metrics = EngineMetrics(telemetry)
        self._authenticator = _authenticator(settings)
        self._watching: asyncio.Task[None] | None = None
        self._admission = Admission(lambda: self.health.phase, settings.max_concurrent_calls)
        self._server = aio.server(
            interceptors=[
                Tracing(telemetry.tracer),
                RequestLog(),
                CallDuration(telemetry.instruments.call_duration),
                Errors(),
                PlainText(),
                Auth(self._authenticator),
                self._admission,
                Validation(_REQUESTS),
                Sending(settings.send_stall_timeout_s),
            ],
            options=_options(settings),
        )
        self.quota = open_quota(settings.quota, telemetry)
        answering = Answering(
            self.registry,
            telemetry,
            self.quota,
            capture_content=settings.capture_content,
            max_answer_bytes=settings.max_response_bytes,
        )
        server, registry, readers = self._server, self.registry, self.readers
        chat_pb2_grpc.add_ChatServiceServicer_to_server(ChatServicer(answering), server)
        completion_pb2_grpc.add_CompletionServiceServicer_to_server(CompletionServicer(answering), server)
        response_pb2_grpc.add_ResponseServiceServicer_to_server(ResponseServicer(answering), server)
        text_generation_pb2_grpc.add_TextGenerationServiceServicer_to_server(TextGenerationServicer(answering), server)
        embedding_pb2_grpc.add_EmbeddingServiceServicer_to_server(
            EmbeddingServicer(registry, telemetry, self.quota), server
        )
        endpoint_pb2_grpc.add_EndpointServiceServicer_to_server(EndpointServicer(registry), server)
        model_pb2_grpc.add_ModelServiceServicer_to_server(ModelServicer(registry), server)
        token_pb2_grpc.add_TokenServiceServicer_to_server(TokenServicer(registry, readers, self.quota), server)
        watermark_pb2_grpc.add_WatermarkServiceServicer_to_server(
            WatermarkServicer(registry, readers, self.quota), server
        )
        health_pb2_grpc.add_HealthServicer_to_server(self.health.servicer, self._server)
        names = [*SERVICES, HEALTH_SERVICE, reflection.SERVICE_NAME]
        reflection.enable_server_reflection(names, self._server)

    async def start(self) -> int:
        """Listen, with health NOT_SERVING, and return the port. Raises StartError if it can't be listened on."""
        host, port = self._settings.host, self._settings.port
        check_free(host, port)
        await self.health.enter(Phase.STARTING)
        await self.quota.start()
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            files = server_files(self._settings.tls)
            if files is None:
                bound = self._server.add_insecure_port(address)
            else:
                bound = self._server.add_secure_port(address, _credentials(files))
        except TlsError as error:
            raise StartError(str(error)) from error
        except RuntimeError as error:
            raise StartError(f"{host}:{port} can't be listened on") from error
        await self._server.start()
        if self._authenticator is not None:
            self._watching = asyncio.create_task(self._authenticator.watch())
        return bound

    async def load(self, models: Sequence[ModelSettings], load_model: LoadModel) -> None:
        """Load all models, one after the other, and serve.

        Raises StartError for endpoints that can't be used, and passes on what `load_model` raises.
        """
        path = self._settings.endpoints_file
        file = EndpointFile(path, EndpointJson()) if path else None
        try:
            made = await asyncio.to_thread(file.read) if file else []
        except EndpointFileError as error:
            raise StartError(f"endpoints_file: {error}") from error
        for model in models:
            served = await load_model(model, self._metrics.observer(model.name))
            served.engine.start()
            self.registry.add(served)
            self._metrics.add(model.name, served.engine)
            _log.info("model is ready", extra={"fields": {"model": model.name}})
        configured = [_configured(self.registry, endpoint) for endpoint in self._settings.endpoints]
        self.registry.endpoints = EndpointTable(configured, made, file)
        await self.health.enter(Phase.SERVING)

    async def watch(self) -> None:
        """Keep health in step with the engines' heartbeats. Raises EngineDied as soon as one has died."""
        failures = {served.engine.failed: served.name for served in self.registry}
        checked_at = time.monotonic()
        while True:
            done, _ = await asyncio.wait(failures, timeout=_HEARTBEAT_CHECK_S, return_when=asyncio.FIRST_COMPLETED)
            for failed in done:
                await self.health.enter(Phase.FAILED)
                reason = failed.result()
                raise EngineDied(f"the engine of {failures[failed]} died: {type(reason).__name__}: {reason}")
            ages = {served.name: served.engine.heartbeat_age_s for served in self.registry}
            await self.health.set_stalled(max(ages.values()) > self._settings.max_heartbeat_age_s)
            # Where this process stood still itself, there may be heartbeats that it hasn't read yet.
            was_late = time.monotonic() - checked_at > 2 * _HEARTBEAT_CHECK_S
            checked_at = time.monotonic()
            for served in self.registry:
                if not was_late and ages[served.name] > self._settings.max_stall_s and served.engine.pid is not None:
                    message = "%s: the engine has not moved for %.0f s, and its process is ended"
                    _log.error(message, served.name, ages[served.name])
                    served.engine.kill()

    async def drain(self, delay_s: float | None = None) -> None:
        """Send new callers away, then wait for the running ones as long as the settings say, then end them.

        `delay_s` is how long calls are still taken; by default as the settings say.
        """
        await self.health.enter(Phase.LEAVING)
        await asyncio.sleep(self._settings.drain_delay_s if delay_s is None else delay_s)
        await self.health.enter(Phase.DRAINING)
        # Calls that were let in may not have come to an engine yet, which takes no new ones while it drains.
        await self._admission.until_idle(self._settings.drain_timeout_s)
        await asyncio.gather(*(served.engine.drain(0) for served in self.registry))

    async def close(self) -> None:
        """End every call with a status, the server and the engines."""
        await asyncio.gather(*(served.engine.drain(0) for served in self.registry))
        await self._server.stop(_LAST_WORDS_S)
        await asyncio.gather(*(served.close() for served in self.registry))
        await self.quota.close()
        self.readers.close()
        if self._watching is not None:
            self._watching.cancel()


def _authenticator(settings: Settings) -> Authenticator | None:
    """None if nobody needs a key."""
    try:
        return Authenticator(settings.auth) if settings.auth.is_on else None
    except KeysError as error:
        raise StartError(f"auth.keys_file: {error}") from error
    except SignersError as error:
        raise StartError(f"auth.jwks: {error}") from error


def _configured(registry: Registry, settings: EndpointSettings) -> Endpoint:
    """An endpoint of the settings, now that its models are known."""
    entities = [ServedEntity(**entity.model_dump()) for entity in settings.entities]
    try:
        return registry.new_endpoint(settings.name, entities)
    except InvalidRequest as error:
        raise StartError(f"endpoints: {settings.name}: {error}") from error


async def serve(settings: Settings, load_model: LoadModel, stop: Stop) -> None:
    """Serve from start to stop. Returns when drained after `stop`; raises StartError, ModelLoadError or EngineDied."""
    telemetry = Telemetry(settings.otlp_endpoint)
    try:
        check_free(settings.metrics_host, settings.metrics_port)
        page = MetricsPage(telemetry.registry, settings.metrics_host, settings.metrics_port)
        try:
            telemetry.watch_loop()
            await _serve(Server(settings, telemetry), settings, load_model, stop)
        finally:
            page.close()
    finally:
        await asyncio.to_thread(telemetry.shutdown)


async def _serve(server: Server, settings: Settings, load_model: LoadModel, stop: Stop) -> None:
    stopping = asyncio.create_task(stop.wait())
    try:
        port = await server.start()
        _log.info("listening", extra={"fields": {"host": settings.host, "port": port}})
        if not await _unless(stopping, server.load(settings.served_models(), load_model)):
            return
        _log.info("serving")
        if not await _unless(stopping, server.watch()):
            _log.info("draining")
            await server.drain(stop.delay_s(settings.drain_delay_s))
    finally:
        stopping.cancel()
        await server.close()
    _log.info("stopped")


async def _unless(stopping: asyncio.Task[None], work: Awaitable[None]) -> bool:
    """Whether `work` was done before the stop; at a stop it is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((stopping, task), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        task.cancel()


def check_free(host: str, port: int) -> None:
    """Raise StartError if nobody can listen there. gRPC's own words about it are many and go past the log."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise StartError(f"{host}:{port} can't be listened on: {error.strerror}") from error


def _credentials(files: CertificateFiles) -> grpc.ServerCredentials:
    """Those of the files as they are at each new connection."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        now = files.current
        assert now.key is not None and now.chain is not None  # noqa: S101,PT018  a server's files have both
        return grpc.ssl_server_certificate_configuration([(now.key, now.chain)], now.authorities)

    def changed() -> grpc.ServerCertificateConfiguration | None:
        return configuration() if files.refresh() else None

    clients_need_one = files.current.authorities is not None
    fetch: Any = changed  # None is for "as before", which its stub doesn't know
    return grpc.dynamic_ssl_server_credentials(configuration(), fetch, clients_need_one)


def _options(settings: Settings) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # a port in use is an error, not a shared port
        ("grpc.max_receive_message_length", settings.max_request_bytes),
        ("grpc.max_send_message_length", settings.max_response_bytes),
        # Two equal limits: between the first and the second, gRPC refuses at random.
        ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
        ("grpc.keepalive_time_ms", round(settings.keepalive_time_s * 1000)),
        ("grpc.keepalive_timeout_ms", round(settings.keepalive_timeout_s * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        # A long prefill sends nothing: without this, callers who ping through it would be sent away.
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ]

"""The composition root: one gRPC server, its models, and the process's life from start to stop.

Start is health first, then models, which load on another thread; a stop is health first, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Collection, Coroutine, Sequence
from functools import partial

from grpc import aio

from process.lifetime.stop import StopSignal
from process.settings.errors import ConfigError
from process.settings.reload import Reload
from service.answering.generation import Answering
from service.deployment.change_store import SharedChanges
from service.deployment.deployment import Deployment, LoadModel
from service.deployment.shared_deployment import SharedDeployment
from service.generation.errors import AdapterRefused, InvalidRequest, ModelLoadError, TooManyAdapters
from service.interceptors.admission import Admission
from service.interceptors.auth import Auth
from service.interceptors.call_duration import CallDuration
from service.interceptors.errors import Errors
from service.interceptors.load_report import LoadReports
from service.interceptors.plain_text import PlainText
from service.interceptors.request_log import RequestLog
from service.interceptors.sending import Sending
from service.interceptors.tracing import Tracing
from service.interceptors.validation import Validation
from service.listener import StartError, check_free, connection_options, listen
from service.observability.counting import open_quota
from service.observability.engine_metrics import EngineMetrics
from service.observability.health import Health, ServingPhase
from service.observability.telemetry import MetricsPage, Telemetry
from service.observability.vllm_names import with_vllm_names
from service.prompts.workers import WorkerLimits, Workers
from service.registry.description import Endpoint, ServedEntity
from service.registry.endpoint_file import EndpointFile
from service.registry.endpoint_table import EndpointTable
from service.registry.errors import RegistryError
from service.registry.models import Registry
from service.registry.shared_endpoints import SharedEndpoints
from service.services import REQUESTS, SERVICES, add_services
from service.settings.config import EndpointSettings, Settings
from service.settings.model_settings import ModelSettings
from service.storage.shared_file import SharedFileError
from service.storage.shared_text import SharedTextLost
from service.stores import authenticator, change_store, endpoint_store

CHANGEABLE = ("endpoints",)  # settings that need no new process; files of keys and certificates are watched in any case

_HEARTBEAT_CHECK_S = 1.0
_MAX_READING_S = 60.0  # of the longest text that the contract takes, several times what it needs on a small machine
_LAST_WORDS_S = 2.0  # for statuses on their way out; health watchers would stay for ever

_log = logging.getLogger(__name__)


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
        self.deployment = Deployment(settings, self.registry, EngineMetrics(telemetry))
        self._change_store = change_store(settings)
        self.shared = SharedDeployment(self.deployment, self.registry, settings.engine, self._change_store)
        self._authenticator = authenticator(settings)
        self._watching: asyncio.Task[None] | None = None
        self._following: list[asyncio.Task[None]] = []
        self._endpoint_store: EndpointFile | SharedEndpoints | None = None
        self._admission = Admission(lambda: self.health.phase, settings.max_concurrent_calls)
        self._server = aio.server(
            interceptors=[
                Tracing(telemetry.tracer),
                RequestLog(),
                CallDuration(telemetry.instruments.call_duration),
                *self._load_reports(),
                Errors(),
                PlainText(),
                Auth(self._authenticator),
                self._admission,
                Validation(REQUESTS),
                Sending(settings.send_stall_timeout_s),
            ],
            options=connection_options(settings),
        )
        self.quota = open_quota(settings.quota, telemetry)
        answering = Answering(
            self.registry,
            telemetry,
            self.quota,
            capture_content=settings.capture_content,
            max_answer_bytes=settings.max_response_bytes,
        )
        add_services(
            self._server,
            health=self.health,
            answering=answering,
            registry=self.registry,
            shared=self.shared,
            readers=self.readers,
            quota=self.quota,
            telemetry=telemetry,
        )

    def _load_reports(self) -> Sequence[LoadReports]:
        form, registry = self._settings.load_report, self.registry
        return [] if form == "none" else [LoadReports(form, lambda: (each.engine.stats() for each in registry.loaded))]

    async def start(self) -> int:
        """Listen, with health NOT_SERVING, and return the port. Raises StartError if it can't be listened on."""
        check_free(self._settings.host, self._settings.port)
        await self.health.enter(ServingPhase.STARTING)
        await self.quota.start()
        bound = listen(self._server, self._settings)
        await self._server.start()
        if self._authenticator is not None:
            self._watching = asyncio.create_task(self._authenticator.watch())
        return bound

    async def load(self, models: Sequence[ModelSettings], load_model: LoadModel) -> None:
        """Load all models, one after the other, and serve.

        Raises StartError for endpoints that can't be used, and passes on what `load_model` raises. By the settings a
        model that can't be loaded is left out instead, as long as there are others.
        """
        store = self._endpoint_store = endpoint_store(self._settings)
        try:
            made = await asyncio.to_thread(store.read) if store else []
        except SharedFileError as error:
            raise StartError(f"endpoints_file: {error}") from error
        except SharedTextLost as error:
            raise StartError(f"store.redis_url: {error}") from error
        try:
            models = await self.shared.begin(models)
        except SharedFileError as error:
            raise StartError(f"loaded_models_file: {error}") from error
        except SharedTextLost as error:
            raise StartError(f"store.redis_url: {error}") from error
        self.deployment.load_by(load_model)
        for model in models:
            try:
                await self._load(model)
            except ModelLoadError as error:
                if not self._settings.leave_out_failed_models or (model is models[-1] and not self.registry.loaded):
                    raise
                self.registry.leave_out(model.name, str(error))
                _log.error("model could not be loaded: %s", error, extra={"fields": {"model": model.name}})
        await self.shared.catch_up()
        self.registry.endpoints = EndpointTable(self._configured(self._settings), made, store)
        if store is not None:
            self._follow(self.registry.endpoints.follow(partial(self.health.set_store_lost, "endpoints")))
        if self._change_store is not None:
            self._follow(self.shared.follow(partial(self.health.set_store_lost, "models")))
        await self.health.set_models(self.registry.loads)
        await self.health.enter(ServingPhase.SERVING)

    def _follow(self, following: Coroutine[None, None, None]) -> None:
        self._following.append(asyncio.create_task(following))

    async def _load(self, model: ModelSettings) -> None:
        try:
            await self.deployment.load_model(model)
            await self.shared.sleep_if_wanted(model.name)
        except (AdapterRefused, TooManyAdapters, RegistryError) as error:
            raise StartError(f"models: {model.name}: {error}") from error

    def apply(self, settings: Settings) -> None:
        """Take over what of new settings is CHANGEABLE, all or none of it. Raises ConfigError."""
        try:
            configured = self._configured(settings)
        except StartError as error:
            raise ConfigError(str(error)) from error
        self.registry.endpoints.configure(configured)

    def _configured(self, settings: Settings) -> Sequence[Endpoint]:
        """The endpoints of the settings, now that their models are known."""
        absent = self.shared.unloaded()
        return [_endpoint(self.registry, endpoint, absent) for endpoint in settings.endpoints]

    async def watch(self) -> None:
        """Keep health in step with the engines' heartbeats. Raises EngineDied as soon as one has died."""
        checked_at = time.monotonic()
        while True:
            failures = {served.engine.failed: served.name for served in self.registry.loaded}
            done: set[asyncio.Future[BaseException]] = set()
            if failures:
                done, _ = await asyncio.wait(failures, timeout=_HEARTBEAT_CHECK_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(_HEARTBEAT_CHECK_S)
            for failed in done:
                await self.health.enter(ServingPhase.FAILED)
                reason = failed.result()
                raise EngineDied(f"the engine of {failures[failed]} died: {type(reason).__name__}: {reason}")
            ages = {served.name: served.engine.heartbeat_age_s for served in self.registry.loaded}
            await self.health.set_stalled(max(ages.values(), default=0.0) > self._settings.max_heartbeat_age_s)
            await self.health.set_models(self.registry.loads)
            # Where this process stood still itself, there may be heartbeats that it hasn't read yet.
            was_late = time.monotonic() - checked_at > 2 * _HEARTBEAT_CHECK_S
            checked_at = time.monotonic()
            for served in self.registry.loaded:
                if (
                    not was_late
                    and ages.get(served.name, 0.0) > self._settings.max_stall_s
                    and served.engine.pid is not None
                ):
                    message = "%s: the engine has not moved for %.0f s, and its process is ended"
                    _log.error(message, served.name, ages[served.name])
                    served.engine.kill()

    async def drain(self, delay_s: float | None = None) -> None:
        """Send new callers away, then wait for the running ones as long as the settings say, then end them.

        `delay_s` is how long calls are still taken; by default as the settings say.
        """
        await self.health.enter(ServingPhase.LEAVING)
        await asyncio.sleep(self._settings.drain_delay_s if delay_s is None else delay_s)
        await self.health.enter(ServingPhase.DRAINING)
        # Calls that were let in may not have come to an engine yet, which takes no new ones while it drains.
        await self._admission.until_idle(self._settings.drain_timeout_s)
        await asyncio.gather(*(served.engine.drain(0) for served in self.registry.loaded))

    async def close(self) -> None:
        """End every call with a status, the server and the engines."""
        await asyncio.gather(*(served.engine.drain(0) for served in self.registry.loaded))
        await self._server.stop(_LAST_WORDS_S)
        await asyncio.gather(*(served.close() for served in self.registry.loaded))
        await self.quota.close()
        self.readers.close()
        for task in (self._watching, *self._following):
            if task is not None:
                task.cancel()
        for store in (self._endpoint_store, self._change_store):
            if isinstance(store, SharedEndpoints | SharedChanges):
                store.close()


def _endpoint(registry: Registry, settings: EndpointSettings, absent: Collection[str]) -> Endpoint:
    """An endpoint of the settings."""
    entities = [ServedEntity(**entity.model_dump()) for entity in settings.entities]
    try:
        return registry.new_endpoint(settings.name, entities, absent)
    except (InvalidRequest, RegistryError) as error:
        raise StartError(f"endpoints: {settings.name}: {error}") from error


async def serve(
    settings: Settings, load_model: LoadModel, stop: StopSignal, reload: Reload[Settings] | None = None
) -> None:
    """Serve from start to stop. Returns when drained after `stop`; raises StartError, ModelLoadError or EngineDied."""
    telemetry = Telemetry(settings.otlp_endpoint)
    try:
        check_free(settings.metrics_host, settings.metrics_port)
        page = MetricsPage(with_vllm_names(telemetry.registry), settings.metrics_host, settings.metrics_port)
        try:
            telemetry.watch_loop()
            await _serve(Server(settings, telemetry), settings, load_model, stop, reload)
        finally:
            page.close()
    finally:
        await asyncio.to_thread(telemetry.shutdown)


async def _serve(
    server: Server, settings: Settings, load_model: LoadModel, stop: StopSignal, reload: Reload[Settings] | None
) -> None:
    stopping = asyncio.create_task(stop.wait())
    following: asyncio.Task[None] | None = None
    try:
        port = await server.start()
        _log.info("listening", extra={"fields": {"host": settings.host, "port": port}})
        if not await _unless(stopping, server.load(settings.served_models(), load_model)):
            return
        _log.info("serving")
        if reload is not None:
            following = asyncio.create_task(reload.follow(server.apply, CHANGEABLE))
        if not await _unless(stopping, server.watch()):
            _log.info("draining")
            await server.drain(stop.delay_s(settings.drain_delay_s))
    finally:
        stopping.cancel()
        if following is not None:
            following.cancel()
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

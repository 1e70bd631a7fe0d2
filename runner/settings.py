"""The runner's settings: the fields, and the values that follow from several of them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, Field, field_validator, model_validator
from pydantic_settings import BaseSettings, CliPositionalArg, NoDecode, SettingsConfigDict

from process.network.address import host_port
from process.network.loopback import is_loopback
from process.settings.quantities import Host, Origin, Seconds
from process.settings.setting import UNIT
from runner.proxy.envoy_config import Addresses
from runner.proxy.envoy_tls import EnvoyTls
from runner.state import default_state_folder
from runner.tls.development_tls import DevelopmentTls
from runner.tls.public_tls import PublicTls

_ADMIN_SOCKET = "admin.sock"  # in the run's folder
ADMIN_HOST = "127.0.0.1"
_PART = re.compile(r"(-\d{5}-of-\d{5})?\.gguf$", re.IGNORECASE)  # the end of a GGUF file's name
ROOT = Path(__file__).resolve().parent.parent  # the folder of the processes' packages


def is_gguf(path: Path) -> bool:
    """Return True if a path is that of a GGUF file, which need not exist, by the end of its name."""
    return path.suffix.lower() == ".gguf"


def is_hub_id(source: str) -> bool:
    """Return True if `source` is an id on the model hub, ORG/MODEL, and neither a GGUF file nor an existing folder."""
    if source.count("/") != 1 or source.endswith("/") or source[0] in "./~":
        return False
    return not (is_gguf(Path(source)) or Path(source).exists())


def _absolute(path: Path) -> str:
    """Return the path without links, except of a GGUF file, which is known by its name."""
    return str(path.absolute() if is_gguf(path) else path.resolve())


class Settings(BaseSettings):
    """Run service, gateway and Envoy on one machine, until Ctrl-C."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_",
        cli_prog_name="sluice serve",
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_exit_on_error=False,
        cli_hide_none_type=True,
        extra="ignore",
    )

    models: CliPositionalArg[list[str]] = Field(
        [],
        description="models to serve, each a folder, a GGUF file or ORG/MODEL (a hub id), optionally after NAME=; "
        "empty: the bundled models",
    )
    host: Host = Field("127.0.0.1", description="address that all three processes listen on")
    envoy_port: int = Field(8080, ge=1, le=65535, description="Envoy's port: REST, gRPC and gRPC-web")
    envoy_admin_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port of Envoy's admin interface, on 127.0.0.1; null: it listens on a Unix socket of this user",
    )
    gateway_port: int = Field(8000, ge=1, le=65535, description="the gateway's port: REST and /metrics")
    service_port: int = Field(50051, ge=1, le=65535, description="the service's gRPC port")
    service_metrics_port: int = Field(9464, ge=1, le=65535, description="port of the service's /metrics")
    config: Path | None = Field(None, description="YAML or TOML file with settings of the service")
    model: list[str] = Field([], description="like the positional arguments, as a flag; repeatable")
    state_folder: Path | None = Field(
        None,
        description="folder of what outlives the run: endpoints, certificates, the operator token; one run at a time "
        "uses it; null: `.state/PORT` in the checkout, installed `~/.local/state/sluice/PORT`, by envoy_port",
    )
    endpoints_file: Path | None = Field(
        None,
        description="file that stores the endpoints created through the API; null: `endpoints.json` in state_folder",
    )
    store_responses: bool = Field(
        False,
        description="store responses of requests with `store: true`, and the requests, in `responses.sqlite3` in "
        "state_folder",
    )
    keys_file: Path | None = Field(
        None, description="file of API keys, written by `sluice keys`; null: clients need no key"
    )
    allow_anonymous: bool = Field(
        False,
        description="allow a host that other machines can reach although keys_file is unset: every client is accepted",
    )
    drain_time_s: int = Field(
        3,
        ge=1,
        json_schema_extra={UNIT: "seconds"},
        description="time after SIGTERM during which requests are accepted while health checks fail; Ctrl-C skips it",
    )
    drain_timeout_s: Seconds = Field(22, description="time for running requests to end, in each process")
    log_format: Literal["auto", "text", "json"] = Field(
        "auto",
        description="format of the processes' log on standard output; text: short lines for people; json: one object "
        "per line, with the process's name as `process`; auto: text on a terminal, elsewhere JSON after the name",
    )
    otlp_endpoint: str | None = Field(
        None,
        validation_alias=AliasChoices("otlp_endpoint", "SLUICE_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="host:port or URL of an OTLP gRPC collector; null: no export",
    )

    cors_origins: Annotated[tuple[Origin, ...], NoDecode] = Field(
        (),
        description="origins of web pages that may send requests, SCHEME://HOST[:PORT], separated by commas; `*`: all; "
        "empty: browsers reject pages of other origins",
    )
    tls: Literal["off", "server", "mutual"] = Field(
        "off",
        description="TLS of all connections, with development certificates; mutual: clients need a certificate too",
    )
    cert_file: Path | None = Field(
        None,
        description="PEM file of the certificate chain that clients see instead of a development certificate; needs "
        "key_file and tls",
    )
    key_file: Path | None = Field(None, description="PEM file of its private key, without a password")
    client_ca_file: Path | None = Field(
        None,
        description="PEM file of the authorities that clients' certificates must be from; needs cert_file",
    )
    certs_folder: Path | None = Field(
        None,
        description="folder of these certificates, which are created at every start; null: `certs` in state_folder",
    )

    @field_validator("cors_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        self.served()
        return self

    @model_validator(mode="after")
    def _has_whole_tls(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file need each other")
        if self.cert_file is not None and self.tls == "off":
            raise ValueError("cert_file needs tls: server, or mutual with client_ca_file")
        if (self.client_ca_file is not None) != (self.cert_file is not None and self.tls == "mutual"):
            raise ValueError("client_ca_file needs cert_file and tls: mutual, and these two need client_ca_file")
        return self

    def served(self) -> dict[str, str]:
        """Return the source of each model by its name: a folder, a GGUF file or a hub id.

        Raise ValueError for two models of one name, and for a name without a model.
        """
        found: dict[str, str] = {}
        for given in (*self.models, *self.model):
            name, _, source = given.rpartition("=")
            if not source:
                raise ValueError(f"{given!r} has no folder, GGUF file or hub id; expected NAME=MODEL")
            source = source.removesuffix("/") if is_hub_id(source) else _absolute(Path(source).expanduser())
            name = name or _PART.sub("", source.rpartition("/")[2])
            if found.setdefault(name, source) != source:
                raise ValueError(f"{found[name]} and {source} are both named {name}; rename one, as in NAME={source}")
        return found

    def development_tls(self) -> DevelopmentTls | None:
        """Return the run's certificates; None without TLS."""
        return None if self.tls == "off" else DevelopmentTls(self.certs(), self.tls == "mutual")

    def state(self) -> Path:
        """Return the absolute path of the state folder."""
        return (self.state_folder or default_state_folder(self.envoy_port)).resolve()

    def endpoints(self) -> Path:
        """Return the absolute path of the endpoints' file."""
        return self.state() / "endpoints.json" if self.endpoints_file is None else self.endpoints_file.resolve()

    def responses(self) -> Path | None:
        """Return the absolute path of the file of stored responses; None if none are stored."""
        return self.state() / "responses.sqlite3" if self.store_responses else None

    def certs(self) -> Path:
        """Return the absolute path of the folder of development certificates."""
        return self.state() / "certs" if self.certs_folder is None else self.certs_folder.resolve()

    def public_tls(self) -> PublicTls | None:
        """Return the operator's own certificate of the public listener; None without one."""
        if self.cert_file is None or self.key_file is None:
            return None
        authorities = None if self.client_ca_file is None else self.client_ca_file.absolute()
        return PublicTls(self.cert_file.absolute(), self.key_file.absolute(), authorities)

    def addresses(self, secrets: Path) -> Addresses:
        """Return the addresses of Envoy's configuration. `secrets` is a folder of this run."""
        given = {each.name: getattr(self, each.name) for each in fields(Addresses) if hasattr(self, each.name)}
        del given["tls"]
        given["envoy_admin_socket"] = secrets / _ADMIN_SOCKET
        given["is_private"] = is_loopback(self.host) and not self.allow_anonymous
        if (tls := self.development_tls()) is None:
            return Addresses(**given)
        return Addresses(
            **given, tls=EnvoyTls(certificates=tls.folder, secrets=secrets, mutual=tls.mutual, public=self.public_tls())
        )

    def admin_address(self, folder: Path) -> str:
        """Return the address of Envoy's admin interface: host:port, or the path of a Unix socket in `folder`."""
        if self.envoy_admin_port is None:
            return str(folder / _ADMIN_SOCKET)
        return host_port(ADMIN_HOST, self.envoy_admin_port)

    def ports(self) -> dict[str, int]:
        """Return every port by the name of its setting."""
        return {name: value for name, value in self.model_dump().items() if name.endswith("_port") and value}

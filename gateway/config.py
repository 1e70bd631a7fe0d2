"""The gateway's settings: its fields. `process.settings.process_settings` says where they come from."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import SettingsConfigDict

from process.network.loopback import is_loopback
from process.network.tls import TargetTlsSettings
from process.settings.process_settings import Port, ProcessSettings

PROGRAM = "sluice-gateway"

_MIB = 1 << 20

Seconds: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class AuthSettings(BaseModel):
    """Who is let in is the service's to say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow_anonymous: bool = Field(
        False, description="listen on addresses that others can reach, though the service asks for no keys"
    )


class Settings(ProcessSettings):
    """The gateway's settings. Times are in seconds.

    Each is a flag, a variable (SLUICE_GATEWAY_PORT) and a key of the file that --config names. Flags win over
    variables, variables over the file.
    """

    model_config = SettingsConfigDict(env_prefix="SLUICE_GATEWAY_", cli_prog_name=PROGRAM)

    host: str = Field("127.0.0.1", min_length=1, description="address to listen on for HTTP")
    port: Port = Field(8000, description="port to listen on for HTTP; 0: any free one")
    admin_host: str = Field("127.0.0.1", min_length=1, description="address of admin_port")
    admin_port: Port | None = Field(
        None,
        description="port for /metrics, /status, /docs and changes of endpoints; unset: all is on port",
    )
    target: str = Field("127.0.0.1:50051", min_length=1, description="host:port of the service's gRPC")

    target_tls: TargetTlsSettings = Field(TargetTlsSettings(), description="TLS towards the service")
    auth: AuthSettings = Field(AuthSettings(), description="who is let in, where the service asks for no keys")

    request_deadline_s: Seconds = Field(600, description="longest time of one generation")
    resume_timeout_s: float = Field(
        30, ge=0, allow_inf_nan=False, description="longest wait to go on with an answer whose service died; 0: none"
    )
    lookup_deadline_s: Seconds = Field(5, description="longest time to ask the service for models or health")
    keep_alive_interval_s: Seconds = Field(10, description="longest silence on a stream before a comment is sent")
    idle_timeout_s: int = Field(75, ge=1, description="idle time after which an HTTP connection is closed")
    drain_delay_s: float = Field(
        3,
        ge=0,
        allow_inf_nan=False,
        description="at SIGTERM: time to accept requests while /healthz and /readyz say no",
    )
    stop_timeout_s: float = Field(
        22, ge=0, allow_inf_nan=False, description="at a stop: time for running requests to end, after drain_delay_s"
    )
    send_stall_timeout_s: Seconds = Field(60, description="time in which a reader must take something of its answer")
    max_body_bytes: int = Field(16 * _MIB, ge=1, description="largest request body")
    max_response_bytes: int = Field(64 * _MIB, ge=1, description="largest message to receive from the service")

    @property
    def needs_keys(self) -> bool:
        """Whether the service must ask for keys: others than this machine can send requests."""
        hosts = [self.host] if self.admin_port is None else [self.host, self.admin_host]
        return not self.auth.allow_anonymous and not all(map(is_loopback, hosts))

"""The gateway's settings. `process.settings.process_settings` reads flags, variables and the file into them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic_settings import SettingsConfigDict

from process.network.loopback import is_loopback
from process.network.tls import TargetTlsSettings
from process.settings.process_settings import ProcessSettings
from process.settings.quantities import Bytes, Host, Interval, Origin, Port, Seconds
from process.settings.setting import UNIT

PROGRAM = "sluice-gateway"

_MIB = 1 << 20


class AuthSettings(BaseModel):
    """The gateway forwards credentials to the service, which authenticates them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow_anonymous: bool = Field(
        False,
        description="allow addresses that other machines can reach although the service's authentication is off",
    )


class Settings(ProcessSettings):
    """The gateway's settings. Times are in seconds.

    Each is a flag, a variable (SLUICE_GATEWAY_PORT) and a key of the file that --config names. Flags override
    variables, variables the file.
    """

    model_config = SettingsConfigDict(env_prefix="SLUICE_GATEWAY_", cli_prog_name=PROGRAM)

    host: Host = Field("127.0.0.1", description="address to listen on for HTTP")
    port: Port = Field(8000, description="port to listen on for HTTP; 0: any free port")
    admin_host: Host = Field("127.0.0.1", description="address to listen on with admin_port")
    admin_port: Port | None = Field(
        None,
        description="port for /metrics, /status, /docs, changes of endpoints and models; null: they are served on port",
    )
    target: str = Field("127.0.0.1:50051", min_length=1, description="host:port of the service, or [IPv6]:port")

    target_tls: TargetTlsSettings = Field(TargetTlsSettings(), description="TLS of connections to the service")
    auth: AuthSettings = Field(AuthSettings(), description="requests without credentials")

    allowed_origins: tuple[Origin, ...] = Field(
        (),
        description="origins of web pages, SCHEME://HOST[:PORT], whose requests are served although the service's "
        "authentication is off; `*`: all; pages of this machine always are",
    )

    sampling_defaults: Literal["dialect", "model"] = Field(
        "dialect",
        description="sampling parameters that a request omits: those that its API documents, where it documents any, or"
        " the model's own; the OpenAI style, Anthropic's and gRPC always have the model's",
    )

    request_deadline_s: Interval = Field(600, description="longest duration of a generation")
    resume_timeout_s: Seconds = Field(
        30, description="longest wait to resume an answer whose service died; 0: answers are not resumed"
    )
    lookup_deadline_s: Interval = Field(5, description="longest duration of a call for models or health")
    keep_alive_interval_s: Interval = Field(10, description="time without data after which a stream sends a comment")
    idle_timeout_s: int = Field(
        75, ge=1, description="idle time after which an HTTP connection is closed", json_schema_extra={UNIT: "seconds"}
    )
    drain_delay_s: Seconds = Field(
        3, description="time after SIGTERM during which requests are accepted while /healthz and /readyz return 503"
    )
    stop_timeout_s: Seconds = Field(22, description="time for running requests to end, after drain_delay_s")
    send_stall_timeout_s: Interval = Field(
        60, description="time after which a connection is closed if its client reads nothing of an answer"
    )
    headers_timeout_s: Interval = Field(10, description="time for the headers of a request to arrive")
    body_timeout_s: Interval = Field(60, description="time for the body of a request to arrive")
    max_header_bytes: Bytes = Field(_MIB // 8, description="largest headers of a request, including its target")
    max_body_bytes: Bytes = Field(16 * _MIB, description="largest request body")
    max_upload_bytes: Bytes = Field(130 * _MIB, description="largest body with a file, which is not held in memory")
    max_incoming_bytes: Bytes = Field(
        256 * _MIB,
        description="memory for bodies that are being received; each caller may use as much as stays free for others",
    )
    max_response_bytes: Bytes = Field(64 * _MIB, description="largest message that is received from the service")

    @property
    def needs_keys(self) -> bool:
        """True if the service must require API keys, because other machines can reach the gateway."""
        hosts = [self.host] if self.admin_port is None else [self.host, self.admin_host]
        return not self.auth.allow_anonymous and not all(map(is_loopback, hosts))

    @property
    def is_private(self) -> bool:
        """True if only programs on this machine may use the gateway without API keys."""
        return not self.auth.allow_anonymous and not self.needs_keys

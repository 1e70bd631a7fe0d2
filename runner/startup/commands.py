"""The command lines of the processes of a run."""

from __future__ import annotations

import sys
from pathlib import Path

from process.network.address import host_port
from runner.settings import Settings

_ENVOY_MARGIN_S = 10.0  # time in which the errors of cut requests pass through Envoy after the drain timeout


def commands(settings: Settings, envoy_yaml: Path, operator_token: Path) -> dict[str, list[str]]:
    """Return each process's command line, in start order. `operator_token` is a file."""
    service = [sys.executable, "-m", "service", "--host", settings.host, "--port", str(settings.service_port)]
    service += ["--metrics-port", str(settings.service_metrics_port)]
    service += ["--endpoints-file", str(settings.endpoints())]
    if (responses := settings.responses()) is not None:
        service += ["--stored-responses.file", str(responses)]
    service += ["--auth.operator-token-file", str(operator_token)]
    if settings.config is not None:
        service += ["--config", str(settings.config.resolve())]
    for name, model in settings.served().items():
        service += ["--model", f"{name}={model}"]
    gateway = [sys.executable, "-m", "gateway", "--host", settings.host, "--port", str(settings.gateway_port)]
    gateway += ["--target", host_port(settings.host, settings.service_port)]
    service += ["--drain-timeout-s", str(settings.drain_timeout_s)]
    gateway += ["--stop-timeout-s", str(settings.drain_timeout_s)]
    for origin in settings.cors_origins:
        gateway += ["--allowed-origins", origin]
    if settings.keys_file is not None:
        service += ["--auth.keys-file", str(settings.keys_file.resolve())]
    if settings.allow_anonymous:
        service += ["--auth.allow-anonymous"]
        gateway += ["--auth.allow-anonymous"]
    if settings.otlp_endpoint is not None:
        service += ["--otlp-endpoint", settings.otlp_endpoint]
        gateway += ["--otlp-endpoint", settings.otlp_endpoint]
    if (tls := settings.development_tls()) is not None:
        service += tls.service_flags()
        gateway += tls.gateway_flags()
    envoy = [sys.executable, "-m", "runner.proxy.front_door", settings.admin_address(envoy_yaml.parent)]
    drain_timeout_s = settings.drain_timeout_s + _ENVOY_MARGIN_S
    envoy += ["--drain-time-s", str(settings.drain_time_s), "--drain-timeout-s", str(drain_timeout_s), "--"]
    envoy += [str(Path(sys.executable).with_name("envoy")), "-c", str(envoy_yaml)]
    envoy += ["--concurrency", "1", "--disable-hot-restart", "-l", "warning"]
    envoy += ["--file-flush-interval-msec", "500"]  # for its access log
    return {"service": service, "gateway": gateway, "envoy": envoy}

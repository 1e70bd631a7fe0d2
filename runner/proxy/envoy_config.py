"""The Envoy configuration of one run: envoy.yaml with its addresses, and without tracing if there is no collector."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from runner.proxy.envoy_tls import EnvoyTls

_HERE = Path(__file__).resolve().parents[1]
# A wheel contains it in the package; a checkout has it one folder up.
FILE = next(path for path in (_HERE / "envoy" / "envoy.yaml", _HERE.parent / "envoy" / "envoy.yaml") if path.is_file())

# The clusters of envoy.yaml: calls and watches of health of the service; requests and operators' pages of the gateway.
SERVICE, WATCH, GATEWAY, OPERATORS = "service", "service-watch", "gateway", "gateway-operators"

_LOCAL_HOST = r"(?i)(localhost\.?|[0-9.]+|\[[0-9a-f:.]+\])(:[0-9]+)?"  # names that no page can make its own


class AddressError(ValueError):
    """An address is invalid; the message is one line for the user."""


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The addresses of all processes, and the allowed origins.

    Envoy's admin interface is at `envoy_admin_port`, or else at `envoy_admin_socket`. `is_private` marks requests of
    web pages under a name that isn't this machine's, for services without API keys. `otlp_endpoint` is the address of
    a collector, or None for no tracing. `cors_origins` are the allowed origins of web pages, "*" for all.
    """

    host: str = "127.0.0.1"
    envoy_port: int
    envoy_admin_port: int | None = None
    envoy_admin_socket: Path | None = None
    gateway_port: int
    service_port: int
    otlp_endpoint: str | None = None
    cors_origins: tuple[str, ...] = ()
    is_private: bool = False
    tls: EnvoyTls | None = None


def envoy_config(addresses: Addresses) -> dict[str, Any]:
    """Return the configuration with these addresses. Raise AddressError for an invalid one."""
    config: dict[str, Any] = yaml.safe_load(FILE.read_text())
    resources = config["static_resources"]
    ports = dict.fromkeys((SERVICE, WATCH), addresses.service_port)
    ports |= dict.fromkeys((GATEWAY, OPERATORS), addresses.gateway_port)
    if addresses.envoy_admin_port is not None:
        _set_address(config["admin"]["address"], "127.0.0.1", addresses.envoy_admin_port)
    elif addresses.envoy_admin_socket is not None:
        config["admin"]["address"] = {"pipe": {"path": str(addresses.envoy_admin_socket), "mode": 0o600}}
    _set_address(resources["listeners"][0]["address"], addresses.host, addresses.envoy_port)
    for cluster in resources["clusters"]:
        if cluster["name"] in ports:
            _set_address(_only_endpoint(cluster), addresses.host, ports[cluster["name"]])
        elif addresses.otlp_endpoint is not None:
            _set_address(_only_endpoint(cluster), *collector_address(addresses.otlp_endpoint))
            cluster["type"] = "STRICT_DNS"  # a collector is often given by host name
    (host,) = connection_manager(config)["route_config"]["virtual_hosts"]
    cors = host["typed_per_filter_config"]["envoy.filters.http.cors"]
    cors["allow_origin_string_match"] = [
        {"safe_regex": {"regex": ".*"}} if origin == "*" else {"exact": origin} for origin in addresses.cors_origins
    ]
    if addresses.is_private:
        _mark_foreign_pages(host["routes"])
    if addresses.tls is not None:
        addresses.tls.apply(config)
    if addresses.otlp_endpoint is None:
        del connection_manager(config)["tracing"]
        resources["clusters"] = [cluster for cluster in resources["clusters"] if cluster["name"] in ports]
    return config


def connection_manager(config: dict[str, Any]) -> dict[str, Any]:
    """Return the HTTP connection manager of the configuration."""
    filters = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"]
    manager: dict[str, Any] = filters[-1]["typed_config"]
    return manager


def _mark_foreign_pages(routes: list[dict[str, Any]]) -> None:
    """Add a route for gRPC-web with a foreign Host: a page whose name was made to resolve to this machine.

    The gateway checks all other requests of pages. Those of other sites fail in the browser, by CORS. The service
    rejects gRPC without `te: trailers`, a header that pages can't send.
    """
    at = next(number for number, each in enumerate(routes) if each["name"] == "grpc")
    route = copy.deepcopy(routes[at])
    route["name"] = "foreign_page"
    route["match"]["headers"] = [
        {"name": "content-type", "string_match": {"prefix": "application/grpc-web"}},
        {"name": ":authority", "string_match": {"safe_regex": {"regex": _LOCAL_HOST}}, "invert_match": True},
    ]
    mark = {"header": {"key": "x-sluice-auth", "value": "foreign"}}
    route["request_headers_to_add"] = [*route["request_headers_to_add"], mark]
    routes.insert(at, route)


def collector_address(endpoint: str) -> tuple[str, int]:
    """Return (host, port) of `http://host:port` or `host:port`, with OTLP's port 4317 if none is given.

    Raise AddressError.
    """
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        host, port = parts.hostname, parts.port or 4317
    except ValueError:
        host = None
    if not host:
        raise AddressError(f"otlp_endpoint {endpoint!r} must be host:port or http://host:port")
    return host, port


def _only_endpoint(cluster: dict[str, Any]) -> dict[str, Any]:
    address: dict[str, Any] = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
    return address


def _set_address(address: dict[str, Any], host: str, port: int) -> None:
    address["socket_address"] = {"address": host, "port_value": port}

"""TLS in Envoy's configuration: downstream, both upstreams, and the SDS files by which Envoy reloads certificates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.tls.public_tls import PublicTls

_TYPES = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3."
_HTTP1 = frozenset({"gateway", "gateway-operators"})  # clusters of envoy.yaml
_SERVER_NAME = "localhost"  # in the certificates of service and gateway
_PUBLIC = "public-"  # the prefix of the secrets of the operator's own certificate
_OLDEST = {"tls_minimum_protocol_version": "TLSv1_2"}


@dataclass(frozen=True, kw_only=True)
class EnvoyTls:
    """TLS of all connections with the files of `certificates`, as `sluice certs dev` creates them.

    `secrets` is the folder of SDS files, which Envoy watches. With `mutual`, clients need a certificate too. Gateways
    that call services, and Envoy as their client, always need one.
    """

    certificates: Path
    secrets: Path
    mutual: bool = False
    public: PublicTls | None = None  # the certificate of the first listener instead of `certificates`

    def apply(self, config: dict[str, Any]) -> None:
        """Write the SDS files, and add TLS to the listeners and clusters of a configuration.

        The first listener is the public one; a second one is for gateways.
        """
        for name in ("server", "client"):
            self._write(name, tls_certificate=self._pair(name))
        self._write("callers", validation_context={"trusted_ca": self._file("ca"), **self._watched})
        if self.public is not None:
            self._write_public(self.public)
        names = [{"san_type": "DNS", "matcher": {"exact": _SERVER_NAME}}]
        self._write(
            "upstreams",
            validation_context={
                "trusted_ca": self._file("ca"),
                "match_typed_subject_alt_names": names,
                **self._watched,
            },
        )
        for index, listener in enumerate(config["static_resources"]["listeners"]):
            (chain,) = listener["filter_chains"]
            prefix = _PUBLIC if self.public is not None and index == 0 else ""
            chain["transport_socket"] = self._downstream_tls(prefix, mutual=self.mutual or index > 0)
        for cluster in config["static_resources"]["clusters"]:
            if cluster["name"] != "otlp":
                cluster["transport_socket"] = self._upstream_tls("http/1.1" if cluster["name"] in _HTTP1 else "h2")

    def _write_public(self, public: PublicTls) -> None:
        """Write the secrets of the public listener."""
        pair = {
            "certificate_chain": {"filename": str(public.cert_file)},
            "private_key": {"filename": str(public.key_file)},
        }
        self._write(f"{_PUBLIC}server", tls_certificate={**pair, **_watched(public.cert_file.parent)})
        if (authorities := public.client_ca_file) is not None:
            trusted = {"trusted_ca": {"filename": str(authorities)}, **_watched(authorities.parent)}
            self._write(f"{_PUBLIC}callers", validation_context=trusted)

    def _downstream_tls(self, prefix: str, *, mutual: bool) -> dict[str, Any]:
        """Return a listener's TLS; with `mutual` clients need a certificate."""
        common = {
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_params": _OLDEST,
            "tls_certificate_sds_secret_configs": [self._secret(f"{prefix}server")],
        }
        if mutual:
            common["validation_context_sds_secret_config"] = self._secret(f"{prefix}callers")
        typed = {"@type": f"{_TYPES}DownstreamTlsContext", "require_client_certificate": mutual}
        return {"name": "envoy.transport_sockets.tls", "typed_config": {**typed, "common_tls_context": common}}

    def _upstream_tls(self, protocol: str) -> dict[str, Any]:
        """Return a cluster's TLS."""
        common = {
            "alpn_protocols": [protocol],
            "tls_params": _OLDEST,
            "tls_certificate_sds_secret_configs": [self._secret("client")],
            "validation_context_sds_secret_config": self._secret("upstreams"),
        }
        typed = {"@type": f"{_TYPES}UpstreamTlsContext", "sni": _SERVER_NAME, "common_tls_context": common}
        return {"name": "envoy.transport_sockets.tls", "typed_config": typed}

    def _secret(self, name: str) -> dict[str, Any]:
        """Return the reference to a secret's file, which Envoy watches."""
        source = {"path_config_source": {"path": str(self._path(name))}, "resource_api_version": "V3"}
        return {"name": name, "sds_config": source}

    def _pair(self, name: str) -> dict[str, Any]:
        return {"certificate_chain": self._file(name), "private_key": self._file(f"{name}-key"), **self._watched}

    def _file(self, name: str) -> dict[str, str]:
        return {"filename": str(self.certificates / f"{name}.pem")}

    @property
    def _watched(self) -> dict[str, Any]:
        return _watched(self.certificates)

    def _path(self, name: str) -> Path:
        return self.secrets / f"{name}.json"

    def _write(self, name: str, **content: Any) -> None:
        """Write a secret's file."""
        secret = {"@type": f"{_TYPES}Secret", "name": name, **content}
        self._path(name).write_text(json.dumps({"resources": [secret]}))


def _watched(folder: Path) -> dict[str, Any]:
    return {"watched_directory": {"path": str(folder)}}

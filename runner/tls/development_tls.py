"""TLS of a run: development certificates for all three processes, and the flags and contexts that use them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from runner.tls.certificates import make_certificates

_NAMES = ("localhost", "127.0.0.1", "::1")
_DAYS = 30


@dataclass(frozen=True)
class DevelopmentTls:
    """The certificates in `folder`, an absolute path. With `mutual`, clients need a certificate too."""

    folder: Path
    mutual: bool

    def make(self, host: str) -> None:
        """Create new certificates, signed by the folder's authority if it exists. Raise OSError or ValueError."""
        make_certificates(self.folder, sorted({*_NAMES, host}), _DAYS)

    def service_flags(self) -> list[str]:
        """Return the server flags of service and gateway: both require a client certificate of the authority."""
        flags = {"cert-file": "server", "key-file": "server-key", "client-ca-file": "ca"}
        return [argument for flag, name in flags.items() for argument in (f"--tls.{flag}", str(self._path(name)))]

    def gateway_flags(self) -> list[str]:
        """Return the flags of the gateway."""
        flags = {"ca-file": "ca", "cert-file": "client", "key-file": "client-key"}
        target = [
            argument for flag, name in flags.items() for argument in (f"--target-tls.{flag}", str(self._path(name)))
        ]
        return [*self.service_flags(), *target]

    def client_ssl_context(self) -> ssl.SSLContext:
        """Return the SSL context of an HTTP client."""
        context = ssl.create_default_context(cafile=self._path("ca"))
        context.load_cert_chain(self._path("client"), self._path("client-key"))
        return context

    def client_pems(self) -> tuple[bytes, bytes, bytes]:
        """Return the authority, the key and the certificate of a gRPC client."""
        authority, key, chain = (self._path(name).read_bytes() for name in ("ca", "client-key", "client"))
        return authority, key, chain

    def curl_flags(self) -> str:
        """Return curl's flags with a leading space."""
        arguments = ["", "--cacert", str(self._path("ca"))]
        if self.mutual:
            arguments += ["--cert", str(self._path("client")), "--key", str(self._path("client-key"))]
        return " ".join(arguments)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

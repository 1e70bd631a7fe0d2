"""TLS of a run: certificates of one's own for all three processes, and what each is told of them."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from runner.tls.certificates import make_certificates

_NAMES = ("localhost", "127.0.0.1", "::1")
_DAYS = 30


@dataclass(frozen=True)
class DevelopmentTls:
    """The files of `folder`, an absolute path. With `mutual`, callers need the client's certificate, too."""

    folder: Path
    mutual: bool

    def make(self, host: str) -> None:
        """Make new certificates, by the folder's authority if it has one. Raises OSError and ValueError."""
        make_certificates(self.folder, sorted({*_NAMES, host}), _DAYS)

    def service_flags(self) -> list[str]:
        """Flags of the service, and of the gateway's own side: both take only whom the authority knows."""
        flags = {"cert-file": "server", "key-file": "server-key", "client-ca-file": "ca"}
        return [word for flag, name in flags.items() for word in (f"--tls.{flag}", str(self._path(name)))]

    def gateway_flags(self) -> list[str]:
        """Flags of the gateway."""
        flags = {"ca-file": "ca", "cert-file": "client", "key-file": "client-key"}
        target = [word for flag, name in flags.items() for word in (f"--target-tls.{flag}", str(self._path(name)))]
        return [*self.service_flags(), *target]

    def caller_context(self) -> ssl.SSLContext:
        """What a caller over HTTP needs."""
        context = ssl.create_default_context(cafile=self._path("ca"))
        context.load_cert_chain(self._path("client"), self._path("client-key"))
        return context

    def caller_pems(self) -> tuple[bytes, bytes, bytes]:
        """What a caller over gRPC needs: the authority, the client's key and its certificate."""
        authority, key, chain = (self._path(name).read_bytes() for name in ("ca", "client-key", "client"))
        return authority, key, chain

    def curl_flags(self) -> str:
        """What curl needs, with a space before it."""
        words = ["", "--cacert", str(self._path("ca"))]
        if self.mutual:
            words += ["--cert", str(self._path("client")), "--key", str(self._path("client-key"))]
        return " ".join(words)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

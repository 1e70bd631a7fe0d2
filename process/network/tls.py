"""Certificates of both processes: the settings that name their files, and the files' current content.

Files are read again when they change, so that certificates are rotated without a restart: open connections continue,
and new ones use the new certificates. Invalid files are logged once, and the previous certificates stay in use.
"""

from __future__ import annotations

import logging
import ssl
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from process.files.file_state import FileState, file_state

_log = logging.getLogger(__name__)


class TlsError(Exception):
    """Certificates are invalid; the text is one line with the setting and the file."""


class TlsSettings(BaseModel):
    """TLS of a server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cert_file: Path | None = Field(None, description="PEM file of the server's certificate chain; null: no TLS")
    key_file: Path | None = Field(None, description="PEM file of the certificate's private key, without a password")
    client_ca_file: Path | None = Field(
        None, description="PEM file of the authorities that clients' certificates must be from; null: clients need none"
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file need each other")
        if self.client_ca_file is not None and self.cert_file is None:
            raise ValueError("client_ca_file needs cert_file and key_file")
        return self


class TargetTlsSettings(BaseModel):
    """TLS of connections to the service."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ca_file: Path | None = Field(
        None, description="PEM file of the authorities that the service's certificate must be from; null: no TLS"
    )
    cert_file: Path | None = Field(
        None, description="PEM file of the certificate chain to present to the service, if it requires one"
    )
    key_file: Path | None = Field(None, description="PEM file of the certificate's private key, without a password")
    server_name: str | None = Field(None, description="name in the service's certificate; null: the target's host")

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("cert_file and key_file need each other")
        if self.ca_file is None and (self.cert_file is not None or self.server_name is not None):
            raise ValueError("cert_file and server_name need ca_file")
        return self


@dataclass(frozen=True, slots=True)
class Certificates:
    """The content of the files, as PEM. The peer's certificate must be from one of `authorities`."""

    chain: bytes | None
    key: bytes | None
    authorities: bytes | None


class CertificateFiles:
    """A certificate, its key and authorities on disk. Thread-safe."""

    def __init__(self, setting: str, cert_file: Path | None, key_file: Path | None, ca_file: Path | None) -> None:
        """Read the files. Raise TlsError if they are invalid."""
        self._setting = setting
        self._pair = (cert_file, key_file) if cert_file is not None and key_file is not None else None
        self._ca_file = ca_file
        self._lock = threading.Lock()
        self._seen = self._states()
        self._current = self._read()

    @property
    def current(self) -> Certificates:
        """The last valid content."""
        return self._current

    def refresh(self) -> bool:
        """Read the files if they have changed. Return True if `current` is new."""
        with self._lock:
            states = self._states()
            if states == self._seen:
                return False
            self._seen = states
            try:
                self._current = self._read()
            except TlsError as error:
                _log.warning(
                    "certificates are invalid; the previous ones stay in use", extra={"fields": {"reason": str(error)}}
                )
                return False
            _log.info("certificates were reloaded", extra={"fields": {"setting": self._setting}})
            return True

    def server_context(self) -> ssl.SSLContext:
        """Return a context of TLS 1.2 or newer. Clients need certificates if there are authorities."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load(context)
        if self._ca_file is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    @property
    def _paths(self) -> list[Path]:
        return [path for path in (*(self._pair or ()), self._ca_file) if path is not None]

    def _states(self) -> list[FileState]:
        return [file_state(path) for path in self._paths]

    def _read(self) -> Certificates:
        """Read and check all files. Raise TlsError."""
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        chain, key = (self._bytes(path) for path in self._pair) if self._pair is not None else (None, None)
        return Certificates(chain, key, self._bytes(self._ca_file) if self._ca_file is not None else None)

    def _bytes(self, path: Path) -> bytes:
        """Return a file's content. Raise TlsError with the setting's name."""
        try:
            return path.read_bytes()
        except OSError as error:
            raise TlsError(f"{self._setting}: {path}: {error.strerror}") from error

    def _load(self, context: ssl.SSLContext) -> None:
        """Raise TlsError for files that OpenSSL rejects: no certificate, a key that doesn't match, an encrypted key."""
        files = ""
        try:
            if self._pair is not None:
                files = " and ".join(map(str, self._pair))
                context.load_cert_chain(*self._pair, password=lambda: "")
            if self._ca_file is not None:
                files = str(self._ca_file)
                context.load_verify_locations(self._ca_file)
        except (ssl.SSLError, ValueError, OSError) as error:
            reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
            raise TlsError(f"{self._setting}: {files}: {reason}") from error


def server_files(settings: TlsSettings) -> CertificateFiles | None:
    """Return a server's certificates; None without TLS. Raise TlsError."""
    if settings.cert_file is None:
        return None
    return CertificateFiles("tls", settings.cert_file, settings.key_file, settings.client_ca_file)


def target_files(settings: TargetTlsSettings) -> CertificateFiles | None:
    """Return a client's certificates; None without TLS. Raise TlsError."""
    if settings.ca_file is None:
        return None
    return CertificateFiles("target_tls", settings.cert_file, settings.key_file, settings.ca_file)

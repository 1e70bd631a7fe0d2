"""The certificate that commands present to a server which requires one, and the TLS that they use with it."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final, NamedTuple

CERT_VARIABLE: Final = "SLUICE_CLIENT_CERT_FILE"
KEY_VARIABLE: Final = "SLUICE_CLIENT_KEY_FILE"


class CertificateError(ValueError):
    """A file can't be used for TLS; the text names it."""


class ClientCertificate(NamedTuple):
    """Paths of PEM files: the certificate with its chain, and its key, both empty without a certificate."""

    cert_file: str
    key_file: str

    @classmethod
    def from_environment(cls) -> ClientCertificate:
        """Return the files that the environment names. Raise CertificateError if it names one of the two only."""
        found = cls(os.environ.get(CERT_VARIABLE, ""), os.environ.get(KEY_VARIABLE, ""))
        if bool(found.cert_file) != bool(found.key_file):
            raise CertificateError(f"{CERT_VARIABLE} and {KEY_VARIABLE} must be set together")
        return found


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return TLS for HTTP with these authorities, or the system's. Raise CertificateError for an invalid file."""
    certificate = ClientCertificate.from_environment()
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:  # OpenSSL's errors are OSErrors, too
        raise CertificateError(f"--ca-file {ca_file}: {error.strerror or error}") from error
    if certificate.cert_file:
        try:
            context.load_cert_chain(*certificate)
        except OSError as error:
            names = f"{CERT_VARIABLE} {certificate.cert_file}, {KEY_VARIABLE} {certificate.key_file}"
            raise CertificateError(f"{names}: {error.strerror or error}") from error
    return context


def pem_files(ca_file: str | None) -> tuple[bytes | None, bytes | None, bytes | None]:
    """Return what `grpc.ssl_channel_credentials` takes. Raise CertificateError for an invalid file."""
    tls_context(ca_file)  # gRPC itself would report an invalid file at the first call only, without its name
    certificate = ClientCertificate.from_environment()
    names = (ca_file, certificate.key_file, certificate.cert_file)
    authorities, key, chain = (Path(name).read_bytes() if name else None for name in names)
    return authorities, key, chain

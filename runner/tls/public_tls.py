"""TLS of the public listener with the operator's own certificate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from process.network.tls import CertificateFiles


@dataclass(frozen=True)
class PublicTls:
    """The certificate that Envoy presents to clients. With `client_ca_file`, clients need one of that authority."""

    cert_file: Path  # absolute, as the other paths: PEM, the certificate before those that issued it
    key_file: Path
    client_ca_file: Path | None

    def check(self) -> None:
        """Raise TlsError if the files are invalid, or the key is another certificate's."""
        CertificateFiles("cert_file and key_file", self.cert_file, self.key_file, None)
        if self.client_ca_file is not None:
            CertificateFiles("client_ca_file", None, None, self.client_ca_file)

    def host_name(self) -> str | None:
        """Return the first host name of the certificate, or None if it has none or only patterns."""
        certificate = x509.load_pem_x509_certificates(self.cert_file.read_bytes())[0]
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return None
        found = names.get_values_for_type(x509.DNSName)
        return next((name for name in found if not name.startswith("*")), None)

    def curl_flags(self) -> str:
        """Return curl's flags with a leading space."""
        return " --cert YOUR-CERTIFICATE.pem --key YOUR-KEY.pem" if self.client_ca_file is not None else ""

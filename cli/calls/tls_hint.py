"""Remedies for failed TLS handshakes, by the text of the library's error."""

from __future__ import annotations

from typing import Final

_CLOSED: Final = ("disconnected without sending", "Socket closed", "reset by peer")
# Texts of OpenSSL and BoringSSL, and the problem with its remedy; the first match applies.
_PROBLEMS: Final = (
    (("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"), "the server has no TLS there; use http://{}"),
    (
        ("Hostname mismatch", "IP address mismatch", "Hostname Verification Check failed"),
        "the server's certificate is for another name; use a name that it has",
    ),
    (("certificate has expired",), "the server's certificate has expired"),
    (
        ("unable to get local issuer", "unable to get issuer", "self-signed certificate", "self signed certificate"),
        "the server's certificate is from an unknown authority; give its PEM file by --ca-file or SLUICE_CA_FILE",
    ),
    (
        (
            *("CERTIFICATE_REQUIRED", "certificate required", "HANDSHAKE_FAILURE", "unknown ca", "UNKNOWN_CA"),
            "TSI_DATA_CORRUPTED",  # gRPC's text for an alert after the handshake
        ),
        "the server requires a trusted certificate; name it by SLUICE_CLIENT_CERT_FILE and SLUICE_CLIENT_KEY_FILE",
    ),
)


def tls_problem(url: str, text: str) -> str | None:
    """Return the problem and the remedy on one line, or None if `text` isn't about TLS."""
    scheme, _, rest = url.partition("://")
    if scheme == "http":
        closed = any(each in text for each in _CLOSED)
        return f"{url} closed the connection; if the server has TLS, use https://{rest}" if closed else None
    for texts, problem in _PROBLEMS:
        if any(each in text for each in texts):
            return f"{url}: {problem.format(rest)}"
    return None

"""Call a gRPC method of a sluice server, for administration that has no REST API."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from cli.calls.client_certificate import CertificateError, pem_files
from cli.calls.operator_token import operator_token
from cli.calls.server import KEY_HINT, ServerError, authorization
from cli.calls.tls_hint import tls_problem

Answer = TypeVar("Answer", bound="_Message")

_LONGEST_S: Final = 3600.0  # model loads are slow; Envoy ends calls after an hour


class _Message(Protocol):
    """A protobuf message."""

    def SerializeToString(self) -> bytes: ...  # noqa: N802  protobuf's name

    @classmethod
    def FromString(cls, data: bytes) -> Any: ...  # noqa: N802  protobuf's name


def call(
    url: str,
    key: str,
    ca_file: str,
    method: str,
    request: _Message,
    answer: type[Answer],
    metadata: Sequence[tuple[str, str]] = (),
) -> Answer:
    """Call `method` ("package.Service/Method") of the server at `url` and return its response. Raise ServerError.

    Without a key, a server on this machine gets its operator token.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own log would repeat the error below
    import grpc  # noqa: PLC0415  imported on use, for a fast start

    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ServerError(f"{url}: not a URL such as http://127.0.0.1:8080")
    try:
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        target = f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
        if parts.scheme == "http":
            channel = grpc.insecure_channel(target)
        else:
            channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(*pem_files(ca_file)))
    except CertificateError as error:
        raise ServerError(str(error)) from error
    except ValueError as error:
        raise ServerError(f"{url}: {error}") from error
    key = key or operator_token(url)
    with channel:
        call = channel.unary_unary(f"/{method}", request.__class__.SerializeToString, answer.FromString)
        try:
            credentials = (("authorization", authorization(key)),) if key else ()
            found: Answer = call(request, timeout=_LONGEST_S, metadata=(*credentials, *metadata))
        except grpc.RpcError as error:
            raise ServerError(_reason(url, error)) from error
        return found


def _reason(url: str, error: Any) -> str:
    """Return the server's error message on one line, with a hint if the server does not seem to be sluice."""
    text = " ".join(str(error.details() or error.code().name).split())
    if any(name == "x-sluice-reason" for name, _ in error.trailing_metadata() or ()):
        return f"{text}; {KEY_HINT}" if error.code().name == "UNAUTHENTICATED" else text
    if (problem := tls_problem(url, text)) is not None:
        return problem
    if error.code().name == "UNAVAILABLE":
        return f"no gRPC at {url} ({text}): a gateway's port does not serve gRPC; `sluice serve` starts a server here"
    return f"{url} does not support this call ({error.code().name}: {text}); is it a server of this project?"

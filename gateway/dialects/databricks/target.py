"""The endpoint and the streaming mode of a request to Databricks' generating APIs.

There are two kinds of paths. `/serving-endpoints/{name}/invocations` has the endpoint's name in the path, and streams
unless the request disables it, or comes from a client that expects a stream only on request. The base path for
OpenAI's clients, `/serving-endpoints/…`, has the name in `model`, and streams only on request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest

_CLIENTS: Final = ("databricks-sdk-", "mlflow")  # in the user agent of clients that expect JSON
_MARKS: Final = ("x-mlflow-client-version", "x-databricks-endpoints-api-client")  # headers that only these clients send


def endpoint_name(http_request: HttpRequest, model: str | None) -> str:
    """Return the name of the requested endpoint, or an empty string. Raise Failure for `model`."""
    name = http_request.path.get("name")
    if name is None:
        return model or ""
    if model not in {None, name}:
        raise Failure.of_field("model", f"must be {name!r}, as in the path, or omitted")
    return name


def wants_stream(http_request: HttpRequest, *, stream: bool | None) -> bool:
    """Return True if the answer is streamed: by the body's `stream`, else by the `Accept` header and the path."""
    if stream is not None:
        return stream
    if "name" not in http_request.path:
        return False
    types = {each.partition(";")[0].strip().lower() for each in http_request.headers.get("accept", "").split(",")}
    return "text/event-stream" in types or not ("application/json" in types or _reads_json(http_request.headers))


def _reads_json(headers: Mapping[str, str]) -> bool:
    """Return True for clients that send `stream: true` if they expect a stream, regardless of `Accept`."""
    agent = headers.get("user-agent", "").lower()
    return any(mark in headers for mark in _MARKS) or any(client in agent for client in _CLIENTS)


def check_extra_params(extra_params: Mapping[str, str] | None) -> None:
    """Raise Failure for parameters that are passed as strings in a separate map."""
    for name in extra_params or ():
        text = f"not supported: give {name[:64]!r} as a top-level field"
        raise Failure.of_field("extra_params", text, Reason.UNSUPPORTED_FIELD)

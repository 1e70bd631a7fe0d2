"""What every body of Databricks' generating APIs shares beside its task: whom it is for, and how it wants its answer.

There are two ways in. `/serving-endpoints/{name}/invocations` names the endpoint in the path, and streams unless the
request says otherwise, or comes from a client that reads no stream which it hasn't asked for. The base path for
OpenAI's clients, `/serving-endpoints/…`, names it in `model`, and streams only where the request says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest

_CLIENTS: Final = ("databricks-sdk-", "mlflow")  # of what reads JSON, in the user agent
_MARKS: Final = ("x-mlflow-client-version", "x-databricks-endpoints-api-client")  # headers that only they send


def endpoint_name(http_request: HttpRequest, model: str | None) -> str:
    """The endpoint that a request is for. Raises Failure for `model`."""
    name = http_request.path.get("name")
    if name is None:
        if model is None:
            raise Failure.of_field("model", "required, but missing", Reason.MISSING_FIELD)
        return model
    if model not in {None, name}:
        raise Failure.of_field("model", f"must be {name!r}, as in the path, or left out")
    return name


def wants_stream(http_request: HttpRequest, *, stream: bool | None) -> bool:
    """Whether the answer is to be streamed: by the body's `stream`, else by the `Accept` header and the path's way."""
    if stream is not None:
        return stream
    if "name" not in http_request.path:
        return False
    types = {each.partition(";")[0].strip().lower() for each in http_request.headers.get("accept", "").split(",")}
    return "text/event-stream" in types or not ("application/json" in types or _reads_json(http_request.headers))


def _reads_json(headers: Mapping[str, str]) -> bool:
    """Whether it is a client that sends `stream: true` where it reads a stream, whatever it accepts."""
    agent = headers.get("user-agent", "").lower()
    return any(mark in headers for mark in _MARKS) or any(client in agent for client in _CLIENTS)


def check_extra_params(extra_params: Mapping[str, str] | None) -> None:
    """ToErrorResponse parameters that are given as texts in a map of their own. Raises Failure."""
    for name in extra_params or ():
        text = f"not supported: give {name[:64]!r} as a top-level field"
        raise Failure.of_field("extra_params", text, Reason.UNSUPPORTED_FIELD)

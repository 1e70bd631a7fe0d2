"""The errors that the service itself raises, beside those of the pipeline and the engine.

Owns the exception classes and nothing else; the one table that turns exceptions into statuses is
`service.interceptors.errors`.
"""
# ruff: noqa: N818 - a name says what happened; that it is an error is said where it is raised

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from service.generation.errors import InvalidRequest


class ServiceError(Exception):
    """The root of these errors; its text may be shown to the caller."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule of the contract that a request breaks.

    `field` is a path of proto names such as `messages[0].role`, `rule` the rule's id. `value` is what the caller sent
    there, as text, if it is a plain one; it is for the caller only, never for logs.
    """

    field: str
    description: str
    rule: str
    value: str | None = None


class InvalidMessage(ServiceError):
    """A request breaks rules of the contract."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(f"{v.field}: {v.description}" if v.field else v.description for v in violations))
        self.violations = tuple(violations)


class ModelNotFound(ServiceError):
    """No model of that name is served."""

    def __init__(self, model: str, endpoint: str = "") -> None:
        """`endpoint` is what the request named, if that sends it to `model`."""
        text = f"no model named {model!r} is served"
        super().__init__(f"{text}; the endpoint {endpoint!r} sends requests to it" if endpoint else text)
        self.model = model


class VersionNotFound(ServiceError):
    """A model is served in another version than the one asked for."""

    def __init__(self, model: str, version: str, served: str) -> None:
        super().__init__(f"the model {model!r} is served in version {served!r}, not {version!r}")
        self.model = model
        self.version = version


class DeploymentNotFound(ServiceError):
    """An endpoint has no deployment of that name."""

    def __init__(self, endpoint: str, deployment: str) -> None:
        super().__init__(f"the endpoint {endpoint!r} has no deployment named {deployment!r}")
        self.endpoint = endpoint
        self.deployment = deployment


class EndpointNotFound(ServiceError):
    """There is no endpoint of that name."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"there is no endpoint named {endpoint!r}")
        self.endpoint = endpoint


class EndpointExists(ServiceError):
    """An endpoint is to have a name that another one, or a model, has."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"the name {endpoint!r} is taken")
        self.endpoint = endpoint


class EndpointReadOnly(ServiceError):
    """An endpoint is to change that callers can't change; `why` goes on from its name."""

    def __init__(self, endpoint: str, why: str) -> None:
        super().__init__(f"the endpoint {endpoint!r} {why}")
        self.endpoint = endpoint


class TooManyEndpoints(ServiceError):
    """There are as many endpoints as the service keeps."""

    def __init__(self, max_endpoints: int) -> None:
        super().__init__(f"there are {max_endpoints} endpoints; that is the limit")
        self.max_endpoints = max_endpoints


class UnsupportedTask(InvalidRequest):
    """The model that a request names serves other tasks than the one asked for."""

    def __init__(self, message: str) -> None:
        super().__init__("model", message)


class Starting(ServiceError):
    """The models are still being loaded. Retry after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the service is starting")
        self.retry_after_s = retry_after_s


class Draining(ServiceError):
    """The service is shutting down and takes no new calls. Retry, elsewhere, after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("the service is shutting down")
        self.retry_after_s = retry_after_s


class TooManyCalls(ServiceError):
    """As many calls are being served as the service takes. Retry after `retry_after_s` seconds."""

    def __init__(self, max_concurrent_calls: int, retry_after_s: float) -> None:
        super().__init__(f"{max_concurrent_calls} calls are being served; that is the limit")
        self.max_concurrent_calls = max_concurrent_calls
        self.retry_after_s = retry_after_s

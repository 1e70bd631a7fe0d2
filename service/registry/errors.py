"""Errors of names."""
# ruff: noqa: N818 - a name says what happened; that it is an error is said where it is raised

from __future__ import annotations


class RegistryError(Exception):
    """The root of these errors; its text may be shown to the caller."""


class ModelNotFound(RegistryError):
    """No model of that name is served."""

    def __init__(self, model: str, endpoint: str = "") -> None:
        """`endpoint` is what the request named, if that sends it to `model`."""
        text = f"no model named {model!r} is served"
        super().__init__(f"{text}; the endpoint {endpoint!r} sends requests to it" if endpoint else text)
        self.model = model


class ModelNotLoaded(RegistryError):
    """There is to be a model of that name, and it could not be loaded here, or is being loaded."""

    def __init__(self, model: str, endpoint: str = "", *, is_loading: bool = False) -> None:
        """`endpoint` is what the request named, if that sends it to `model`."""
        text = f"the model {model!r} {'is being loaded' if is_loading else 'could not be loaded'}"
        super().__init__(f"{text}; the endpoint {endpoint!r} sends requests to it" if endpoint else text)
        self.model = model


class VersionNotFound(RegistryError):
    """A model is served in another version than the one asked for."""

    def __init__(self, model: str, version: str, served: str) -> None:
        super().__init__(f"the model {model!r} is served in version {served!r}, not {version!r}")
        self.model = model
        self.version = version


class DeploymentNotFound(RegistryError):
    """An endpoint has no deployment of that name."""

    def __init__(self, endpoint: str, deployment: str) -> None:
        super().__init__(f"the endpoint {endpoint!r} has no deployment named {deployment!r}")
        self.endpoint = endpoint
        self.deployment = deployment


class EndpointNotFound(RegistryError):
    """There is no endpoint of that name."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"there is no endpoint named {endpoint!r}")
        self.endpoint = endpoint


class EndpointNotAllowed(RegistryError):
    """An endpoint is to have a name that its maker's key is not for."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"the key may not make an endpoint named {endpoint!r}")
        self.endpoint = endpoint


class EndpointExists(RegistryError):
    """An endpoint is to have a name that another one, or a model, has."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"the name {endpoint!r} is taken")
        self.endpoint = endpoint


class EndpointChanged(RegistryError):
    """An endpoint has another version than the one that its caller means to change."""

    def __init__(self, endpoint: str, version: int, meant: int) -> None:
        super().__init__(f"the endpoint {endpoint!r} has config_version {version}, not {meant}; nothing was changed")
        self.endpoint = endpoint


class EndpointReadOnly(RegistryError):
    """An endpoint is to change that callers can't change; `why` goes on from its name."""

    def __init__(self, endpoint: str, why: str) -> None:
        super().__init__(f"the endpoint {endpoint!r} {why}")
        self.endpoint = endpoint


class EndpointsUnavailable(RegistryError):
    """The store that replicas share has no say now. Retry after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("endpoints can't be changed now; nothing was changed")
        self.retry_after_s = retry_after_s


class ChangesUnavailable(RegistryError):
    """The store of what replicas serve has no say now. Retry after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("models and adapters can't be changed now: their store is lost")
        self.retry_after_s = retry_after_s


class TooManyEndpoints(RegistryError):
    """There are as many endpoints as the service keeps."""

    def __init__(self, max_endpoints: int) -> None:
        super().__init__(f"there are {max_endpoints} endpoints; that is the limit")
        self.max_endpoints = max_endpoints


class AdapterNotFound(RegistryError):
    """A model has no adapter of that name."""

    def __init__(self, model: str, adapter: str) -> None:
        super().__init__(f"the model {model!r} has no adapter named {adapter!r}")
        self.model = model
        self.adapter = adapter


class AdapterExists(RegistryError):
    """An adapter is to have a name that another one of its model, another model or an endpoint has."""

    def __init__(self, adapter: str) -> None:
        super().__init__(f"the name {adapter!r} is taken")
        self.adapter = adapter


class ModelExists(RegistryError):
    """A model is to have a name that another one, an adapter or an endpoint has."""

    def __init__(self, model: str) -> None:
        super().__init__(f"the name {model!r} is taken")
        self.model = model


class LoadingOff(RegistryError):
    """Callers may load nothing of the kind."""

    def __init__(self, kind: str, setting: str) -> None:
        """`kind` is what is loaded, in the plural."""
        super().__init__(f"{kind} can't be loaded: the setting {setting} names no folder to load them from")
        self.setting = setting

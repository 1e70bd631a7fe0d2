"""Errors of models, endpoints and adapters that are looked up, added or changed by name."""
# ruff: noqa: N818 - a name states the condition, without the suffix Error

from __future__ import annotations

from collections.abc import Mapping

from service.generation.errors import ServiceError


class RegistryError(ServiceError):
    """The root of these errors."""


class ModelNotFound(RegistryError):
    """No model of that name is served."""

    def __init__(self, model: str, endpoint: str = "", suggestion: str = "") -> None:
        """`endpoint` is the endpoint that the request named, if it routes to `model`; `suggestion` ends the text."""
        text = f"no model named {model!r} is served"
        super().__init__(f"{text}; the endpoint {endpoint!r} sends requests to it" if endpoint else text + suggestion)
        self.model = model

    @property
    def values(self) -> Mapping[str, str]:
        return {"model": self.model}


class ModelNotLoaded(RegistryError):
    """The model is configured but could not be loaded on this replica, or is being loaded."""

    def __init__(self, model: str, endpoint: str = "", *, is_loading: bool = False) -> None:
        """`endpoint` is the endpoint that the request named, if it routes to `model`."""
        text = f"the model {model!r} {'is being loaded' if is_loading else 'could not be loaded'}"
        super().__init__(f"{text}; the endpoint {endpoint!r} sends requests to it" if endpoint else text)
        self.model = model

    @property
    def values(self) -> Mapping[str, str]:
        return {"model": self.model}


class VersionNotFound(RegistryError):
    """A model is not served in the requested version."""

    def __init__(self, model: str, version: str, served: str) -> None:
        super().__init__(f"the model {model!r} is served in version {served!r}, not {version!r}")
        self.model = model
        self.version = version

    @property
    def values(self) -> Mapping[str, str]:
        return {"model": self.model, "version": self.version}


class DeploymentNotFound(RegistryError):
    """An endpoint has no deployment of that name."""

    def __init__(self, endpoint: str, deployment: str) -> None:
        super().__init__(f"the endpoint {endpoint!r} has no deployment named {deployment!r}")
        self.endpoint = endpoint
        self.deployment = deployment

    @property
    def values(self) -> Mapping[str, str]:
        return {"endpoint": self.endpoint, "deployment": self.deployment}


class EndpointNotFound(RegistryError):
    """There is no endpoint of that name."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"there is no endpoint named {endpoint!r}")
        self.endpoint = endpoint

    @property
    def values(self) -> Mapping[str, str]:
        return {"endpoint": self.endpoint}


class EndpointNotAllowed(RegistryError):
    """The API key doesn't permit an endpoint with this name."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"the key may not make an endpoint named {endpoint!r}")
        self.endpoint = endpoint

    @property
    def values(self) -> Mapping[str, str]:
        return {"endpoint": self.endpoint}


class EndpointExists(RegistryError):
    """The name of a new endpoint is already used by an endpoint or a model."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"the name {endpoint!r} is taken")
        self.endpoint = endpoint

    @property
    def values(self) -> Mapping[str, str]:
        return {"endpoint": self.endpoint}


class EndpointChanged(RegistryError):
    """An endpoint's version differs from the one that the request means to change."""

    def __init__(self, endpoint: str, version: int, meant: int) -> None:
        super().__init__(f"the endpoint {endpoint!r} has config_version {version}, not {meant}; nothing was changed")
        self.endpoint = endpoint

    @property
    def values(self) -> Mapping[str, str]:
        return {"endpoint": self.endpoint}


class EndpointReadOnly(RegistryError):
    """An endpoint can't be changed by clients; `reason` continues the sentence after its name."""

    def __init__(self, endpoint: str, reason: str) -> None:
        super().__init__(f"the endpoint {endpoint!r} {reason}")
        self.endpoint = endpoint

    @property
    def values(self) -> Mapping[str, str]:
        return {"endpoint": self.endpoint}


class EndpointsUnavailable(RegistryError):
    """The store of endpoints can't be read or written. Retry after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("endpoints can't be changed now: their store can't be read or written; nothing was changed")
        self.retry_after_s = retry_after_s


class ChangesUnavailable(RegistryError):
    """The store of models and adapters shared by all replicas can't be reached. Retry after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(
            "models and adapters can't be changed now: their store can't be read or written; nothing was changed"
        )
        self.retry_after_s = retry_after_s


class TooManyEndpoints(RegistryError):
    """The service stores its maximum number of endpoints."""

    def __init__(self, max_endpoints: int) -> None:
        super().__init__(f"there are {max_endpoints} endpoints; that is the limit")
        self.max_endpoints = max_endpoints

    @property
    def values(self) -> Mapping[str, str]:
        return {"limit": str(self.max_endpoints)}


class AdapterNotFound(RegistryError):
    """A model has no adapter of that name."""

    def __init__(self, model: str, adapter: str) -> None:
        super().__init__(f"the model {model!r} has no adapter named {adapter!r}")
        self.model = model
        self.adapter = adapter

    @property
    def values(self) -> Mapping[str, str]:
        return {"model": self.model, "adapter": self.adapter}


class AdapterExists(RegistryError):
    """The name of a new adapter is already used by an adapter of its model, a model or an endpoint."""

    def __init__(self, adapter: str) -> None:
        super().__init__(f"the name {adapter!r} is taken")
        self.adapter = adapter

    @property
    def values(self) -> Mapping[str, str]:
        return {"adapter": self.adapter}


class ModelExists(RegistryError):
    """The name of a new model is already used by a model, an adapter or an endpoint."""

    def __init__(self, model: str) -> None:
        super().__init__(f"the name {model!r} is taken")
        self.model = model

    @property
    def values(self) -> Mapping[str, str]:
        return {"model": self.model}


class OperationNotFound(RegistryError):
    """The caller has no operation of that id."""

    def __init__(self) -> None:
        super().__init__("there is no operation with this id")


class TooManyOperations(RegistryError):
    """The caller has its maximum number of operations that have not ended."""

    retry_after_s = 5.0

    def __init__(self, max_operations: int) -> None:
        super().__init__(f"{max_operations} operations of this key have not ended; that is the limit")
        self.max_operations = max_operations

    @property
    def values(self) -> Mapping[str, str]:
        return {"limit": str(self.max_operations)}


class LoadingOff(RegistryError):
    """The settings permit no loading of this kind."""

    def __init__(self, kind: str, setting: str) -> None:
        """`kind` is `models` or `adapters`."""
        super().__init__(f"{kind} can't be loaded: the setting {setting} names no folder to load them from")
        self.setting = setting

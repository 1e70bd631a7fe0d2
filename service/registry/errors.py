"""Errors of finding and changing models, adapters and endpoints."""
# ruff: noqa: N818 - the names say what happened

from __future__ import annotations


class RegistryError(Exception):
    """The root of these errors. The text may be shown to the caller."""


class ModelNotFound(RegistryError):
    """No model of that name is served."""

    def __init__(self, model: str, endpoint: str = "") -> None:
        """`endpoint` is set if the request named an endpoint that routes to `model`."""
        text = f"no model named {model!r} is served"
        super().__init__(f"{text}; the endpoint {endpoint!r} sends requests to it" if endpoint else text)
        self.model = model


class ModelNotLoaded(RegistryError):
    """A model of that name is wanted, but is being loaded or could not be loaded here."""

    def __init__(self, model: str, endpoint: str = "", *, is_loading: bool = False) -> None:
        """`endpoint` is set if the request named an endpoint that routes to `model`."""
        text = f"the model {model!r} {'is being loaded' if is_loading else 'could not be loaded'}"
        super().__init__(f"{text}; the endpoint {endpoint!r} sends requests to it" if endpoint else text)
        self.model = model


class VersionNotFound(RegistryError):
    """A model is served in another version than requested."""

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
    """The caller's key doesn't allow an endpoint of that name."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"the key may not make an endpoint named {endpoint!r}")
        self.endpoint = endpoint


class EndpointExists(RegistryError):
    """The name of a new endpoint is taken by another endpoint or by a model."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"the name {endpoint!r} is taken")
        self.endpoint = endpoint


class EndpointChanged(RegistryError):
    """An endpoint has another `config_version` than the one to be changed."""

    def __init__(self, endpoint: str, version: int, meant: int) -> None:
        super().__init__(f"the endpoint {endpoint!r} has config_version {version}, not {meant}; nothing was changed")
        self.endpoint = endpoint


class EndpointReadOnly(RegistryError):
    """Clients can't change the endpoint; `why` continues a sentence that begins with its name."""

    def __init__(self, endpoint: str, why: str) -> None:
        super().__init__(f"the endpoint {endpoint!r} {why}")
        self.endpoint = endpoint


class EndpointsUnavailable(RegistryError):
    """The store of endpoints can't be read or written now. Retry after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__("endpoints can't be changed now; nothing was changed")
        self.retry_after_s = retry_after_s


class ChangesUnavailable(RegistryError):
    """The store of models and adapters can't be read or written now. Retry after `retry_after_s` seconds."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(
            "models and adapters can't be changed now: their store can't be read or written; nothing was changed"
        )
        self.retry_after_s = retry_after_s


class TooManyEndpoints(RegistryError):
    """The number of endpoints has reached its limit."""

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
    """The name of a new adapter is taken by another adapter of its model, by a model or by an endpoint."""

    def __init__(self, adapter: str) -> None:
        super().__init__(f"the name {adapter!r} is taken")
        self.adapter = adapter


class ModelExists(RegistryError):
    """The name of a new model is taken by another model, an adapter or an endpoint."""

    def __init__(self, model: str) -> None:
        super().__init__(f"the name {model!r} is taken")
        self.model = model


class LoadingOff(RegistryError):
    """Clients may not load models, or adapters."""

    def __init__(self, kind: str, setting: str) -> None:
        """`kind` is "models" or "adapters"."""
        super().__init__(f"{kind} can't be loaded: the setting {setting} names no folder to load them from")
        self.setting = setting

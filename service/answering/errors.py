"""Errors of calls that store a response, or ask for a stored one."""
# ruff: noqa: N818 - a name states the condition, without the suffix Error

from __future__ import annotations

from service.generation.errors import InvalidRequest, ServiceError


class ResponseNotFound(InvalidRequest):
    """The caller has stored no response of that id. `field` is the field of the request that has the id."""

    def __init__(self, field: str) -> None:
        super().__init__(field, "no response with this id is stored")


class StoringOff(InvalidRequest):
    """The settings don't allow responses to be stored. `field` is the field of the request that asks for it."""

    def __init__(self, field: str) -> None:
        super().__init__(field, "this server stores no responses; its operator can set stored_responses.file")


class StoreUnavailable(ServiceError):
    """The store does not answer. Retry after `retry_after_s` seconds."""

    def __init__(self) -> None:
        super().__init__("the store of responses is not available")

"""Errors of calls that store a response, generate one in the background, or ask for a stored one."""
# ruff: noqa: N818 - a name states the condition, without the suffix Error

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from service.generation.errors import InvalidRequest, ServiceError
from service.storage.responses.port import StoreLimit


class ResponseNotFound(InvalidRequest):
    """The caller has stored no response of that id. `field` is the field of the request that has the id."""

    def __init__(self, field: str) -> None:
        chain = ", or one that it continues was deleted or has expired" if field == "previous_response_id" else ""
        super().__init__(field, f"no response with this id is stored{chain}")


class ConversationNotFound(InvalidRequest):
    """The caller has stored no conversation of that id, or no such item. `field` has the id."""

    def __init__(self, field: str) -> None:
        what = "item of the conversation" if field == "item_id" else "conversation"
        super().__init__(field, f"no {what} with this id is stored")


class ConversationChanged(ServiceError):
    """The conversation has another etag than the request expects."""

    def __init__(self) -> None:
        super().__init__("the conversation was changed since it had this etag; read it again")


class BatchNotFound(InvalidRequest):
    """The caller has no batch of that id. `field` is the field of the request that has the id."""

    def __init__(self, field: str) -> None:
        super().__init__(field, "no batch with this id is stored")


class BatchExpired(ServiceError):
    """The completion window of a batch has ended before one of its requests was answered."""

    def __init__(self) -> None:
        super().__init__("the completion window of the batch ended before this request was answered")


class FileNotFound(InvalidRequest):
    """The caller has no file of that id. `field` is the field of the request that has the id."""

    def __init__(self, field: str) -> None:
        super().__init__(field, "no file with this id is stored")


class StoringOff(InvalidRequest):
    """The settings don't allow responses to be stored. `field` is the field of the request that asks for it."""

    def __init__(self, field: str) -> None:
        super().__init__(
            field,
            "this server stores no responses; its operator can set stored_responses.file or "
            "stored_responses.postgres_url",
        )


class TooManyInBackground(ServiceError):
    """The caller has its maximum number of unfinished responses in the background."""

    retry_after_s = 5.0

    def __init__(self, message: str, max_unfinished: int) -> None:
        super().__init__(message)
        self._max_unfinished = max_unfinished

    @property
    def values(self) -> Mapping[str, str]:
        return {"limit": str(self._max_unfinished), "setting": "stored_responses.max_background_per_key"}


class StoreFull(ServiceError):
    """What is to be stored exceeds a limit of the store; the text names it."""

    retry_after_s = 60.0

    def __init__(self, message: str, setting: str = "", limit: int = 0) -> None:
        super().__init__(message)
        self._setting = setting
        self._limit = limit

    @classmethod
    def of(cls, exceeded: StoreLimit) -> Self:
        """Return the error for a limit of the store."""
        return cls(str(exceeded), exceeded.setting, exceeded.limit)

    @property
    def values(self) -> Mapping[str, str]:
        return {"limit": str(self._limit), "setting": self._setting} if self._setting else {}


class StoreUnavailable(ServiceError):
    """The store does not answer. Retry after `retry_after_s` seconds."""

    def __init__(self) -> None:
        super().__init__("the store of responses is not available")

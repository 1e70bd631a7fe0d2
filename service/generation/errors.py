"""The root of the service's errors, and the errors of a generation.

Each class is one condition that a client can distinguish and act upon; `service.interceptors.status_table` maps classes
to statuses. The errors of a generation can be pickled with their values.
"""
# ruff: noqa: N818 - a name states the condition, without the suffix Error

from __future__ import annotations

from collections.abc import Mapping


class ServiceError(Exception):
    """The root of all errors that are raised on purpose; with few exceptions, the text is returned to the client."""

    retry_after_s: float = 1.0  # seconds after which to retry, if the status is a temporary one

    @property
    def values(self) -> Mapping[str, str]:
        """The values that the text contains, by name: the metadata of the status's ErrorInfo."""
        return {}


class EngineError(ServiceError):
    """The root of the errors of engines and of the requests that they serve."""


class InvalidRequest(EngineError):
    """A value of the request can't be served. `field` is the value's path in the client's request."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    @property
    def values(self) -> Mapping[str, str]:
        return {"field": self.field}

    def __str__(self) -> str:
        return self.message


class PromptTooLong(InvalidRequest):
    """The prompt and one generated token do not fit into the model's context or cache."""

    def __init__(self, field: str, num_prompt_tokens: int, max_prompt_tokens: int, *, at_least: bool = False) -> None:
        """With `at_least`, `num_prompt_tokens` is a lower bound: the prompt was not tokenized."""
        found = f"at least {num_prompt_tokens}" if at_least else num_prompt_tokens
        super().__init__(field, f"the prompt has {found} tokens; the limit is {max_prompt_tokens}")
        self.args = (field, num_prompt_tokens, max_prompt_tokens)
        self.num_prompt_tokens = num_prompt_tokens
        self.max_prompt_tokens = max_prompt_tokens

    @property
    def values(self) -> Mapping[str, str]:
        limits = {"limit": str(self.max_prompt_tokens), "num_prompt_tokens": str(self.num_prompt_tokens)}
        return {**super().values, **limits}


class UnsupportedModality(InvalidRequest):
    """The model doesn't accept content parts of this kind."""


class TemplateRejected(InvalidRequest):
    """The model's chat template rejects the conversation; the message contains the template's own message."""


class UnsupportedConstraint(InvalidRequest):
    """An output constraint, or a tool's schema, can't be enforced or takes too long to compile."""


class UnsupportedFeature(InvalidRequest):
    """The model doesn't support a feature that the request uses."""


class UnsupportedTask(InvalidRequest):
    """The model that a request names doesn't serve the requested task."""

    def __init__(self, message: str) -> None:
        super().__init__("model", message)
        self.args = (message,)


class RetryLater(EngineError):
    """The engine can't accept the request now. Retry after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message, retry_after_s)
        self.message = message
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return self.message


class EngineOverloaded(RetryLater):
    """The engine has no capacity: its queue is full, or the wait would be too long.

    With `for_all`, the cause isn't specific to the request: any request of the same key for the same model would be
    rejected, regardless of its deadline, size and contents.
    """

    def __init__(self, message: str, retry_after_s: float, for_all: bool = False) -> None:  # noqa: FBT001, FBT002  as pickled
        super().__init__(message, retry_after_s)
        self.args = (message, retry_after_s, for_all)
        self.for_all = for_all

    @property
    def values(self) -> Mapping[str, str]:
        return {"for_all": "true"} if self.for_all else {}


class DeadlineExceeded(EngineError):
    """The request's deadline passed before it ended."""


class EngineClosed(EngineError):
    """The engine accepts no new requests, or was stopped before the request ended."""


class EngineRestarting(RetryLater):
    """The engine's process died and is being restarted, or is suspended."""


class EngineAsleep(RetryLater):
    """The model has released its memory until an administrator wakes it."""


class CannotSleep(EngineError):
    """The engine runs in the service's own process, which can't release its memory."""


class EngineFailed(EngineError):
    """The engine died. Every stream that it had ends with this error."""


class SequenceError(EngineError):
    """One sequence can't continue. It ends its own request and no other."""


class ConstraintFailed(SequenceError):
    """A request's output constraint can't continue: it allows no token, or it exceeds its own limits."""


class CannotResume(EngineError):
    """A broken stream can't be resumed here: its tokens might differ."""


class AdapterRejected(EngineError):
    """An adapter can't be served; the message names the file, the field and the allowed values."""


class TooManyAdapters(EngineError):
    """A model has its maximum number of adapters."""


class AdapterLost(EngineError):
    """An adapter could not be reloaded after the engine's process had died."""


class CacheEventsLost(EngineError):
    """Events of a cache that a client needs next are not kept any more; a new subscription begins with the state."""


class ModelLoadError(EngineError):
    """A model can't be loaded; the message names the folder or file and the cause."""


class ModelChanged(ModelLoadError):
    """The files of a model differ from those that were loaded, so that an engine can't be restarted with them."""

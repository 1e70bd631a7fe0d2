"""Errors of a generation.

Each class is one thing that a caller can tell apart and act upon; `service.interceptors.errors` has the table that maps
them to statuses. All of them can be pickled with their values.
"""
# ruff: noqa: N818 - a name says what happened; that it is an error is said where it is raised

from __future__ import annotations

from typing import ClassVar


class EngineError(Exception):
    """The root of all errors that are raised on purpose; its text may be shown to the caller."""


class InvalidRequest(EngineError):
    """A value of the request can't be served. `field` is the path that the caller's request calls it by."""

    reason: ClassVar[str] = "INVALID_FIELD"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(field, message)
        self.field = field
        self.message = message

    def __str__(self) -> str:
        return self.message


class PromptTooLong(InvalidRequest):
    """The prompt, with at least one token to generate, does not fit into the model's context or cache."""

    reason: ClassVar[str] = "PROMPT_TOO_LONG"

    def __init__(self, field: str, num_prompt_tokens: int, max_prompt_tokens: int, *, at_least: bool = False) -> None:
        """`at_least` tells that there are so many tokens or more: the prompt was not read."""
        found = f"at least {num_prompt_tokens}" if at_least else num_prompt_tokens
        super().__init__(field, f"the prompt has {found} tokens; the limit is {max_prompt_tokens}")
        self.args = (field, num_prompt_tokens, max_prompt_tokens)
        self.num_prompt_tokens = num_prompt_tokens
        self.max_prompt_tokens = max_prompt_tokens


class UnsupportedModality(InvalidRequest):
    """A content part is of a kind that the model can't take."""

    reason: ClassVar[str] = "UNSUPPORTED_MODALITY"


class TemplateRefused(InvalidRequest):
    """The model's chat template refuses the conversation; the message has the template's own words."""

    reason: ClassVar[str] = "TEMPLATE_REFUSED"


class UnsupportedConstraint(InvalidRequest):
    """An output constraint, or a tool's schema, can't be enforced or takes too long to compile."""

    reason: ClassVar[str] = "UNSUPPORTED_CONSTRAINT"


class UnsupportedFeature(InvalidRequest):
    """The model lacks what the request asks for."""

    reason: ClassVar[str] = "UNSUPPORTED_FEATURE"


class UnsupportedTask(InvalidRequest):
    """The model that a request names serves other tasks than the one asked for."""

    reason: ClassVar[str] = "UNSUPPORTED_TASK"

    def __init__(self, message: str) -> None:
        super().__init__("model", message)
        self.args = (message,)


class RetryLater(EngineError):
    """The engine can't take the request now. Retry after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message, retry_after_s)
        self.message = message
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        return self.message


class EngineOverloaded(RetryLater):
    """There is no room: the queue is full, or the wait too long.

    `for_all` tells that this isn't peculiar to the request: any other of the same key and model would be refused, too,
    whatever its deadline, size and contents.
    """

    def __init__(self, message: str, retry_after_s: float, for_all: bool = False) -> None:  # noqa: FBT001, FBT002  as pickled
        super().__init__(message, retry_after_s)
        self.args = (message, retry_after_s, for_all)
        self.for_all = for_all


class DeadlineExceeded(EngineError):
    """The request's deadline passed before it ended."""


class EngineClosed(EngineError):
    """The engine takes no new requests, or was stopped before the request ended."""


class EngineRestarting(RetryLater):
    """The engine's process died and is being started again."""


class EngineAsleep(RetryLater):
    """The model has given its memory back, until somebody wakes it."""


class CannotSleep(EngineError):
    """The engine computes in the service's own process, which can't give its memory back."""


class EngineFailed(EngineError):
    """The engine died. Every stream that it had ends with this error."""


class SequenceError(EngineError):
    """One sequence can't go on. It ends its own request and no other."""


class ConstraintFailed(SequenceError):
    """A request's output constraint can't go on: it allows no token, or it exceeds its own limits."""


class CannotResume(EngineError):
    """A stream that broke can't go on here: it isn't sure that its tokens would be the same."""


class AdapterRefused(EngineError):
    """An adapter can't be served; the message names the file, the field and what is allowed."""


class TooManyAdapters(EngineError):
    """A model holds as many adapters as it may."""


class AdapterLost(EngineError):
    """An adapter could not be loaded again after the engine's process had died."""


class ModelLoadError(EngineError):
    """A model can't be loaded; the message names the folder or file and the reason."""

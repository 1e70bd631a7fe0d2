"""The errors that the engine raises to its callers.

Owns the exception tree and nothing else. Each class is one thing that a caller can tell apart and act upon; the table
that maps a class to a gRPC status lives with the service, because the engine does not know gRPC.
"""
# ruff: noqa: N818 - a name says what happened; that it is an error is said where it is raised


class EngineError(Exception):
    """The root of all errors that the engine raises on purpose; its text may be shown to the caller."""


class InvalidRequest(EngineError):
    """A value of the request can't be served. `field` is the request's own name for it, such as `max_tokens`.

    `request_index` tells which of several requests that were opened together.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.request_index = 0


class PromptTooLong(InvalidRequest):
    """The prompt, with at least one token to generate, does not fit into the model's context or cache."""

    def __init__(self, field: str, num_prompt_tokens: int, max_prompt_tokens: int) -> None:
        super().__init__(field, f"the prompt has {num_prompt_tokens} tokens; the limit is {max_prompt_tokens}")
        self.num_prompt_tokens = num_prompt_tokens
        self.max_prompt_tokens = max_prompt_tokens


class EngineOverloaded(EngineError):
    """The queue is full, by requests or by prompt tokens. Retry after `retry_after_s` seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineExceeded(EngineError):
    """The request's deadline passed before it ended."""


class EngineClosed(EngineError):
    """The engine takes no new requests, or was stopped before the request ended."""


class EngineFailed(EngineError):
    """The engine's thread died. Every stream ends with this error and no new one begins."""


class SequenceError(EngineError):
    """One sequence can't go on. It ends its own request and no other."""


class ConstraintFailed(SequenceError):
    """A request's output constraint can't go on: it allows no token, or it exceeds its own limits."""


class ModelLoadError(EngineError):
    """A model can't be loaded; the message names the folder or file and the reason."""

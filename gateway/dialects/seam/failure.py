"""Why a request is not served, in no dialect's shape yet: the one exception that the gateway raises to its callers.

Translators raise it for what is wrong with a body, `gateway.upstream.errors` makes it from gRPC statuses, and each
dialect turns it into its own error body.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass


class Reason(enum.StrEnum):
    """What went wrong, for programs. The first part are the service's `google.rpc.ErrorInfo` reasons."""

    MISSING_KEY = "MISSING_KEY"
    INVALID_KEY = "INVALID_KEY"
    EXPIRED_KEY = "EXPIRED_KEY"
    DISABLED_KEY = "DISABLED_KEY"
    INVALID_TOKEN = "INVALID_TOKEN"  # noqa: S105  a reason
    EXPIRED_TOKEN = "EXPIRED_TOKEN"  # noqa: S105  a reason
    AUTH_OFF = "AUTH_OFF"
    SCOPE_MISSING = "SCOPE_MISSING"
    SIGNERS_UNKNOWN = "SIGNERS_UNKNOWN"
    INVALID_FIELD = "INVALID_FIELD"
    PROMPT_TOO_LONG = "PROMPT_TOO_LONG"
    UNSUPPORTED_MODALITY = "UNSUPPORTED_MODALITY"
    TEMPLATE_REFUSED = "TEMPLATE_REFUSED"
    UNSUPPORTED_CONSTRAINT = "UNSUPPORTED_CONSTRAINT"
    CONSTRAINT_FAILED = "CONSTRAINT_FAILED"
    UNSUPPORTED_FEATURE = "UNSUPPORTED_FEATURE"
    UNSUPPORTED_TASK = "UNSUPPORTED_TASK"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    VERSION_NOT_FOUND = "VERSION_NOT_FOUND"
    DEPLOYMENT_NOT_FOUND = "DEPLOYMENT_NOT_FOUND"
    ENDPOINT_NOT_FOUND = "ENDPOINT_NOT_FOUND"
    ENDPOINT_NOT_ALLOWED = "ENDPOINT_NOT_ALLOWED"
    ENDPOINT_EXISTS = "ENDPOINT_EXISTS"
    ENDPOINT_CHANGED = "ENDPOINT_CHANGED"
    ENDPOINT_READ_ONLY = "ENDPOINT_READ_ONLY"
    TOO_MANY_ENDPOINTS = "TOO_MANY_ENDPOINTS"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    CANNOT_RESUME = "CANNOT_RESUME"
    QUEUE_FULL = "QUEUE_FULL"
    RATE_LIMITED = "RATE_LIMITED"
    CONCURRENCY_LIMITED = "CONCURRENCY_LIMITED"
    ENDPOINTS_UNAVAILABLE = "ENDPOINTS_UNAVAILABLE"
    QUOTA_UNAVAILABLE = "QUOTA_UNAVAILABLE"
    MODEL_NOT_LOADED = "MODEL_NOT_LOADED"
    MODEL_ASLEEP = "MODEL_ASLEEP"
    ADAPTER_LOST = "ADAPTER_LOST"
    DRAINING = "DRAINING"
    STARTING = "STARTING"
    ENGINE_FAILED = "ENGINE_FAILED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    INTERNAL = "INTERNAL"
    # What the gateway itself finds.
    MALFORMED_JSON = "MALFORMED_JSON"
    INVALID_TYPE = "INVALID_TYPE"
    MISSING_FIELD = "MISSING_FIELD"
    UNKNOWN_FIELD = "UNKNOWN_FIELD"
    UNSUPPORTED_FIELD = "UNSUPPORTED_FIELD"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    NOT_JSON = "NOT_JSON"
    ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    # What the service's answer says by its status alone.
    UNAUTHENTICATED = "UNAUTHENTICATED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    CALLER_LEFT = "CALLER_LEFT"
    UNAVAILABLE = "UNAVAILABLE"
    UNIMPLEMENTED = "UNIMPLEMENTED"


@dataclass(frozen=True, slots=True)
class Violation:
    """One field's fault. `field` is a dotted path such as `messages.0.content`; `text` says the rule and its limit."""

    field: str
    text: str


class Failure(Exception):  # noqa: N818  a name says what happened
    """A request that is not served, or a stream that ended early.

    `status` is the HTTP status by API.md 1.4. `retry_after_s` is when a retry makes sense, in seconds. `values` are
    the error's values by name, as far as the service tells them (`limit`, `model`, …). `request_id` is set when the
    failure is told.
    """

    def __init__(
        self,
        status: int,
        reason: Reason,
        text: str,
        *,
        violations: Sequence[Violation] = (),
        retry_after_s: float | None = None,
        values: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.text = text
        self.violations = tuple(violations)
        self.retry_after_s = retry_after_s
        self.values = dict(values or {})
        self.request_id = ""

    @classmethod
    def of_field(cls, field: str, text: str, reason: Reason = Reason.INVALID_FIELD) -> Failure:
        """One field of a body is wrong: status 400."""
        return cls(400, reason, text, violations=(Violation(field, text),))

    @property
    def field(self) -> str | None:
        """The first field at fault."""
        return self.violations[0].field if self.violations else None

    @property
    def message(self) -> str:
        """One line for people, with the name of each field at fault."""
        if not self.violations:
            return self.text
        return "; ".join(f"{v.field}: {v.text}" if v.field else v.text for v in self.violations)

    def renamed(self, caller_name: Callable[[str], str]) -> Failure:
        """The same failure with its fields' names mapped, from the contract's to the caller's."""
        return self._with(Violation(caller_name(v.field), v.text) for v in self.violations)

    def reworded(self, texts: Mapping[str, str]) -> Failure:
        """The same failure with other texts for the fields that `texts` has, by the caller's names."""
        return self._with(Violation(v.field, texts.get(v.field, v.text)) for v in self.violations)

    def _with(self, violations: Iterable[Violation]) -> Failure:
        other = Failure(
            self.status,
            self.reason,
            self.text,
            violations=tuple(violations),
            retry_after_s=self.retry_after_s,
            values=self.values,
        )
        other.request_id = self.request_id
        return other

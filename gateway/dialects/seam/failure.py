"""The failure of a request, independent of dialects: the one exception that ends a request with an error.

Translators raise it for invalid bodies, `gateway.upstream.errors` makes it from gRPC statuses, and each dialect
converts it to its error body.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.v1 import error_pb2


class Reason(enum.StrEnum):
    """The cause of a failure, for programs, with its HTTP status.

    Those of the service are values of the contract's ErrorReason; reasons of RPCs that the gateway doesn't offer are
    omitted. A dialect may map a reason to another status, if its API documents that.
    """

    status: int

    def __new__(cls, reason: str | error_pb2.ErrorReason, status: int) -> Reason:  # noqa: PYI034  an enum
        name = reason if isinstance(reason, str) else error_pb2.ErrorReason.Name(reason).removeprefix("ERROR_REASON_")
        member = str.__new__(cls, name)
        member._value_ = name
        member.status = status
        return member

    MISSING_KEY = error_pb2.ERROR_REASON_MISSING_KEY, 401
    INVALID_KEY = error_pb2.ERROR_REASON_INVALID_KEY, 401
    EXPIRED_KEY = error_pb2.ERROR_REASON_EXPIRED_KEY, 401
    DISABLED_KEY = error_pb2.ERROR_REASON_DISABLED_KEY, 401
    INVALID_TOKEN = error_pb2.ERROR_REASON_INVALID_TOKEN, 401
    EXPIRED_TOKEN = error_pb2.ERROR_REASON_EXPIRED_TOKEN, 401
    AUTH_OFF = error_pb2.ERROR_REASON_AUTH_OFF, 401
    SCOPE_MISSING = error_pb2.ERROR_REASON_SCOPE_MISSING, 403
    SIGNERS_UNKNOWN = error_pb2.ERROR_REASON_SIGNERS_UNKNOWN, 503
    INVALID_FIELD = error_pb2.ERROR_REASON_INVALID_FIELD, 400
    PROMPT_TOO_LONG = error_pb2.ERROR_REASON_PROMPT_TOO_LONG, 400
    UNSUPPORTED_MODALITY = error_pb2.ERROR_REASON_UNSUPPORTED_MODALITY, 400
    TEMPLATE_REFUSED = error_pb2.ERROR_REASON_TEMPLATE_REFUSED, 400
    UNSUPPORTED_CONSTRAINT = error_pb2.ERROR_REASON_UNSUPPORTED_CONSTRAINT, 400
    CONSTRAINT_FAILED = error_pb2.ERROR_REASON_CONSTRAINT_FAILED, 400
    UNSUPPORTED_FEATURE = error_pb2.ERROR_REASON_UNSUPPORTED_FEATURE, 400
    UNSUPPORTED_TASK = error_pb2.ERROR_REASON_UNSUPPORTED_TASK, 400
    MODEL_NOT_FOUND = error_pb2.ERROR_REASON_MODEL_NOT_FOUND, 404
    RESPONSE_NOT_FOUND = error_pb2.ERROR_REASON_RESPONSE_NOT_FOUND, 404
    CONVERSATION_NOT_FOUND = error_pb2.ERROR_REASON_CONVERSATION_NOT_FOUND, 404
    BATCH_NOT_FOUND = error_pb2.ERROR_REASON_BATCH_NOT_FOUND, 404
    BATCH_EXPIRED = error_pb2.ERROR_REASON_BATCH_EXPIRED, 504
    FILE_NOT_FOUND = error_pb2.ERROR_REASON_FILE_NOT_FOUND, 404
    STORING_OFF = error_pb2.ERROR_REASON_STORING_OFF, 400
    STORE_UNAVAILABLE = error_pb2.ERROR_REASON_STORE_UNAVAILABLE, 503
    VERSION_NOT_FOUND = error_pb2.ERROR_REASON_VERSION_NOT_FOUND, 404
    DEPLOYMENT_NOT_FOUND = error_pb2.ERROR_REASON_DEPLOYMENT_NOT_FOUND, 404
    ENDPOINT_NOT_FOUND = error_pb2.ERROR_REASON_ENDPOINT_NOT_FOUND, 404
    ENDPOINT_NOT_ALLOWED = error_pb2.ERROR_REASON_ENDPOINT_NOT_ALLOWED, 403
    ENDPOINT_EXISTS = error_pb2.ERROR_REASON_ENDPOINT_EXISTS, 409
    ENDPOINT_CHANGED = error_pb2.ERROR_REASON_ENDPOINT_CHANGED, 409
    ENDPOINT_READ_ONLY = error_pb2.ERROR_REASON_ENDPOINT_READ_ONLY, 400
    TOO_MANY_ENDPOINTS = error_pb2.ERROR_REASON_TOO_MANY_ENDPOINTS, 400
    LIMIT_EXCEEDED = error_pb2.ERROR_REASON_LIMIT_EXCEEDED, 400
    CANNOT_RESUME = error_pb2.ERROR_REASON_CANNOT_RESUME, 400
    QUEUE_FULL = error_pb2.ERROR_REASON_QUEUE_FULL, 429
    RATE_LIMITED = error_pb2.ERROR_REASON_RATE_LIMITED, 429
    CONCURRENCY_LIMITED = error_pb2.ERROR_REASON_CONCURRENCY_LIMITED, 429
    ENDPOINTS_UNAVAILABLE = error_pb2.ERROR_REASON_ENDPOINTS_UNAVAILABLE, 503
    QUOTA_UNAVAILABLE = error_pb2.ERROR_REASON_QUOTA_UNAVAILABLE, 503
    MODEL_NOT_LOADED = error_pb2.ERROR_REASON_MODEL_NOT_LOADED, 503
    MODEL_ASLEEP = error_pb2.ERROR_REASON_MODEL_ASLEEP, 503
    ADAPTER_LOST = error_pb2.ERROR_REASON_ADAPTER_LOST, 503
    DRAINING = error_pb2.ERROR_REASON_DRAINING, 503
    STARTING = error_pb2.ERROR_REASON_STARTING, 503
    ENGINE_FAILED = error_pb2.ERROR_REASON_ENGINE_FAILED, 500
    DEADLINE_EXCEEDED = error_pb2.ERROR_REASON_DEADLINE_EXCEEDED, 504
    INTERNAL = error_pb2.ERROR_REASON_INTERNAL, 500
    CALLER_LEFT = error_pb2.ERROR_REASON_CALLER_LEFT, 499
    # Found by the gateway itself.
    MALFORMED_JSON = "MALFORMED_JSON", 400
    INVALID_TYPE = "INVALID_TYPE", 400
    MISSING_FIELD = "MISSING_FIELD", 400
    UNKNOWN_FIELD = "UNKNOWN_FIELD", 400
    UNSUPPORTED_FIELD = "UNSUPPORTED_FIELD", 400
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT", 408
    BODY_TOO_LARGE = "BODY_TOO_LARGE", 413
    NOT_JSON = "NOT_JSON", 415
    NOT_FORM = "NOT_FORM", 415
    ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND", 404
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED", 405
    TASK_NOT_SERVED = "TASK_NOT_SERVED", 404
    # Derived from a gRPC status without details.
    UNAUTHENTICATED = "UNAUTHENTICATED", 401
    PERMISSION_DENIED = "PERMISSION_DENIED", 403
    UNAVAILABLE = "UNAVAILABLE", 503
    UNIMPLEMENTED = "UNIMPLEMENTED", 501


@dataclass(frozen=True, slots=True)
class Violation:
    """An invalid field. `field` is a dotted path such as `messages.0.content`; `text` states the rule and its limit."""

    field: str
    text: str


class Failure(Exception):  # noqa: N818  a name states the condition
    """A request that is not served, or a stream that ended early.

    `status` is the HTTP status of its reason. `retry_after_s` is the number of seconds after which a retry may succeed.
    `values` are the metadata of the service's ErrorInfo, such as `limit` and `model`. `request_id` is set when the
    failure is sent.
    """

    def __init__(
        self,
        reason: Reason,
        text: str,
        *,
        violations: Sequence[Violation] = (),
        retry_after_s: float | None = None,
        values: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.violations = tuple(violations)
        self.retry_after_s = retry_after_s
        self.values = dict(values or {})
        self.request_id = ""

    @classmethod
    def of_field(cls, field: str, text: str, reason: Reason = Reason.INVALID_FIELD) -> Failure:
        """Return the failure of a body with one invalid field."""
        return cls(reason, text, violations=(Violation(field, text),))

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.reason.status

    @property
    def field(self) -> str | None:
        """The first invalid field."""
        return self.violations[0].field if self.violations else None

    @property
    def message(self) -> str:
        """The message: one line, with the name of each invalid field."""
        if not self.violations:
            return self.text
        return "; ".join(f"{v.field}: {v.text}" if v.field else v.text for v in self.violations)

    def renamed(self, caller_name: Callable[[str], str]) -> Failure:
        """Return a copy whose field names are mapped from the contract's to the dialect's."""
        return self._with(Violation(caller_name(v.field), v.text) for v in self.violations)

    def with_texts(self, texts: Mapping[str, str]) -> Failure:
        """Return a copy with new texts for the fields in `texts`, which has the dialect's names of fields."""
        return self._with(Violation(v.field, texts.get(v.field, v.text)) for v in self.violations)

    def _with(self, violations: Iterable[Violation]) -> Failure:
        """Return a copy with other violations."""
        other = Failure(
            self.reason,
            self.text,
            violations=tuple(violations),
            retry_after_s=self.retry_after_s,
            values=self.values,
        )
        other.request_id = self.request_id
        return other

"""Fields of log lines that identify the current call."""

from __future__ import annotations

from collections.abc import Mapping

from service.calls.call import current_call


def call_context() -> Mapping[str, object]:
    """Return the request id of the call that the current task serves; empty outside of calls."""
    return {} if (call := current_call()) is None else {"request_id": call.request_id}

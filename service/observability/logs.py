"""Add the call's fields to each log line."""

from __future__ import annotations

from collections.abc import Mapping

from service.call import current_call


def call_context() -> Mapping[str, object]:
    """The id of the call that this task serves; nothing outside of one."""
    return {} if (call := current_call()) is None else {"request_id": call.request_id}

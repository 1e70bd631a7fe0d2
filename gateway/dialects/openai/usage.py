"""The usage of the caller's own key, which OpenAI's API has for administrators only."""

from __future__ import annotations

from typing import Any

import orjson
from sluice.v1.quota_pb2 import GetUsageResponse, LimitState


def to_usage(usage: GetUsageResponse) -> bytes:
    """Return the body of `GET /v1/usage`."""
    return orjson.dumps(
        {
            "object": "usage",
            "key": usage.key or None,
            "since": usage.since.seconds,
            "models": [
                {
                    "model": each.model,
                    "requests": each.requests,
                    "input_tokens": each.input_tokens,
                    "output_tokens": each.output_tokens,
                    "rejected_requests": each.rejected_requests,
                }
                for each in usage.models
            ],
            "limits": [_to_limit(each) for each in usage.limits],
        }
    )


def _to_limit(state: LimitState) -> dict[str, Any]:
    return {
        "quota_metric": state.quota_metric,
        "model": state.model or None,
        "limit": state.limit,
        "remaining": state.remaining if state.HasField("remaining") else None,
        "reset_after_s": state.reset_after.ToMilliseconds() / 1000 if state.HasField("reset_after") else None,
    }

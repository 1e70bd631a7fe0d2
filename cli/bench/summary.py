"""The summary of a run: counts, speeds and latencies."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

from cli.bench.record import Record

TIMES: Final = {  # JSON names and labels
    "time_to_first_token_s": "time to first token",
    "time_per_output_token_s": "time per output token",
    "inter_event_s": "gap between events",
    "request_latency_s": "request latency",
}
_PERCENTS: Final = (50, 95, 99)


def times(records: Sequence[Record]) -> dict[str, list[float]]:
    """Return the times of successful requests in seconds, by the names of TIMES."""
    whole = [each for each in records if not each.error]
    return {
        "time_to_first_token_s": [each.first_s for each in whole if each.first_s is not None],
        "time_per_output_token_s": [each.per_token_s for each in whole if each.per_token_s is not None],
        "inter_event_s": [gap for each in whole for gap in each.gaps_s],
        "request_latency_s": [each.took_s for each in whole],
    }


def summary(records: Sequence[Record]) -> dict[str, Any]:
    """Return the summary for JSON. Speeds are over the whole time from the first request to the last end."""
    whole = [each for each in records if not each.error]
    duration_s = max((each.ended for each in records), default=0) - min((each.sent for each in records), default=0)
    errors: dict[str, dict[str, Any]] = {}
    for each in records:
        if each.error:
            errors.setdefault(each.error, {"count": 0, "example": each.detail})["count"] += 1
    counts = [each.prompt_tokens for each in whole if each.prompt_tokens is not None]
    num_tokens = sum(each.num_tokens for each in whole)
    return {
        "requests": len(records),
        "answered": len(whole),
        "failed": len(records) - len(whole),
        "errors": errors,
        "duration_s": duration_s,
        "requests_per_s": len(whole) / duration_s if duration_s else 0.0,
        "tokens_per_s": num_tokens / duration_s if duration_s else 0.0,
        "tokens": num_tokens,
        "has_token_counts": all(each.tokens is not None for each in whole),  # if False, events are counted
        "prompt_tokens": sum(counts) if counts else None,
        **{name: spread(values) for name, values in times(records).items()},
    }


def spread(values: Sequence[float]) -> dict[str, float] | None:
    """Return mean, percentiles and maximum, or None without values."""
    if not values:
        return None
    cuts = statistics.quantiles([*values, *values[:1]] if len(values) == 1 else values, n=100, method="inclusive")
    percentiles = {f"p{percent}": cuts[percent - 1] for percent in _PERCENTS}
    return {"mean": statistics.fmean(values), **percentiles, "max": max(values)}

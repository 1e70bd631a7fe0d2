"""Convert the engines' statistics and the service's Prometheus metrics to GetLoadResponse."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.samples import Sample
from sluice.v1 import load_pb2

from service.contract.parts.answer import timestamp
from service.generation.stats import EngineStats
from service.registry.endpoint_table import EntityLoad

# Names of a label and of metrics in Prometheus. `service.observability.telemetry` defines them with the names that
# OpenTelemetry uses.
_MODEL: Final = "gen_ai_request_model"
_TIMES: Final = {  # a histogram → its field in ModelLoad
    "sluice_server_queue_time_seconds_bucket": "queue_time",
    "gen_ai_server_time_to_first_token_seconds_bucket": "time_to_first_token",
    "gen_ai_server_time_per_output_token_seconds_bucket": "time_per_output_token",
}
_REQUESTS: Final = "gen_ai_server_request_duration_seconds_count"
_CALLS: Final = "rpc_server_call_duration_seconds_count"


def load_message(
    started_ns: int, stats: Mapping[str, EngineStats], entities: Iterable[EntityLoad], samples: Iterable[Sample]
) -> load_pb2.GetLoadResponse:
    """Return the load since `started_ns`: of each model in `stats`, of each endpoint's entity, and calls by RPC.

    `stats` are the engines' by model, `samples` the process's Prometheus metrics; those of other models are ignored.
    """
    histograms: dict[tuple[str, str], Counter[float]] = {}  # (model, field) → upper bound → cumulative count
    requests: Counter[str] = Counter()
    calls: Counter[tuple[str, str, str]] = Counter()
    for name, labels, value, *_ in samples:
        if (field := _TIMES.get(name)) is not None:
            counts = histograms.setdefault((labels[_MODEL], field), Counter())
            counts[float(labels["le"])] += int(value)
        elif name == _REQUESTS:
            requests[labels[_MODEL]] += int(value)
        elif name == _CALLS:
            reason = labels.get("sluice_error_reason", "")
            calls[labels.get("rpc_method", ""), labels.get("rpc_response_status_code", ""), reason] += int(value)
    return load_pb2.GetLoadResponse(
        started=timestamp(started_ns),
        models=[_model_message(model, each, histograms, requests[model]) for model, each in stats.items()],
        entities=[
            load_pb2.EntityLoad(
                endpoint=each.endpoint,
                entity=each.entity.name,
                model=each.entity.model,
                traffic_percentage=each.entity.traffic_percentage,
                requests=each.num_requests,
            )
            for each in entities
        ],
        calls=[
            load_pb2.CallCount(method=method, code=code, reason=reason, calls=count)
            for (method, code, reason), count in sorted(calls.items())
        ],
    )


def _model_message(
    model: str, stats: EngineStats, histograms: Mapping[tuple[str, str], Counter[float]], num_requests: int
) -> load_pb2.ModelLoad:
    """Return the load of one model."""
    times = {
        field: _distribution(histograms[model, field]) for field in _TIMES.values() if (model, field) in histograms
    }
    return load_pb2.ModelLoad(
        model=model,
        running=stats.num_running,
        waiting=stats.num_waiting,
        blocks=stats.num_blocks,
        used_blocks=stats.num_blocks - stats.num_free_blocks,
        cached_blocks=stats.num_cached_blocks,
        adopted_blocks=stats.num_adopted_blocks,
        states=stats.num_states,
        cached_states=stats.num_cached_states,
        state_bytes=stats.state_bytes,
        prompt_tokens=stats.num_prefix_query_tokens,
        cached_prompt_tokens=stats.num_prefix_hit_tokens,
        computed_tokens=stats.num_computed_tokens,
        generated_tokens=stats.num_generated_tokens,
        preemptions=stats.num_preemptions,
        requests=num_requests,
        **times,
    )


def _distribution(cumulative: Mapping[float, int]) -> load_pb2.Distribution:
    """Convert Prometheus' cumulative buckets, counts by upper bound, to a Distribution."""
    bounds = sorted(cumulative)
    return load_pb2.Distribution(
        bounds=[bound for bound in bounds if bound < math.inf],
        counts=_differences(cumulative[bound] for bound in bounds),
    )


def _differences(totals: Iterable[int]) -> Iterator[int]:
    """Yield the count of each bucket, from cumulative counts."""
    before = 0
    for total in totals:
        yield total - before
        before = total

"""The same metrics under vLLM's names.

Dashboards, autoscalers and the endpoint picker of Kubernetes' Inference Extension use these names. `TABLE` maps them.
A row's samples are summed over every label that vLLM doesn't have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

_LABELS: Final = {
    "gen_ai_request_model": "model_name",
    "gen_ai_response_finish_reason": "finished_reason",
    "le": "le",
}
_SUFFIXES: Final = {"gauge": ("",), "counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}


@dataclass(frozen=True, slots=True)
class Row:
    """The name of a vLLM metric, without a counter's `_total`, and of ours in Prometheus.

    `sample` is the name of our sample if that is a histogram's sum. `only` are labels that samples must have.
    """

    vllm: str
    kind: Literal["gauge", "counter", "histogram"]
    name: str
    sample: str = ""
    only: Mapping[str, str] = field(default_factory=dict)


def _tokens(name: str, kind: str) -> Row:
    """Return the row of one type of tokens."""
    only = {"gen_ai_token_type": kind}
    return Row(name, "counter", "gen_ai_client_token_usage", "gen_ai_client_token_usage_sum", only)


TABLE: Final = (
    Row("vllm:num_requests_running", "gauge", "sluice_engine_sequences_running"),
    Row("vllm:num_requests_waiting", "gauge", "sluice_engine_queue_depth"),
    Row("vllm:kv_cache_usage_perc", "gauge", "sluice_engine_kv_cache_usage"),
    Row("vllm:prefix_cache_queries", "counter", "sluice_engine_prefix_query_tokens"),
    Row("vllm:prefix_cache_hits", "counter", "sluice_engine_prefix_hit_tokens"),
    Row("vllm:num_preemptions", "counter", "sluice_engine_preemptions"),
    _tokens("vllm:prompt_tokens", "input"),
    _tokens("vllm:generation_tokens", "output"),
    Row("vllm:request_success", "counter", "sluice_server_choices"),
    Row("vllm:time_to_first_token_seconds", "histogram", "gen_ai_server_time_to_first_token_seconds"),
    Row("vllm:inter_token_latency_seconds", "histogram", "sluice_server_inter_token_time_seconds"),
    Row("vllm:request_time_per_output_token_seconds", "histogram", "gen_ai_server_time_per_output_token_seconds"),
    Row("vllm:e2e_request_latency_seconds", "histogram", "gen_ai_server_request_duration_seconds"),
    Row("vllm:request_queue_time_seconds", "histogram", "sluice_server_queue_time_seconds"),
    Row("vllm:request_prefill_time_seconds", "histogram", "sluice_server_prefill_time_seconds"),
    Row("vllm:request_decode_time_seconds", "histogram", "sluice_server_decode_time_seconds"),
)


def with_vllm_names(registry: CollectorRegistry) -> CollectorRegistry:
    """Return a registry of all metrics of `registry`, followed by those of the table."""
    both = CollectorRegistry()
    both.register(_RenamingCollector(registry))
    return both


class _RenamingCollector(Collector):
    """Collects once for both names of a metric, so that their values agree."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        families = {family.name: family for family in self._registry.collect()}
        yield from families.values()
        for row in TABLE:
            if (family := families.get(row.name)) is not None:
                yield _renamed(row, family)


def _renamed(row: Row, family: Metric) -> Metric:
    """Return a metric under vLLM's name, with vLLM's labels."""
    renamed = Metric(row.vllm, f"{row.name} under vLLM's name.", row.kind)
    for suffix in _SUFFIXES[row.kind]:
        for labels, value in _summed(row, family.samples, row.sample or f"{row.name}{suffix}").items():
            renamed.add_sample(f"{row.vllm}{suffix}", dict(labels), value)
    return renamed


def _summed(row: Row, samples: Iterable[Sample], name: str) -> Counter[tuple[tuple[str, str], ...]]:
    """Return the sum of the samples of one name by vLLM's labels."""
    sums: Counter[tuple[tuple[str, str], ...]] = Counter()
    for sample in samples:
        if sample.name == name and row.only.items() <= sample.labels.items():
            labels = ((label, sample.labels[name]) for name, label in _LABELS.items() if name in sample.labels)
            sums[("engine", "0"), *labels] += sample.value  # type: ignore[assignment]  # counts, and seconds
    return sums

"""What a replica has to do, by its page of metrics."""

from __future__ import annotations

from cluster.load import Load, Page

TEXT = """\
# HELP sluice_engine_sequences_running Sequences that run.
# TYPE sluice_engine_sequences_running gauge
sluice_engine_sequences_running{gen_ai_request_model="a"} 3.0
sluice_engine_sequences_running{gen_ai_request_model="b"} 1.0
# HELP sluice_engine_queue_depth Sequences that wait.
# TYPE sluice_engine_queue_depth gauge
sluice_engine_queue_depth{gen_ai_request_model="a"} 5.0
# HELP sluice_engine_kv_cache_usage Part of the cache.
# TYPE sluice_engine_kv_cache_usage gauge
sluice_engine_kv_cache_usage{gen_ai_request_model="a"} 0.75
sluice_engine_kv_cache_usage{gen_ai_request_model="b"} 0.5
# HELP sluice_server_queue_time_seconds From arrival to the first step.
# TYPE sluice_server_queue_time_seconds histogram
sluice_server_queue_time_seconds_bucket{gen_ai_request_model="a",le="+Inf"} 6.0
sluice_server_queue_time_seconds_count{gen_ai_request_model="a"} 6.0
sluice_server_queue_time_seconds_sum{gen_ai_request_model="a"} 9.0
"""


def test_models_are_counted_together() -> None:
    """The fullest cache counts, and those that started since the reading before: 4 of 6, which waited 8 of 9 s."""
    before = Page(num_started=2, queue_time_s=1)
    assert Page.parse(TEXT).load_since(before) == Load(4, 5, 0.25, 4, 2.0)


def test_an_empty_page_is_an_idle_replica() -> None:
    assert Page.parse("").load_since(Page()) == Load()

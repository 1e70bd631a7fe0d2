"""A replica's load, from its metrics page."""

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
# HELP rpc_server_call_duration_seconds Time of a call.
# TYPE rpc_server_call_duration_seconds histogram
rpc_server_call_duration_seconds_bucket{rpc_method="Chat",sluice_error_reason="QUEUE_FULL",le="+Inf"} 7.0
rpc_server_call_duration_seconds_count{rpc_method="Chat",sluice_error_reason="QUEUE_FULL"} 7.0
rpc_server_call_duration_seconds_sum{rpc_method="Chat",sluice_error_reason="QUEUE_FULL"} 0.1
rpc_server_call_duration_seconds_bucket{rpc_method="Chat",sluice_error_reason="INVALID_FIELD",le="+Inf"} 3.0
rpc_server_call_duration_seconds_count{rpc_method="Chat",sluice_error_reason="INVALID_FIELD"} 3.0
rpc_server_call_duration_seconds_sum{rpc_method="Chat",sluice_error_reason="INVALID_FIELD"} 0.1
"""


def test_load_is_aggregated_over_models() -> None:
    """The fullest cache counts, and counters count since the previous reading.

    4 of 6 started in between, after waiting 8 of 9 s, and 2 of 7 were rejected for lack of capacity.
    """
    before = Page(num_started=2, queue_time_s=1, num_rejected=5)
    assert Page.parse(TEXT).load_since(before) == Load(4, 5, 0.25, 4, 2.0, 2)


def test_an_empty_page_is_an_idle_replica() -> None:
    assert Page.parse("").load_since(Page()) == Load()

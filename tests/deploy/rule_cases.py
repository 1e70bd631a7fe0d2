"""For each alert, series for which it fires and similar series for which it does not."""

from __future__ import annotations

from dataclasses import dataclass, field

CALLS = "rpc_server_call_duration_seconds_count"
FAILED = f'{CALLS}{{rpc_response_status_code="INTERNAL",sluice_error_reason="INTERNAL"}}'
REJECTED = f'{CALLS}{{rpc_response_status_code="RESOURCE_EXHAUSTED",sluice_error_reason="QUEUE_FULL"}}'
CRASHED = f'{CALLS}{{rpc_response_status_code="INTERNAL",sluice_error_reason="ENGINE_FAILED"}}'
SERVED = 'rpc_server_call_duration_seconds_count{rpc_response_status_code="OK"}'
MODEL = 'gen_ai_request_model="m",instance="a"'


@dataclass(frozen=True)
class Case:
    """Series in promtool's notation, one value per minute; the alert fires from minute `fires` on, not before `quiet`.

    `near` are similar series in which the alert never fires.
    """

    alert: str
    series: dict[str, str]
    quiet: int
    fires: int
    near: dict[str, str] = field(default_factory=dict)


def _slow(metric: str, le: str) -> dict[str, str]:
    """Return a histogram with all values above `le`."""
    return {_bucket(metric, le): "0x60", _bucket(metric, "640"): "0+60x60", _bucket(metric, "+Inf"): "0+60x60"}


def _quick(metric: str, le: str) -> dict[str, str]:
    """Return a histogram with no value above `le`."""
    return {_bucket(metric, le): "0+60x60", _bucket(metric, "+Inf"): "0+60x60"}


def _bucket(metric: str, le: str) -> str:
    return f'{metric}_bucket{{{MODEL},le="{le}"}}'


def _objective(name: str, met: str) -> str:
    return f'sluice_server_slo_choices_total{{{MODEL},sluice_slo_class="{name}",sluice_slo_met="{met}"}}'


def _requests(entity: str, error: str, each: int) -> dict[str, str]:
    labels = f'sluice_endpoint="front",sluice_entity="{entity}"' + (f',error_type="{error}"' if error else "")
    return {f"sluice_server_requests_total{{{labels}}}": f"0+{each}x60"}


CASES = (
    Case(
        "SluiceServiceDown",
        {'up{job="sluice-service",instance="a"}': "1x4 0x30"},
        5,
        7,
        {'up{job="sluice-service"}': "1x60"},
    ),
    Case("SluiceGatewayDown", {'up{job="sluice-gateway",instance="a"}': "1x4 0x30"}, 5, 7, {'up{job="other"}': "0x60"}),
    Case("SluiceCallsFail", {FAILED: "0+2x60", SERVED: "0+98x60"}, 2, 20, {FAILED: "0+1x60", SERVED: "0+99x60"}),
    Case("SluiceEngineFailed", {CRASHED: "0x9 1x30", SERVED: "0+9000x60"}, 8, 11, {SERVED: "0+60x60"}),
    Case(
        "SluiceEngineStalled",
        {
            f"sluice_engine_sequences_running{{{MODEL}}}": "1x60",
            f"sluice_engine_queue_depth{{{MODEL}}}": "0x60",
            f"sluice_engine_steps_total{{{MODEL}}}": "0+60x10 600x50",
        },
        9,
        15,
        {  # idle, so it runs no steps either
            f"sluice_engine_sequences_running{{{MODEL}}}": "0x60",
            f"sluice_engine_queue_depth{{{MODEL}}}": "0x60",
            f"sluice_engine_steps_total{{{MODEL}}}": "600x60",
        },
    ),
    Case(
        "SluiceObjectiveMissed",
        {_objective("interactive", "false"): "0+6x60", _objective("interactive", "true"): "0+54x60"},
        9,
        20,
        {_objective("interactive", "false"): "0+1x60", _objective("interactive", "true"): "0+59x60"},
    ),
    Case("SluiceRefusing", {REJECTED: "0+5x60", SERVED: "0+95x60"}, 4, 15, {REJECTED: "0+1x60", SERVED: "0+199x60"}),
    Case(
        "SluiceQueueWait",
        _slow("sluice_server_queue_time_seconds", "2.5"),
        9,
        20,
        _quick("sluice_server_queue_time_seconds", "0.5"),
    ),
    Case(
        "SluiceFirstTokenSlow",
        _slow("gen_ai_server_time_to_first_token_seconds", "10"),
        9,
        20,
        _quick("gen_ai_server_time_to_first_token_seconds", "2.5"),
    ),
    Case(
        "SluiceTokensSlow",
        _slow("sluice_server_inter_token_time_seconds", "1"),
        9,
        20,
        _quick("sluice_server_inter_token_time_seconds", "0.2"),
    ),
    Case(
        "SluicePreempting",
        {
            f"sluice_engine_preemptions_total{{{MODEL}}}": "0+12x60",
            f"sluice_engine_kv_cache_usage{{{MODEL}}}": "0.97x60",
        },
        4,
        15,
        {f"sluice_engine_preemptions_total{{{MODEL}}}": "0x60", f"sluice_engine_kv_cache_usage{{{MODEL}}}": "1x60"},
    ),
    Case(
        "SluiceTrialWorse",
        _requests("stable", "", 99) | _requests("trial", "", 95) | _requests("trial", "SequenceError", 5),
        4,
        15,
        _requests("stable", "", 99) | _requests("trial", "", 95) | _requests("trial", "Cancelled", 50),
    ),
    Case(
        "SluiceQuotaStoreLost",
        {'sluice_quota_store_lost{instance="a"}': "0x4 1x30"},
        5,
        7,
        {"sluice_quota_store_lost": "0x60"},
    ),
    Case(
        "SluiceEndpointsUnreadable",
        {'sluice_endpoints_unreadable{instance="a"}': "2x200"},
        59,
        62,
        {"sluice_endpoints_unreadable": "0x200"},
    ),
    Case(
        "SluiceDescriptorsLow",
        {'process_open_fds{job="sluice-service"}': "900x60", 'process_max_fds{job="sluice-service"}': "1024x60"},
        4,
        7,
        {'process_open_fds{job="sluice-service"}': "700x60", 'process_max_fds{job="sluice-service"}': "1024x60"},
    ),
    Case(
        "SluiceVersionsMixed",
        {
            'sluice_build_info{service_name="sluice-service",service_version="1.0.0",instance="a"}': "1x200",
            'sluice_build_info{service_name="sluice-service",service_version="1.1.0",instance="b"}': "1x200",
        },
        59,
        62,
        {
            'sluice_build_info{service_name="sluice-service",service_version="1.0.0"}': "1x200",
            'sluice_build_info{service_name="sluice-gateway",service_version="1.1.0"}': "1x200",
        },
    ),
)

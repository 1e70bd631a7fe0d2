"""Telemetry of a generation: attributes, histograms, counts on the log line, and content only if enabled."""

import json
from typing import Any
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sluice.v1 import sampling_pb2, serving_pb2

from service.observability.telemetry import BoundedLabels, MetricsPage
from tests.engine.fakes import until
from tests.service.endpoint_fakes import Serving
from tests.service.fakes import MODEL, Running, ScriptedRunner, rejection_of, request, rest_of, running
from tests.waiting import GUARD_S

CHAT = f"chat {MODEL}"
ATTRIBUTES = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "sluice", "gen_ai_request_model": MODEL}
ATTRIBUTES |= {"sluice_endpoint": MODEL, "sluice_entity": MODEL}


async def chat_attributes(run: Running) -> dict[str, Any]:
    """Return the attributes of the chat span."""
    return dict((await run.ended_spans(5))[CHAT].attributes or {})


def samples(run: Running | Serving, name: str) -> dict[frozenset[tuple[str, str]], float]:
    """Return the values of one sample name by labels, as on the metrics page."""
    page = MetricsPage(run.telemetry.registry, "127.0.0.1", 0)
    try:
        with urlopen(f"http://127.0.0.1:{page.port}/metrics", timeout=GUARD_S) as answer:
            text = answer.read().decode()
    finally:
        page.close()
    found = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {frozenset(sample.labels.items()): sample.value for sample in found if sample.name == name}


async def test_chat_span_has_the_attributes_of_the_conventions() -> None:
    """Request, effective parameters, answer and usage are recorded, without any content."""
    async with running(ScriptedRunner("hello", "you")) as run:
        stopping = sampling_pb2.StopParams(max_tokens=20)
        response = await run.chat.Chat(request("tulip", n=2, stopping=stopping))
        found = await chat_attributes(run)
        assert "tulip" not in "".join(span.to_json() for span in run.spans.get_finished_spans())
        assert "hello" not in "".join(span.to_json() for span in run.spans.get_finished_spans())
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "sluice",
        "gen_ai.request.model": MODEL,
        "gen_ai.request.stream": False,
        "gen_ai.request.choice.count": 2,
        "gen_ai.request.max_tokens": 20,
        "gen_ai.request.seed": 1,
        "gen_ai.request.temperature": 1.0,
        "gen_ai.response.id": response.id,
        "gen_ai.response.model": MODEL,
        "gen_ai.response.finish_reasons": ("stop", "stop"),
        "gen_ai.usage.input_tokens": len("tulip"),
        "gen_ai.usage.output_tokens": len("hello") + len("you") + 2,
    }
    assert {name: found.get(name) for name in expected} == expected


async def test_chat_span_has_content_with_capture_content() -> None:
    """Only with `capture_content`, messages and answer are on the span, in the conventions' JSON."""
    async with running(capture_content=True) as run:
        await run.chat.Chat(request("tulip"))
        found = await chat_attributes(run)
    assert json.loads(found["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "tulip"}]}
    ]
    assert json.loads(found["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "hello"}], "finish_reason": "stop"}
    ]


@pytest.mark.slow
async def test_metrics_count_a_generation() -> None:
    """One chat is one sample of each histogram under the conventions' names; tokens are counted by type."""
    async with running() as run:
        await run.chat.Chat(request("tulip"))
        answered = frozenset({**ATTRIBUTES, "gen_ai_response_model": MODEL}.items())
        for name in ("request_duration", "time_to_first_token", "time_per_output_token"):
            assert samples(run, f"gen_ai_server_{name}_seconds_count") == {answered: 1}
        for kind, num_tokens in (("input", len("tulip")), ("output", len("hello") + 1)):
            labels = answered | {("gen_ai_token_type", kind)}
            assert samples(run, "gen_ai_client_token_usage_sum")[labels] == num_tokens


@pytest.mark.slow
async def test_metrics_distinguish_errors() -> None:
    """A failed call is counted by status, a failed generation by error type, without a time to first token."""
    async with running() as run:
        run.preparation.fail_with = ValueError()
        await rejection_of(run.chat.Chat(request()))
        await until(lambda: bool(samples(run, "rpc_server_call_duration_seconds_count")))  # after the status
        (labels,) = samples(run, "rpc_server_call_duration_seconds_count")
        assert {("rpc_response_status_code", "INTERNAL"), ("rpc_method", "sluice.v1.ChatService/Chat")} < labels
        (labels,) = samples(run, "gen_ai_server_request_duration_seconds_count")
        assert ("error_type", "ValueError") in labels
        assert not samples(run, "gen_ai_server_time_to_first_token_seconds_count")


@pytest.mark.slow
async def test_metrics_show_the_engine() -> None:
    """Gauges and counters of the engine are current by model, also while no step runs."""
    labels = frozenset({("gen_ai_request_model", MODEL)})
    async with running() as run:
        await run.chat.Chat(request("tulip"))
        await run.until_idle()
        for name, value in (
            ("queue_depth", 0),
            ("sequences_running", 0),
            ("kv_blocks_used", 0),
            ("kv_blocks", 64),
            ("preemptions_total", 0),
            ("generated_tokens_total", len("hello") + 1),
            ("prefix_query_tokens_total", len("tulip")),
            ("prefix_hit_tokens_total", 0),
        ):
            assert samples(run, f"sluice_engine_{name}") == {labels: value}, name
        num_steps = samples(run, "sluice_engine_steps_total")[labels]
        assert samples(run, "sluice_engine_step_duration_seconds_count") == {labels: num_steps}
        assert samples(run, "sluice_engine_step_sequences_sum") == {labels: num_steps}  # one sequence in each


@pytest.mark.slow
async def test_bucket_boundaries_follow_the_conventions() -> None:
    """The first boundaries of each histogram are those that the GenAI conventions list."""
    firsts = {
        "gen_ai_server_request_duration_seconds": ["0.01", "0.02", "0.04"],
        "gen_ai_server_time_to_first_token_seconds": ["0.001", "0.005", "0.01"],
        "gen_ai_server_time_per_output_token_seconds": ["0.01", "0.025", "0.05"],
        "gen_ai_client_token_usage": ["1", "4", "16"],
        "rpc_server_call_duration_seconds": ["0.005", "0.01", "0.025"],
    }
    async with running() as run:
        await run.chat.Chat(request())
        for name, bounds in firsts.items():
            found = {float(dict(labels)["le"]) for labels in samples(run, f"{name}_bucket")}
            assert sorted(found)[: len(bounds)] == [float(bound) for bound in bounds], name


@pytest.mark.slow
async def test_metrics_distinguish_entities_of_one_endpoint() -> None:
    """Every series of a generation, and the log line, have the requested endpoint and the entity that answered."""
    entities = [{"name": name, "model": MODEL, "traffic_percentage": 50} for name in ("stable", "trial")]
    async with running(endpoints=[{"name": "front", "entities": entities}]) as run:
        for deployment in ("stable", "trial", "trial"):
            await run.chat.Chat(request(model="front", serving=serving_pb2.ServingOptions(deployment=deployment)))
        for name in ("gen_ai_server_request_duration_seconds_count", "sluice_server_requests_total"):
            counts = {dict(labels)["sluice_entity"]: value for labels, value in samples(run, name).items()}
            assert counts == {"stable": 1, "trial": 2}, name
            assert {dict(labels)["sluice_endpoint"] for labels in samples(run, name)} == {"front"}


@pytest.mark.slow
async def test_finish_reasons_and_phases_are_counted() -> None:
    """Finish reasons are counted per choice; there is one wait, one prefill, and a gap between chunks of tokens."""
    message = request("tulip", n=2, stopping=sampling_pb2.StopParams(max_tokens=4))
    async with running(ScriptedRunner("hello", "you")) as run:
        with run.runner.paused(after=1):  # the first tokens are sent in a separate chunk
            call = run.chat.StreamChat(message)
            while not (await call.read()).HasField("content_delta"):
                pass
        assert [event async for event in rest_of(call)]
        ends = {
            dict(labels)["gen_ai_response_finish_reason"]: value
            for labels, value in samples(run, "sluice_server_choices_total").items()
        }
        assert ends == {"stop": 1, "length": 1}
        for name, number in (("queue", 1), ("prefill", 1), ("decode", 2)):
            assert list(samples(run, f"sluice_server_{name}_time_seconds_count").values()) == [number], name
        (gaps,) = samples(run, "sluice_server_inter_token_time_seconds_count").values()
        assert 0 < gaps <= 2 * 3


@pytest.mark.slow
async def test_goodput_is_counted_by_class() -> None:
    """Finished choices are counted by their service class, and by whether its limits were kept."""
    async with running() as run:
        for first_s, token_s in ((1, 1e-9), (600, 60), (None, None)):
            serving = serving_pb2.ServingOptions(slo_first_token_seconds=first_s, slo_token_seconds=token_s)
            await run.chat.Chat(request(serving=serving))
        counts = {
            (dict(labels)["sluice_slo_class"], dict(labels)["sluice_slo_met"]): value
            for labels, value in samples(run, "sluice_server_slo_choices_total").items()
        }
        assert counts == {("relaxed", "true"): 1, ("interactive", "false"): 1, ("batch", "true"): 1}


@pytest.mark.slow
async def test_build_and_cache_are_shown() -> None:
    """The metrics have the version, the version of Python, and the fraction of the cache in use."""
    async with running() as run:
        ((labels, value),) = samples(run, "sluice_build_info").items()
        assert value == 1
        assert {"service_name", "process_runtime_version"} <= dict(labels).keys()
        assert list(samples(run, "sluice_engine_kv_cache_usage").values()) == [0]


def test_number_of_client_chosen_label_values_is_bounded() -> None:
    """Values above the bound share one label; earlier ones keep theirs."""
    bounded = BoundedLabels(2)
    assert [bounded.label(value) for value in ("a", "b", "c", "a", "d")] == ["a", "b", "other", "a", "other"]

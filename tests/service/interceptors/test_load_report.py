"""Load reports after answers, in the formats that Envoy and gRPC read."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from sluice.v1 import model_pb2

from service.interceptors.load_report import as_binary, as_text
from tests.service.fakes import ENDLESS, Rejection, ScriptedRunner, rejection_of, request, rest_of, running
from tests.waiting import GUARD_S

TEXT, BINARY = "endpoint-load-metrics", "endpoint-load-metrics-bin"


def parsed(text: str) -> dict[str, float]:
    """Return the numbers in a report in the text format."""
    assert text.startswith("TEXT ")
    return {name: float(value) for name, _, value in (each.partition("=") for each in text[5:].split(","))}


def message() -> Any:
    """Return the message xds.data.orca.v3.OrcaLoadReport with the fields that reports use."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="orca.proto", package="orca", syntax="proto3")
    report = file.message_type.add(name="OrcaLoadReport")
    for name, number in (("cpu_utilization", 1), ("rps_fractional", 6), ("eps", 7), ("application_utilization", 9)):
        report.field.add(name=name, number=number, type=field.TYPE_DOUBLE, label=field.LABEL_OPTIONAL)
    entry = report.nested_type.add(name="NamedMetricsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=field.TYPE_DOUBLE, label=field.LABEL_OPTIONAL)
    kind = ".orca.OrcaLoadReport.NamedMetricsEntry"
    report.field.add(
        name="named_metrics", number=8, type=field.TYPE_MESSAGE, label=field.LABEL_REPEATED, type_name=kind
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("orca.OrcaLoadReport"))()


def test_text_and_binary_load_reports_are_equal() -> None:
    named = {"kv_cache_usage_perc": 0.25, "num_requests_waiting": 3.0}
    found = message()
    found.ParseFromString(as_binary(1.5, 0.5, 0.75, named))
    assert (found.rps_fractional, found.eps, found.application_utilization) == (1.5, 0.5, 0.75)
    assert (found.cpu_utilization, dict(found.named_metrics)) == (0, named)
    assert as_text(1.5, 0.5, 0.75, named) == (
        "TEXT application_utilization=0.75,rps_fractional=1.5,eps=0.5,"
        "named_metrics.kv_cache_usage_perc=0.25,named_metrics.num_requests_waiting=3"
    )


def metadata_of(failure: Rejection) -> dict[str, Any]:
    return {name: value for name, value in failure.error.trailing_metadata() or ()}  # noqa: C416  of other types


async def trailers(call: Any) -> dict[str, Any]:
    return dict(await call.trailing_metadata())


async def test_each_answer_ends_with_a_report() -> None:
    """Streamed, unstreamed and rejected calls have one in the trailers; initial metadata has none."""
    async with running(load_report="text") as run:
        whole = run.chat.Chat(request())
        await whole
        assert TEXT not in dict(await whole.initial_metadata())
        stream = run.chat.StreamChat(request())
        assert [event async for event in rest_of(stream)]
        failure = await rejection_of(run.chat.Chat(request(model="nobody")))
        for found in (await trailers(whole), await trailers(stream), metadata_of(failure)):
            report = parsed(found[TEXT])
            assert 0 < report["application_utilization"] <= 1
            assert report["rps_fractional"] > 0
            assert report["named_metrics.num_requests_waiting"] == 0
        first, last = [parsed((await trailers(call))[TEXT])["rps_fractional"] for call in (whole, stream)]
        assert last > first


async def test_rejections_do_not_count_as_productive_work() -> None:
    """Balancers must not take fast rejections for productive work."""
    async with running(load_report="text") as run:
        for call in (run.chat.Chat, run.chat.StreamChat):
            failure = await rejection_of(call(request(model="nobody")))
        report = parsed(metadata_of(failure)[TEXT])
        assert report["rps_fractional"] == 0
        assert report["eps"] > 0
        answer = run.chat.Chat(request())
        await answer
        report = parsed((await trailers(answer))[TEXT])
        assert report["rps_fractional"] > 0


async def test_a_report_has_the_utilization() -> None:
    """A report has the fractions of the slots and of the cache in use.

    An idle replica reports a small value, since weights divide by it.
    """
    async with running(ScriptedRunner("ab", end=False), engine=ENDLESS, load_report="text") as run:

        async def reported() -> dict[str, float]:
            lookup = run.models.ListModels(model_pb2.ListModelsRequest())
            await lookup
            return parsed((await trailers(lookup))[TEXT])

        assert (await reported())["application_utilization"] == pytest.approx(0.001)
        streams = [run.chat.StreamChat(request(), timeout=GUARD_S) for _ in range(3)]
        for stream in streams:
            await stream.read()
        busy = await reported()
        assert busy["application_utilization"] >= 3 / run.engine.stats().max_running
        assert busy["named_metrics.kv_cache_usage_perc"] > 0
        for stream in streams:
            stream.cancel()
        await run.until_idle()


async def test_reports_are_off_by_default() -> None:
    async with running() as run:
        call = run.chat.Chat(request())
        await call
        assert not {TEXT, BINARY} & (await trailers(call)).keys()

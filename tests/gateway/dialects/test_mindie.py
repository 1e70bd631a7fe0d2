"""MindIE's requests become the contract's messages, and the service's events become MindIE's."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from sluice.v1 import chat_pb2
from sluice.v1.sampling_pb2 import SamplingParams, StopParams
from sluice.v1.text_generation_pb2 import (
    GenerateTextRequest,
    GenerateTextResponse,
    GenerationTimings,
    StreamGenerateTextResponse,
    TextGenerationCompleted,
    TextGenerationDelta,
    TextGenerationFinished,
    TextGenerationStarted,
)

from gateway.dialects.mindie.encoder import MindieEncoder
from gateway.dialects.mindie.generate import MindieTranslator
from gateway.dialects.seam.failure import Failure, Reason, Violation
from gateway.dialects.seam.http_request import HttpRequest
from gateway.dialects.seam.translator import ParsedRequest

Event = StreamGenerateTextResponse


def parse(
    fields: dict[str, Any] | None = None, *, stream: bool = True, **parameters: Any
) -> ParsedRequest[GenerateTextRequest]:
    """Return the call for a valid body with these parameters, changed by `fields`."""
    body = {"text_input": "My name is", "parameters": parameters, **(fields or {})}
    path = {"model": "m", "version": "2"}
    return MindieTranslator(stream=stream).parse(HttpRequest(json.dumps(body).encode(), path=path))


def milliseconds(value: float) -> Duration:
    """Return a duration."""
    result = Duration()
    result.FromNanoseconds(int(value * 1e6))
    return result


TIMINGS = GenerationTimings(
    queue_wait=milliseconds(0.25), first_token=milliseconds(12.5), decode=milliseconds(30), batch_size=4
)
STARTED = Event(started=TextGenerationStarted(id="7", model="m", model_version="2"))


def test_document_example() -> None:
    """The example request of the documentation is accepted with all of its parameters."""
    call = parse(
        {"id": "a123"}, details=True, do_sample=True, max_new_tokens=200, repetition_penalty=1.1, seed=123,
        temperature=1, top_k=10, top_p=0.99, batch_size=100, typical_p=0.5, watermark=False, perf_stat=False,
    )  # fmt: skip
    assert call.stream
    assert call.request == GenerateTextRequest(
        model="m",
        model_version="2",
        text_input="My name is",
        do_sample=True,
        perf_stat=False,
        sampling=SamplingParams(
            repetition_penalty=1.1, seed=123, temperature=1, top_k=10, top_p=0.99, typical_p=0.5, watermark=False
        ),
        stopping=StopParams(max_tokens=200),
    )


def test_absent_and_null_fields_are_not_set() -> None:
    """Defaults are the service's; null sets nothing."""
    plain = GenerateTextRequest(model="m", model_version="2", text_input="My name is")
    names = (
        "details", "do_sample", "max_new_tokens", "max_tokens", "repetition_penalty", "seed", "temperature", "top_k",
        "top_p", "batch_size", "typical_p", "watermark", "perf_stat",
    )  # fmt: skip
    nulls: dict[str, Any] = dict.fromkeys(names)
    for call in (parse(), parse(**nulls), parse({"parameters": None, "id": None, "stream": None})):
        assert call.request == plain


@pytest.mark.parametrize("stream", [False, True])
def test_triton_clients(*, stream: bool) -> None:
    """`max_tokens` and a `stream` that agrees with the path are accepted, because Triton's clients send them."""
    call = parse({"stream": stream}, stream=stream, max_tokens=9)
    assert (call.stream, call.request.stopping.max_tokens) == (stream, 9)
    with pytest.raises(Failure) as caught:
        parse({"stream": not stream}, stream=stream)
    assert caught.value.field == "stream"


@pytest.mark.parametrize(
    ("parameters", "limit"),
    [
        ({"max_new_tokens": 0}, "1"),
        ({"max_new_tokens": 2**31}, "2147483647"),
        ({"max_tokens": 0}, "1"),
        ({"batch_size": 0}, "1"),
        ({"batch_size": 2**31}, "2147483647"),
        ({"repetition_penalty": 0}, "0"),
        ({"temperature": 0}, "0"),
        ({"seed": 0}, "1"),
        ({"seed": 2**64}, f"from 1 to {2**64 - 1}"),
        ({"priority": 0}, "1"),
        ({"priority": 6}, "5"),
        ({"timeout": 0}, "1"),
        ({"timeout": 3601}, "3600"),
        ({"top_k": -1}, "0"),
        ({"top_k": 2**31}, "2147483647"),
        ({"top_p": 0}, "0"),
        ({"top_p": 1.01}, "1"),
        ({"typical_p": -1}, "0"),
        ({"typical_p": 1.01}, "1"),
        ({"details": "yes"}, "boolean"),
        ({"top_k": 1.5}, "integer"),
    ],
)
def test_limit_is_reported_by_name(parameters: dict[str, Any], limit: str) -> None:
    """A value outside its documented range is rejected with its path and the limit."""
    with pytest.raises(Failure) as caught:
        parse(**parameters)
    (name,) = parameters
    assert (caught.value.status, caught.value.field) == (400, f"parameters.{name}")
    assert limit in caught.value.message
    assert "`" not in caught.value.message


@pytest.mark.parametrize(
    ("fields", "name", "reason"),
    [
        ({"id": ""}, "id", Reason.INVALID_FIELD),
        ({"id": "x" * 257}, "id", Reason.INVALID_FIELD),
        ({"id": 5}, "id", Reason.INVALID_TYPE),
        ({"text_input": None}, "text_input", Reason.INVALID_TYPE),
        ({"parameters": {"top_q": 1}}, "parameters.top_q", Reason.UNKNOWN_FIELD),
        ({"model": "m"}, "model", Reason.UNKNOWN_FIELD),
        ({"parameters": {"max_tokens": 1, "max_new_tokens": 2}}, "parameters.max_tokens", Reason.INVALID_FIELD),
    ],
)
def test_bad_body(fields: dict[str, Any], name: str, reason: Reason) -> None:
    """Fields that the documentation doesn't have are rejected by name."""
    with pytest.raises(Failure) as caught:
        parse(fields)
    assert (caught.value.field, caught.value.reason) == (name, reason)


@pytest.mark.parametrize(("priority", "expected"), [(1, -4), (5, 0)])
def test_priority_5_is_the_contracts_0(priority: int, expected: int) -> None:
    """MindIE's default priority is 5, the last one; the contract's is 0."""
    assert parse(priority=priority).request.serving.priority == expected
    assert not parse().request.serving.HasField("priority")


def test_service_level() -> None:
    """The objectives are the contract's; a body without them sets none."""
    serving = parse(slo_first_token_seconds=0.5, slo_token_seconds=1).request.serving
    assert (serving.slo_first_token_seconds, serving.slo_token_seconds) == (0.5, 1)
    assert not parse().request.serving.HasField("slo_first_token_seconds")


def test_timeout_applies_to_the_whole_answer() -> None:
    """The timeout is the time that the caller waits for the whole answer, in seconds."""
    assert (parse(timeout=10).timeout_s, parse().timeout_s) == (10, None)


@pytest.mark.parametrize(
    ("parameters", "field", "text"),
    [
        ({"temperature": 3}, "parameters.temperature", "must be above 0 and at most 2"),
        ({"priority": 1}, "parameters.priority", "1 is more urgent than the caller's key allows"),
        ({"priority": 1}, "parameters.top_p", "no"),
    ],
)
def test_service_errors_have_mindies_ranges(parameters: dict[str, Any], field: str, text: str) -> None:
    """Errors of the service have this dialect's ranges, which exclude 0, and its priorities."""
    translator = MindieTranslator(stream=False)
    translator.parse(
        HttpRequest(json.dumps({"text_input": "a", "parameters": parameters}).encode(), path={"model": "m"})
    )
    rejection = translator.error_response(Failure.of_field(field, "no"))
    assert json.loads(rejection.body)["error"] == f"{field}: {text}"


def test_caller_names() -> None:
    """The contract's field names are mapped to the caller's."""
    name = parse().caller_name
    assert name("sampling.top_k") == "parameters.top_k"
    assert name("stopping.max_tokens") == "parameters.max_new_tokens"
    assert parse(max_tokens=5).caller_name("stopping.max_tokens") == "parameters.max_tokens"
    assert name("text_input") == "text_input"
    assert name("model_version") == "model_version"


def test_events_with_details() -> None:
    """Each piece of text is one event with details; the last event has no text but the finish reason."""
    encoder = MindieEncoder("a123", details=True, perf_stat=True)
    assert encoder.chunk(STARTED) == b""
    delta = TextGenerationDelta(text=' "am"', num_generated_tokens=1, timings=TIMINGS)
    details = (
        b'"details":{"generated_tokens":1,"first_token_cost":12.5,"decode_cost":30.0,"batch_size":4,'
        b'"queue_wait_time":250}'
    )
    head = b'data:{"id":"a123","model_name":"m","model_version":"2","text_output":'
    assert encoder.chunk(Event(delta=delta)) == head + b'" \\"am\\"",' + details + b"}\n\n"
    assert encoder.chunk(Event(delta=TextGenerationDelta(num_generated_tokens=2, timings=TIMINGS))) == b""
    timings = GenerationTimings(tokens=[milliseconds(12.5), milliseconds(30)])
    timings.MergeFrom(TIMINGS)
    end = TextGenerationFinished(finish_reason=chat_pb2.FINISH_REASON_LENGTH, num_generated_tokens=2, timings=timings)
    last = json.loads(encoder.chunk(Event(finished=end)).removeprefix(b"data:"))
    assert last == {
        "id": "a123",
        "model_name": "m",
        "model_version": "2",
        "text_output": "",
        "finish_reason": "length",
        "details": {
            "finish_reason": "length",
            "generated_tokens": 2,
            "first_token_cost": 12.5,
            "decode_cost": 30.0,
            "batch_size": 4,
            "queue_wait_time": 250,
        },
        "perf_stat": [12.5, 30.0],
    }
    assert encoder.chunk(Event(completed=TextGenerationCompleted())) == b""


def test_events_without_details() -> None:
    """Details are omitted unless requested; an unnamed version is null, and an unnamed request gets an id."""
    encoder = MindieEncoder(None)
    encoder.chunk(Event(started=TextGenerationStarted(id="7", model="m")))
    event = encoder.chunk(Event(delta=TextGenerationDelta(text="am", num_generated_tokens=1, timings=TIMINGS)))
    assert event == b'data:{"id":"7","model_name":"m","model_version":null,"text_output":"am"}\n\n'
    end = TextGenerationFinished(finish_reason=chat_pb2.FINISH_REASON_STOP, timings=TIMINGS)
    assert encoder.chunk(Event(finished=end)).endswith(b'"text_output":"","finish_reason":"eos_token"}\n\n')


@pytest.mark.parametrize(
    ("reason", "stop_sequence", "finish_reason"),
    [
        (chat_pb2.FINISH_REASON_STOP, None, "eos_token"),
        (chat_pb2.FINISH_REASON_STOP, "END", "stop_sequence"),
        (chat_pb2.FINISH_REASON_LENGTH, None, "length"),
    ],
)
def test_unstreamed_answer(reason: chat_pb2.FinishReason, stop_sequence: str | None, finish_reason: str) -> None:
    """An unstreamed answer has all the text, and the details of the last event."""
    response = GenerateTextResponse(
        id="7", model="m", text="abc", finish_reason=reason, stop_sequence=stop_sequence, num_generated_tokens=3,
        timings=TIMINGS,
    )  # fmt: skip
    body = json.loads(MindieEncoder("x", details=True).whole(response))
    assert body["text_output"] == "abc"
    assert body["details"]["finish_reason"] == finish_reason
    assert "perf_stat" not in body
    assert json.loads(MindieEncoder("x").whole(response)) == {
        "id": "x",
        "model_name": "m",
        "model_version": None,
        "text_output": "abc",
        "finish_reason": finish_reason,
    }


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, Reason.INVALID_FIELD, "validation"),
        (400, Reason.UNSUPPORTED_FIELD, "unsupported"),
        (404, Reason.MODEL_NOT_FOUND, "not_found"),
        (413, Reason.BODY_TOO_LARGE, "validation"),
        (429, Reason.QUEUE_FULL, "overloaded"),
        (500, Reason.INTERNAL, "generation"),
        (503, Reason.DRAINING, "unavailable"),
        (504, Reason.DEADLINE_EXCEEDED, "timeout"),
    ],
)
def test_error_body(status: int, reason: Reason, kind: str) -> None:
    """An error has its text and its type, in a body and in a stream's last event."""
    failure = Failure(reason, "no", violations=[Violation("parameters.top_k", "must be at least 0")])
    rejection = MindieTranslator(stream=True).error_response(failure)
    body = {"error": "parameters.top_k: must be at least 0", "error_type": kind}
    assert (rejection.status, json.loads(rejection.body)) == (status, body)
    assert MindieEncoder(None).error(failure) == b"data:" + rejection.body + b"\n\n"

"""Encoded responses, compared with recorded bytes and with OpenAI's own types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from sluice.v1 import chat_pb2, response_event_pb2, response_pb2

from gateway.dialects.openai.response import OpenAIResponseTranslator
from gateway.dialects.seam.encoder import Encoder
from gateway.dialects.seam.failure import Failure, Reason
from gateway.dialects.seam.http_request import HttpRequest

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "responses"
CASES = sorted(path.stem for path in GOLDEN.glob("*.textproto"))
MEDIUM, HIGH = chat_pb2.REASONING_EFFORT_MEDIUM, chat_pb2.REASONING_EFFORT_HIGH
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
SCHEMA = '{\n  "type": "object",\r\n  "properties": {"a": {"const": "x\\ny"}}\n}'
EVERYTHING: dict[str, Any] = {
    "instructions": "Be kind.",
    "frequency_penalty": 0.1,
    "max_output_tokens": 100,
    "max_tool_calls": 3,
    "parallel_tool_calls": False,
    "presence_penalty": -0.2,
    "prompt_cache_key": "user-7",
    "prompt_cache_retention": "24h",
    "reasoning": {"effort": "low", "summary": "auto"},
    "safety_identifier": "s",
    "temperature": 0.7,
    "text": {"format": {"type": "json_object"}, "verbosity": "low"},
    "tool_choice": {"type": "function", "name": "f"},
    "tools": [
        {"type": "function", "name": "f", "description": "Does.", "parameters": {"type": "object"}, "strict": True}
    ],
    "top_logprobs": 2,
    "top_p": 0.9,
    "truncation": "auto",
    "user": "u",
}  # fmt: skip


def encoder_of(**fields: Any) -> Encoder:
    body = {"model": "m", "input": "hi", **fields}
    return OpenAIResponseTranslator().parse(HttpRequest(json.dumps(body).encode())).encoder


def events_of(case: str) -> list[response_event_pb2.StreamResponseResponse]:
    """Return the recorded events of the service."""
    blocks = (GOLDEN / f"{case}.textproto").read_text().split("\n---\n")
    return [text_format.Parse(block, response_event_pb2.StreamResponseResponse()) for block in blocks]


def whole_of(case: str, **fields: Any) -> Any:
    """Return the unstreamed answer of the service's last event."""
    last = events_of(case)[-1]
    ended = getattr(last, last.WhichOneof("event") or "")
    return json.loads(encoder_of(**fields).whole(response_pb2.CreateResponseResponse(response=ended.response)))


def data_of(stream: bytes) -> list[dict[str, Any]]:
    """Return the JSON of each event, whose `event:` line must have its type."""
    *blocks, nothing = stream.decode().split("\n\n")
    assert nothing == ""
    sent_data = []
    for block in blocks:
        event, data = block.split("\n")
        sent_data.append(json.loads(data.removeprefix("data: ")))
        assert event == f"event: {sent_data[-1]['type']}"
    return sent_data


@pytest.mark.parametrize("case", CASES)
def test_stream_is_golden(case: str) -> None:
    """Each recorded stream of the service is encoded to exactly the recorded bytes."""
    encoder = encoder_of()
    stream = b"".join(encoder.chunk(event) for event in events_of(case))
    assert stream == (GOLDEN / f"{case}.sse.txt").read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_events_and_answer_are_valid_for_openais_types(case: str) -> None:
    """Every event and the whole answer are valid for OpenAI's types, and contain the same response."""
    sent_data = data_of((GOLDEN / f"{case}.sse.txt").read_bytes())
    for data in sent_data:
        EVENT.validate_python(data)
    assert [data["sequence_number"] for data in sent_data] == list(range(len(sent_data)))
    whole = whole_of(case)
    Response.model_validate(whole)
    assert sent_data[-1]["response"] == whole
    items = [data["item"] for data in sent_data if data["type"] == "response.output_item.done"]
    assert items == whole["output"]


def test_answer_echoes_the_request() -> None:
    """Every request field that the answer has is echoed unchanged."""
    whole = whole_of("text", **EVERYTHING)
    Response.model_validate(whole)
    assert {name: whole[name] for name in EVERYTHING} == EVERYTHING
    assert whole["metadata"] == {"run": "7"}
    assert (whole["store"], whole["background"], whole["previous_response_id"]) == (False, False, None)


def test_answer_echoes_openais_defaults_of_absent_fields() -> None:
    """Absent fields are echoed as OpenAI's defaults; numbers are the effective values of the service."""
    whole = whole_of("text")
    expected = {
        "temperature": 0.5, "top_p": 1.0, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True,
        "truncation": "disabled", "text": {"format": {"type": "text"}}, "instructions": None,
        "max_output_tokens": None, "top_logprobs": 0, "error": None, "incomplete_details": None,
        "reasoning": {"effort": None, "summary": None}, "frequency_penalty": 0.0, "presence_penalty": 0.0,
        "service_tier": "default", "conversation": None, "prompt": None, "completed_at": 1_700_000_003,
    }  # fmt: skip
    assert {name: whole[name] for name in expected} == expected


def test_answer_rounds_float32_numbers_to_seven_digits() -> None:
    """A model's own settings, which are 32-bit floats in the contract, are rounded to seven digits."""
    (event,) = events_of("text")[-1:]
    event.completed.response.sampling.temperature, event.completed.response.sampling.top_p = 0.3, 0.95
    whole = json.loads(
        encoder_of(top_p=0.8).whole(response_pb2.CreateResponseResponse(response=event.completed.response))
    )
    assert (whole["temperature"], whole["top_p"]) == (0.3, 0.8)


def test_answer_has_every_field_that_openais_type_has() -> None:
    """The answer has every field of OpenAI's type except a cache policy."""
    assert Response.model_fields.keys() - whole_of("text").keys() == {"prompt_cache_options"}


@pytest.mark.parametrize(("given", "sent_data"), [({}, "medium"), ({"effort": "xhigh"}, "high")])
def test_answer_has_the_effective_effort(given: dict[str, str], sent_data: str) -> None:
    """The answer has the effective effort for a given or absent one."""
    (event,) = events_of("text")[-1:]
    event.completed.response.reasoning_effort = {"medium": MEDIUM, "high": HIGH}[sent_data]
    answer = response_pb2.CreateResponseResponse(response=event.completed.response)
    assert json.loads(encoder_of(reasoning=given).whole(answer))["reasoning"]["effort"] == sent_data


@pytest.mark.parametrize("is_nested", [False, True])
def test_schemas_are_echoed_in_the_requests_form_on_one_line(*, is_nested: bool) -> None:
    """Tools and formats are echoed in the form of the request, without line ends that would break an event."""
    named = f'"name": "f", "strict": null, "description": null, "%s": {SCHEMA}'
    tool, expected = named % "parameters", named % "schema"
    if is_nested:
        tool, expected = f'"function": {{{tool}}}', f'"json_schema": {{{expected}}}'
    body = (
        f'{{"model": "m", "input": "hi", "tools": [{{"type": "function", {tool}}}], '
        f'"text": {{"format": {{"type": "json_schema", {expected}}}, "verbosity": "low"}}}}'
    )
    encoder = OpenAIResponseTranslator().parse(HttpRequest(body.encode())).encoder
    stream = b"".join(encoder.chunk(event) for event in events_of("text"))
    response = data_of(stream)[-1]["response"]
    given = json.loads(body)
    assert (response["tools"], response["text"]) == (given["tools"], given["text"])


def test_logprobs_are_sent_with_their_text() -> None:
    """A delta has its tokens' logprobs; the done events and the answer have all of them."""
    sent_data = data_of((GOLDEN / "json.sse.txt").read_bytes())
    deltas = [data["logprobs"] for data in sent_data if data["type"] == "response.output_text.delta"]
    (done,) = [data["logprobs"] for data in sent_data if data["type"] == "response.output_text.done"]
    assert [token["token"] for each in deltas for token in each] == [token["token"] for token in done]
    assert done == sent_data[-1]["response"]["output"][0]["content"][0]["logprobs"]
    assert len(done) == 4
    assert done[0] == {"token": "t1", "logprob": -0.5, "bytes": [], "top_logprobs": []}


@pytest.mark.parametrize(
    ("failure", "code", "kind"),
    [
        (Failure(Reason.INTERNAL, "internal error"), "server_error", "server_error"),
        (Failure(Reason.UNAVAILABLE, "stopping"), "server_error", "server_error"),
        (Failure(Reason.QUEUE_FULL, "full"), "rate_limit_exceeded", "rate_limit_error"),
        (Failure.of_field("text.format", "no", Reason.CONSTRAINT_FAILED), "invalid_prompt", "invalid_request_error"),
    ],
)
def test_failed_stream_ends_with_the_response_so_far(failure: Failure, code: str, kind: str) -> None:
    """`response.failed` has the next number, the completed items, the usage, and the complete error."""
    encoder = encoder_of()
    events = events_of("two_calls")
    end = next(i for i, event in enumerate(events) if event.HasField("output_item_done")) + 2
    stream = b"".join(encoder.chunk(event) for event in events[:end])
    usage = response_event_pb2.StreamResponseResponse(
        sequence_number=end, usage={"prompt_tokens": 7, "completion_tokens": 3}
    )
    assert encoder.chunk(usage) == b""
    sent_data = data_of(stream + encoder.error(failure))
    EVENT.validate_python(sent_data[-1])
    assert [data["sequence_number"] for data in sent_data] == list(range(len(sent_data)))
    response = sent_data[-1]["response"]
    assert (sent_data[-1]["type"], response["status"]) == ("response.failed", "failed")
    error = {"code": code, "message": failure.message, "param": failure.field, "type": kind}
    assert response["error"] == error
    assert [item["type"] for item in response["output"]] == ["message"]
    assert response["usage"]["total_tokens"] == 10


@pytest.mark.parametrize("text", ["", "a", '"\\\n\t\u2028', "ä€😀", "\x00\x7f"])
def test_any_text_is_one_sse_line_and_decoded_unchanged(text: str) -> None:
    """Any text is encoded in one line and decoded unchanged."""
    encoder = encoder_of()
    encoder.chunk(events_of("text")[0])
    event = response_event_pb2.StreamResponseResponse(output_text_delta={"item_id": "msg_1", "delta": text})
    (data,) = data_of(encoder.chunk(event))
    assert data["delta"] == text

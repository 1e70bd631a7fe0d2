"""Lines of batches in OpenAI's JSON: unreadable ones are rejected by their number, and foreign data is no error."""

from __future__ import annotations

import json

import orjson
import pytest
from sluice.v1 import batch_pb2

from gateway.dialects.openai.stored.batch import caller_name, endpoint_of, to_object
from gateway.dialects.openai.stored.batch_line import to_line, to_output
from gateway.dialects.openai_family.responses.response_object import ResponseObject
from gateway.dialects.seam.failure import Failure

CHATS = "/v1/chat/completions"
LINE = b'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": ["hi"]}}'
BODIES = {
    CHATS: {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"model": "m", "prompt": "hi"},
    "/v1/responses": {"model": "m", "input": "hi"},
    "/v1/embeddings": {"model": "m", "input": "hi"},
}
DEEP = b"[" * 5000 + b"]" * 5000


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (LINE.replace(b'"a"', b'"\xe9"'), "is not valid UTF-8"),
        (LINE.replace(b'"hi"', DEEP), "is nested too deeply"),
        (LINE[:-1] + b', "other": ' + DEEP + b"}", "is nested too deeply"),
        (LINE.replace(b'"hi"', rb'"\ud800"'), "unpaired surrogate"),
        (LINE[:-1], "unexpected end of the text"),
        (LINE + LINE, "trailing characters"),
        (b"null", "Expected `object`, got `null`"),
    ],
)
def test_unreadable_line_is_rejected_by_its_number(line: bytes, text: str) -> None:
    with pytest.raises(Failure) as failure:
        to_line(line, 7, CHATS)
    assert (failure.value.status, failure.value.field) == (400, "input_file_id")
    assert failure.value.message.startswith("input_file_id: line 7: ")
    assert text in failure.value.message


def test_invalid_body_is_an_error_of_its_line_only() -> None:
    for body in (b'{"messages": ["\xe9"]}', b"[]", b"null", b'{"model": "m", "model": "m"}'):
        line = to_line(LINE.replace(b'{"messages": ["hi"]}', body), 1, CHATS)
        assert line.rejected.message, body


@pytest.mark.parametrize(
    "client_data",
    [
        b"",
        b"5",
        b"null",
        b"\xff",
        b"{}",
        b'["a"]',
        b"[1, 2, 3]",
        b'["/v1/other", "b", "c"]',
        b'["\xff", "b", "c"]',
        DEEP,
    ],
)
def test_batch_with_data_of_another_client_has_no_endpoint(client_data: bytes) -> None:
    """A client of the contract may write anything into `client_data`; the batch can be listed all the same."""
    description = batch_pb2.BatchDescription(client_data=client_data)
    batch = batch_pb2.Batch(id="b", status=batch_pb2.BATCH_STATUS_COMPLETED, description=description)
    assert endpoint_of(batch) == ""
    assert to_object(batch)["id"] == "batch_b"


@pytest.mark.parametrize(
    "client_data", [b'{"given": {}, "echo": {"\xff": 1}}', b'{"given": {}, "echo": ' + DEEP + b"}"]
)
def test_response_with_data_of_another_client_has_the_defaults(client_data: bytes) -> None:
    assert ResponseObject.from_client_data(client_data) == ResponseObject.from_client_data(b"")


@pytest.mark.parametrize("endpoint", BODIES)
def test_result_of_another_endpoint_is_an_error_of_its_line(endpoint: str) -> None:
    """A client of the contract may create a batch with one endpoint in its data and requests of another one."""
    result = batch_pb2.StreamBatchResultsResponse(custom_id="a", client_data=json.dumps(BODIES[endpoint]).encode())
    if endpoint == CHATS:
        result.completion.SetInParent()
    else:
        result.chat.SetInParent()
    response = orjson.loads(to_output(result, "b", endpoint))["response"]
    assert response["status_code"] == 400
    assert "endpoint" in response["body"]["error"]["message"]


def test_fields_of_metadata_have_the_names_of_the_body() -> None:
    assert caller_name('description.metadata["a.b"]') == "metadata.a.b"
    assert caller_name("description.metadata") == "metadata"

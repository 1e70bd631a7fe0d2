"""Responses in the background over HTTP: created, streamed from any event, resumed after a lost service, cancelled."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import grpc
import openai
import pytest
from openai.types.responses import Response
from sluice.v1 import response_item_pb2, stored_response_pb2

from tests.gateway import fakes
from tests.gateway.conftest import Gateway
from tests.gateway.response_fakes import Event, FakeResponseService, recorded

Code = grpc.StatusCode
BODY: dict[str, Any] = {"model": "m", "input": "hi", "background": True, "user": "u"}


class BackgroundService(FakeResponseService):
    """Has one response in the background with the recorded events, and loses connections as `breaks` say."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[Any] = []
        self.client_data = b""
        self.breaks: list[int] = []  # numbers of the events before which streams break, one for each
        opening = recorded("text")[0].created.response
        opening.status, opening.background = response_item_pb2.RESPONSE_STATUS_QUEUED, True
        self.queued = opening
        events = [Event(created={"response": opening}), Event(queued={"response": opening}), *recorded("text")[1:]]
        for number, event in enumerate(events):
            event.sequence_number = number
            event.ClearField("stream")
            event.ClearField("position")
            if event.HasField("completed"):
                event.completed.response.background = True
        self.stored_events = events

    async def CreateResponse(self, request: Any, context: Any) -> Any:  # noqa: N802  the contract's name
        self.received.append(request)
        self.client_data = request.client_data
        return stored_response_pb2.GetResponseResponse(response=self.queued)

    async def StreamResponse(self, request: Any, context: Any) -> AsyncIterator[Event]:  # noqa: N802
        self.received.append(request)
        self.client_data = request.client_data
        async for event in self._events(0, context):
            yield event

    async def FollowResponse(self, request: Any, context: Any) -> AsyncIterator[Event]:  # noqa: N802
        self.received.append(request)
        async for event in self._events(
            request.starting_after + 1 if request.HasField("starting_after") else 0, context
        ):
            yield event

    async def CancelResponse(self, request: Any, context: Any) -> Any:  # noqa: N802  the contract's name
        self.received.append(request)
        response = response_item_pb2.Response()
        response.CopyFrom(self.queued)
        response.status = response_item_pb2.RESPONSE_STATUS_CANCELLED
        return stored_response_pb2.CancelResponseResponse(response=response, client_data=self.client_data)

    async def _events(self, begin: int, context: Any) -> AsyncIterator[Event]:
        until = self.breaks.pop(0) if self.breaks else None
        for number, event in enumerate(self.stored_events[begin:], begin):
            if number == until:
                await context.abort(Code.UNAVAILABLE, "Connection reset")
            sent = Event()
            sent.CopyFrom(event)
            if number == begin:
                sent.client_data = self.client_data
            yield sent


@pytest.fixture
async def service() -> AsyncIterator[BackgroundService]:
    """A service with a response in the background."""
    service = BackgroundService()
    server, service.port = await fakes.start(service)
    yield service
    await server.stop(None)


def events_in(body: str) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("data: ")) for line in body.splitlines() if line.startswith("data: ")]


async def test_creation_returns_the_queued_response(gateway: Gateway, service: BackgroundService) -> None:
    """The answer is a valid response; the request has an id, so that a repeated call does not create a second one."""
    answer = await gateway.http.post("/v1/responses", json=BODY)
    assert answer.status_code == 200
    Response.model_validate(answer.json())
    assert (answer.json()["status"], answer.json()["background"]) == ("queued", True)
    await gateway.http.post("/v1/responses", json=BODY, headers={"idempotency-key": "k1"})
    request, named = service.received
    assert named.serving.request_id == "k1"
    assert (request.background, request.store, len(request.serving.request_id)) == (True, True, 32)


async def test_stream_has_the_requests_fields_from_any_event_on(gateway: Gateway, service: BackgroundService) -> None:
    """A stream of the response equals that at its creation after the same event, with the fields that it echoes."""
    created = events_in((await gateway.http.post("/v1/responses", json=BODY | {"stream": True})).text)
    assert [event["type"] for event in created[:3]] == [
        "response.created", "response.queued", "response.in_progress",
    ]  # fmt: skip
    assert created[-1]["response"]["user"] == "u"
    response_id = created[0]["response"]["id"]
    for after in (None, 0, 2, len(created) - 2):
        query = {"stream": "true"} | ({} if after is None else {"starting_after": str(after)})
        found = await gateway.http.get(f"/v1/responses/{response_id}", params=query)
        assert events_in(found.text) == created[0 if after is None else after + 1 :]


@pytest.mark.parametrize("is_created", [False, True])
async def test_broken_stream_continues(gateway: Gateway, service: BackgroundService, *, is_created: bool) -> None:
    """If the service is lost, the gateway continues after the last event; the client gets every event once."""
    whole = events_in((await gateway.http.post("/v1/responses", json=BODY | {"stream": True})).text)
    service.breaks, service.received = [3, 5], []
    if is_created:
        answer = await gateway.http.post("/v1/responses", json=BODY | {"stream": True})
    else:
        answer = await gateway.http.get("/v1/responses/resp_1", params={"stream": "true"})
    assert events_in(answer.text) == whole
    assert [each.starting_after for each in service.received[1:]] == [2, 4]


async def test_openai_client_polls_streams_and_cancels(gateway: Gateway, service: BackgroundService) -> None:
    """OpenAI's client works unchanged."""
    base_url = f"http://127.0.0.1:{gateway.port}/v1"
    async with openai.AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0) as client:
        created = await client.responses.create(model="m", input="hi", background=True)
        assert created.status == "queued"
        stream = await client.responses.retrieve(created.id, stream=True, starting_after=1)
        kinds = [event.type async for event in stream]
        assert (kinds[0], kinds[-1]) == ("response.in_progress", "response.completed")
        assert (await client.responses.cancel(created.id)).status == "cancelled"


@pytest.mark.parametrize(
    ("query", "headers", "param"),
    [
        ({"stream": "yes"}, {}, "stream"),
        ({"starting_after": "1"}, {}, "starting_after"),
        ({"stream": "true", "starting_after": "-1"}, {}, "starting_after"),
        ({"stream": "true", "starting_after": "9" * 30}, {}, "starting_after"),
        ({"stream": "true"}, {"last-event-id": "x"}, "last-event-id"),
    ],
)
@pytest.mark.usefixtures("service")
async def test_invalid_query_is_rejected(
    gateway: Gateway, query: dict[str, str], headers: dict[str, str], param: str
) -> None:
    """An invalid query is rejected before any event, with the name of the field."""
    answer = await gateway.http.get("/v1/responses/resp_1", params=query, headers=headers)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_failed_response_has_its_error(gateway: Gateway, service: BackgroundService) -> None:
    """A failed response has OpenAI's error object, and ends its stream with `response.failed`."""
    failed = response_item_pb2.Response()
    failed.CopyFrom(service.queued)
    failed.status = response_item_pb2.RESPONSE_STATUS_FAILED
    failed.error.message = "gone"
    service.stored_events[2:] = [Event(sequence_number=2, failed={"response": failed})]
    answer = await gateway.http.get("/v1/responses/resp_1", params={"stream": "true"})
    last = events_in(answer.text)[-1]
    assert last["type"] == "response.failed"
    Response.model_validate(last["response"])
    assert last["response"]["error"] == {"code": "server_error", "message": "gone"}

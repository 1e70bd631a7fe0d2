"""The dialects of OpenAI's family answer alike: each of their exchanges is compared with OpenAI's.

What is specific to one dialect, mainly its error format, is in the golden files and in the dialect's own tests.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from gateway.dialects.seam.encoder import COMMENT
from tests.gateway.conftest import Gateway
from tests.gateway.golden_exchange import Exchange
from tests.gateway.golden_exchanges import ALL, EXCHANGES, RELATED
from tests.gateway.golden_service import GoldenService, golden_service

OWN_HEADERS: Final = {"date", "content-length", "x-ms-error-code"}

DEFAULTS: Final = re.compile(
    r"^(use_raw_prompt: false|serving \{\n\}|default_reasoning_effort: REASONING_EFFORT_MEDIUM)\n", re.MULTILINE
)
CHOICE_INDEX: Final = re.compile(rb'"choice_index":\d+,')  # which only invocations tell

service = pytest.fixture(golden_service)


@pytest.fixture
def flags() -> list[str]:
    """Leave the defaults of sampling to the model in all dialects."""
    return ["--sampling-defaults", "model"]


@dataclass(frozen=True)
class Outcome:
    """The service's transcript and the caller's answer, without what is specific to a dialect."""

    asked: list[str]
    status: int
    headers: dict[str, str]
    body: object


async def run_exchange(gateway: Gateway, service: GoldenService, exchange: Exchange) -> Outcome:
    """Run the exchange."""
    service.answers, service.notes = exchange.answers, []
    body = exchange.body if isinstance(exchange.body, bytes) else json.dumps(exchange.body).encode()
    headers = {"x-request-id": "golden", "content-type": "application/json", **exchange.headers}
    answer = await gateway.http.request(exchange.method, exchange.path, content=body, headers=headers)
    status = 400 if answer.status_code == 422 else answer.status_code  # Azure's, of values that can't be served
    shared_headers = {name: value for name, value in answer.headers.items() if name not in OWN_HEADERS}
    return Outcome(
        [request_in(note) for note in service.notes if is_generation(note)], status, shared_headers, body_of(answer)
    )


def is_generation(note: str) -> bool:
    """Return True if a note of the service is about a generation, not about lists of endpoints."""
    return note.startswith(">>> ") and "EndpointService" not in note


def request_in(note: str) -> str:
    """Return the RPC, whole or streaming, and the message without the dialect's defaults."""
    head, _, message = note.partition("\n\n")
    return head.splitlines()[0].replace("/Stream", "/") + DEFAULTS.sub("", message)


def body_of(answer: httpx.Response) -> object:
    """Return an error's message, a stream without comments and error event, or a whole answer."""
    if answer.headers["content-type"].startswith("text/event-stream"):
        events = CHOICE_INDEX.sub(b"", answer.content.replace(COMMENT, b"")).removesuffix(b"\n\n").split(b"\n\n")
        return [event for event in events if not is_error(event)]
    body: dict[str, Any] = json.loads(CHOICE_INDEX.sub(b"", answer.content))
    if answer.status_code >= 400:
        error = body.get("error")
        return body["message"] if "message" in body else error["message"] if isinstance(error, dict) else error
    body.pop("service_tier", None)  # which only OpenAI's own chats have
    return {**body, "object": body["object"].replace("chat.completions", "chat.completion")}


def is_error(event: bytes) -> bool:
    """Return True for the last event of a failed stream in a dialect's own format."""
    return event.startswith(b"event: error") or (event.startswith(b"data: ") and b'"error":{' in event)


@pytest.mark.parametrize(("exchange", "original"), RELATED, ids=[exchange.name for exchange, _ in RELATED])
async def test_exchange_equals_openais_except_documented_differences(
    gateway: Gateway, service: GoldenService, exchange: Exchange, original: Exchange
) -> None:
    """Request and answer are the same as in the OpenAI style except for documented differences."""
    assert await run_exchange(gateway, service, exchange) == await run_exchange(gateway, service, original)


def test_every_exchange_is_compared() -> None:
    """Each exchange is a golden file, one of OpenAI's relatives, or their original."""
    compared = {exchange.name for pair in RELATED for exchange in pair}
    assert set(ALL) == compared | {exchange.name for exchange in EXCHANGES} | {"invocation_chat_missing"}

"""Exchanges of every kind, to the byte: the request, the service's requests and answers, and the response.

Each is a file of golden/exchanges, recorded over real HTTP and gRPC with fixed ids, times and seeds. After an intended
change, record them again and read the difference:

    RECORD_GOLDEN=1 python -m pytest tests/gateway/test_golden.py && git diff tests/gateway/golden
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import httpx
import pytest

from tests.gateway.conftest import Gateway
from tests.gateway.golden_exchange import Exchange
from tests.gateway.golden_exchanges import EXCHANGES
from tests.gateway.golden_service import GoldenService, golden_service

FOLDER = Path(__file__).parent / "golden" / "exchanges"
IS_RECORDING = "RECORD_GOLDEN" in os.environ
CHANGING = {"date"}  # of the headers

service = pytest.fixture(golden_service)


def request_of(exchange: Exchange) -> tuple[str, bytes]:
    """Return the beginning of the transcript, and the body to send."""
    body = exchange.body if isinstance(exchange.body, bytes) else b""
    if isinstance(exchange.body, dict):
        body = json.dumps(exchange.body, ensure_ascii=False).encode()
    headers = "".join(f"{name}: {value}\n" for name, value in exchange.headers.items())
    text = f"{exchange.method} {exchange.path}\n{headers}\n"
    return (f"{text}{body.decode()}\n\n" if body else text), body


def response_of(answer: httpx.Response) -> str:
    """Return the end of the transcript. Headers are sorted; the body is verbatim, without a line end after it."""
    headers = "".join(f"{name}: {value}\n" for name, value in sorted(answer.headers.items()) if name not in CHANGING)
    return f"HTTP {answer.status_code}\n{headers}\n{answer.content.decode()}"


@pytest.mark.parametrize("exchange", EXCHANGES, ids=[exchange.name for exchange in EXCHANGES])
async def test_exchange_is_golden(gateway: Gateway, service: GoldenService, exchange: Exchange) -> None:
    """The service's request and the caller's answer are byte-identical to the recording."""
    service.answers = exchange.answers
    beginning, body = request_of(exchange)
    headers = {"x-request-id": "golden", **({"content-type": "application/json"} if body else {}), **exchange.headers}
    answer = await gateway.http.request(exchange.method, exchange.path, content=body, headers=headers)
    transcript = (beginning + "".join(service.notes) + response_of(answer)).encode()
    path = FOLDER / f"{exchange.name}.txt"
    if IS_RECORDING:
        path.write_bytes(transcript)
    assert transcript.decode() == path.read_bytes().decode()


def test_every_file_is_an_exchange() -> None:
    """Names are unique, and every recording belongs to an exchange."""
    names = [exchange.name for exchange in EXCHANGES]
    assert sorted(names) == sorted(path.stem for path in FOLDER.iterdir())

"""Send requests over HTTP/1.1 and record when each event of their streams is received, in a lightweight process.

It reads a JSON object from its input: {"port": …, "requests": [{"at": seconds after the start, "body": {…}}, …]}, each
request with a "key" if it has a credential. It writes a JSON list with an object for each request: sent, received (when
each event with text was received), ended, all in seconds after the start, prompt_tokens, tokens (of the answer), or
error. It uses the sender of `sluice bench`, which parses nothing before the last byte is received.

Run as `python -m bench.serving.load`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import uvloop

from cli.bench.dialects import DIALECTS, DialectName
from cli.bench.http_sender import Address, Exchange
from cli.bench.record import Record

DIALECT = DIALECTS[DialectName.OPENAI_CHAT]
TIMEOUT_S = 200


async def run(port: int, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send each request at its time; return when the last answer has ended."""
    address = Address(f"http://localhost:{port}")
    exchanges = [
        Exchange(
            address,
            DIALECT.path,
            DIALECT.request_headers(request.get("key", "")),
            request["body"],
            DIALECT.record_event,
        )
        for request in requests
    ]
    # Connections of requests that are sent at the start are opened before.
    pairs = zip(requests, exchanges, strict=True)
    transports = [None if request["at"] else await exchange.connect() for request, exchange in pairs]
    began = time.perf_counter()

    async def send(number: int) -> None:
        await asyncio.sleep(max(0.0, requests[number]["at"] - (time.perf_counter() - began)))
        await exchanges[number].run(TIMEOUT_S, transports[number])

    await asyncio.gather(*map(send, range(len(requests))))
    return [as_json(exchange.record(), began) for exchange in exchanges]


def as_json(record: Record, began: float) -> dict[str, Any]:
    """Return a record as JSON. A failed request has its error, and the time to retry if the server sent one."""
    times: dict[str, Any] = {"sent": record.sent - began, "ended": record.ended - began}
    if record.error:
        return {"error": f"{record.error}: {record.detail}", "retry_after": record.retry_after, **times}
    received = [moment - began for moment in record.received]
    return {**times, "received": received, "prompt_tokens": record.prompt_tokens, "tokens": record.tokens}


if __name__ == "__main__":
    job = json.load(sys.stdin)
    json.dump(uvloop.run(run(job["port"], job["requests"])), sys.stdout)

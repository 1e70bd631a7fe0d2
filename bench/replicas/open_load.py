"""Send streamed chats at random times, or from closed-loop callers, with little processor time of its own.

It reads a JSON object: port, model, fields (further ones of the body), keys (one for each address), tokens (of each
answer), seconds, lead_in_s, addresses (1 to 20, default 20), and either rate (requests per second) or callers. It
writes the outcome of each request as a JSON list of objects: due and sent (since the start), late_s (the difference),
first_s and took_s (after it was sent), status (0: no response), is_whole, source, the hop that rejected it, and
is_probe. Each request has a connection of its own, from one of these loopback addresses. Nothing is parsed but the
status line and the end. Answers that have not ended 30 s after the last request are given up. With in_time_s,
one request after another is sent from another address once the load has ended, until all answers are complete and the
last one has taken at most this time.

Run as `python -m bench.replicas.open_load`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any

import uvloop

from cli.bench.prompts import WORDS

NUM_ADDRESSES = 20
PROBE_NUMBER = NUM_ADDRESSES  # probes have an address of their own
PROBE_PAUSE_S = 0.02  # after an answer that isn't whole
PROMPT_WORDS = 24
ENDS = (b"data: [DONE]", b"\r\n0\r\n\r\n")  # the latter is the last chunk's, of servers that don't send the former
MAX_END = max(map(len, ENDS))
MAX_HEAD = 2_000
WAIT_S = 30  # for the last answers


class Chat(asyncio.Protocol):
    """One request and its answer."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._transport: Any = None  # uvloop's, which has no common base with asyncio's
        self.head = self.tail = b""
        self.first = 0.0
        self.ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the request."""
        self._transport = transport
        transport.write(self._message)

    def data_received(self, data: bytes) -> None:
        """Note the time of the first byte and of the end."""
        if not self.head:
            self.first = time.perf_counter()
            self.head = data[:MAX_HEAD]
        self.tail = (self.tail + data)[-2 * MAX_END :]
        if self.is_whole or self.status != "200":
            self._end()

    def connection_lost(self, _: Exception | None) -> None:
        """Note the end of a connection that the server closed."""
        self._end()

    @property
    def is_whole(self) -> bool:
        """Whether the answer has ended."""
        return self.status == "200" and any(end in self.tail for end in ENDS)

    @property
    def status(self) -> str:
        """The status of the answer; empty without one."""
        return self.head[9:12].decode()

    def close(self) -> None:
        """Close the connection if there is one."""
        if self._transport:
            self._transport.close()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(time.perf_counter())


class Load:
    """The requests of one run."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._draw = random.Random(7)
        self._num_sent = 0
        self._began = time.perf_counter()
        self.outcomes: list[dict[str, Any]] = []

    async def run(self) -> None:
        """Send all requests, and wait for their answers."""
        end = self._job["lead_in_s"] + self._job["seconds"]
        tasks: set[asyncio.Task[Any]] = {
            asyncio.create_task(self._come_back(end)) for _ in range(self._job.get("callers", 0))
        }
        if rate := self._job.get("rate"):
            at = self._draw.expovariate(rate)
            while at < end:
                await asyncio.sleep(max(0.0, at - self._now()))
                tasks.add(asyncio.create_task(self._send(at)))
                at += self._draw.expovariate(rate)
        await asyncio.sleep(max(0.0, end - self._now()))
        probes = asyncio.create_task(self._probe(tasks)) if self._job.get("in_time_s") else None
        _, unfinished = await asyncio.wait(tasks, timeout=WAIT_S)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        if probes:
            await probes

    async def _probe(self, tasks: set[asyncio.Task[Any]]) -> None:
        """Send one request after another until the load's tasks are done and an answer is in time, or for `WAIT_S`."""
        end = self._now() + WAIT_S
        while self._now() < end:
            began = self._now()
            is_whole = await self._send(began, is_probe=True)
            is_normal = is_whole and self._now() - began <= self._job["in_time_s"]
            if is_normal and all(task.done() for task in tasks):
                return
            await asyncio.sleep(0 if is_whole else PROBE_PAUSE_S)

    async def _come_back(self, end: float) -> None:
        while (now := self._now()) < end:
            await self._send(now)

    def _now(self) -> float:
        return time.perf_counter() - self._began

    async def _send(self, at: float, *, is_probe: bool = False) -> bool:
        """Send a request; return whether its answer is whole. Its outcome is added even if it is cancelled."""
        number, self._num_sent = self._num_sent % self._job.get("addresses", NUM_ADDRESSES), self._num_sent + 1
        number = PROBE_NUMBER if is_probe else number
        message = self._message(self._job["keys"][number % len(self._job["keys"])])
        sent = time.perf_counter()
        outcome: dict[str, Any] = {"due": at, "sent": self._now(), "status": 0, "is_whole": False, "is_probe": is_probe}
        outcome |= {"late_s": outcome["sent"] - at, "source": "", "has_retry": False}
        chat = Chat(message)
        try:
            loop = asyncio.get_running_loop()
            source = (f"127.0.0.{2 + number}", 0)
            await loop.create_connection(lambda: chat, "127.0.0.1", self._job["port"], local_addr=source)
            took_s = await chat.ended - sent
        except OSError:
            took_s = time.perf_counter() - sent
        except asyncio.CancelledError:
            self.outcomes.append(outcome | {"took_s": time.perf_counter() - sent})
            raise
        finally:
            chat.close()
        if chat.head:
            is_envoys = b"x-sluice-reason" in chat.head  # REST's rejections by service and gateway don't have it
            outcome |= {"status": int(chat.status), "first_s": chat.first - sent, "is_whole": chat.is_whole}
            outcome |= {
                "source": "envoy" if is_envoys else "service",
                "has_retry": b"\nretry-after" in chat.head.lower(),
            }
        self.outcomes.append(outcome | {"took_s": took_s})
        return bool(outcome["is_whole"])

    def _message(self, key: str) -> bytes:
        content = " ".join(self._draw.choices(WORDS, k=PROMPT_WORDS))
        body = json.dumps({
            "model": self._job["model"], "stream": True, "max_tokens": self._job["tokens"], "temperature": 0,
            "messages": [{"role": "user", "content": content}], **self._job["fields"],
        })  # fmt: skip
        credential = f"authorization: Bearer {key}\r\n" if key else ""
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{self._job['port']}\r\n{credential}"
        head += f"content-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
        return (head + body).encode()


async def run(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the outcomes of a run."""
    load = Load(job)
    await load.run()
    return load.outcomes


if __name__ == "__main__":
    json.dump(uvloop.run(run(json.load(sys.stdin))), sys.stdout)

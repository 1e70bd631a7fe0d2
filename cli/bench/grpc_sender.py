"""Send chats over gRPC with the Python client."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cli.bench.dialects import BenchRequest
from cli.bench.record import Record
from cli.calls.client_certificate import ClientCertificate, tls_context

_IN_A_CHECKOUT: Final = Path(__file__).parents[2] / "clients" / "python" / "src"


@dataclass(slots=True)
class Call:
    """A completed call."""

    result: Record
    num_bytes: int = 0

    def record(self) -> Record:
        """Return the record of the call."""
        return self.result


class GrpcSender:
    """Sends chats to a server of this project. Failures are counted: there are no retries and no resumed streams."""

    def __init__(self, url: str, key: str, ca_file: str, timeout_s: float) -> None:
        """Raise ValueError if the client is not installed or the URL is invalid."""
        if importlib.util.find_spec("sluice_client") is None:
            if not _IN_A_CHECKOUT.is_dir():
                raise ValueError("--dialect grpc needs the Python client: pip install sluice-client")
            sys.path.append(str(_IN_A_CHECKOUT))
        import sluice_client  # noqa: PLC0415  gRPC takes long to import, and HTTP does not need it

        self._error = sluice_client.SluiceError
        tls = None
        if url.startswith("https"):
            tls_context(ca_file)  # raises an error that names the file
            cert_file, key_file = ClientCertificate.from_environment()
            tls = sluice_client.Tls(ca_file or None, certificate=cert_file or None, key=key_file or None)
        self._client = sluice_client.AsyncClient(
            url, key=key or None, timeout=timeout_s, resume_timeout=0, tls=tls, options=[("grpc.enable_retries", 0)]
        )

    async def send(self, request: BenchRequest) -> Call:
        """Send a chat and return when it has ended."""
        ends: dict[str, Any] = {"ignore_eos": True} if request.ignores_end else {}
        options: dict[str, Any] = {
            "model": request.model,
            "max_tokens": request.max_tokens,
            **ends,
            **request.parameters,
        }
        record = Record(time.perf_counter())
        try:
            async with self._client.stream_chat(request.prompt, **options) as stream:
                async for event in stream:
                    self._record_event(event, record)
        except self._error as error:
            record.fail(error.code.name, str(error))
        except (TypeError, ValueError, AttributeError) as error:
            record.fail("invalid request", str(error))
        record.ended = time.perf_counter()
        return Call(record)

    async def close(self) -> None:
        """End all calls."""
        await asyncio.shield(self._client.close())

    @staticmethod
    def _record_event(event: Any, record: Record) -> None:
        """Record an event's arrival if it has text, the token counts, or the end of the stream."""
        match event.WhichOneof("event"):
            case "content_delta" if event.content_delta.text:
                record.received.append(time.perf_counter())
            case "reasoning_delta" if event.reasoning_delta.text:
                record.received.append(time.perf_counter())
            case "usage":
                record.prompt_tokens, record.tokens = event.usage.prompt_tokens, event.usage.completion_tokens
            case "completed":
                record.is_finished = True

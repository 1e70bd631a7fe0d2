"""The data of the status page: the gateway's requests, and the service's load."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
from google.protobuf.message import Message
from sluice.v1 import load_pb2

from gateway.dialects.seam.failure import Failure
from gateway.dialects.seam.model_state import StateName, state_name
from gateway.telemetry.telemetry import Telemetry
from gateway.upstream.caller import Caller
from gateway.upstream.client import ServiceClient

_LOAD_TIMEOUT_S: Final = 2.0  # the page's polling interval
_RESPONSES: Final = "http_server_request_duration_seconds_count"
_ACTIVE: Final = "http_server_active_requests"


class StatusReader:
    """Reads the current status. `unready_reason` returns why the server can't serve, or None if it can."""

    def __init__(
        self, client: ServiceClient, telemetry: Telemetry, unready_reason: Callable[[], Awaitable[str | None]]
    ) -> None:
        self._client = client
        self._telemetry = telemetry
        self._unready_reason = unready_reason

    async def read(self, caller: Caller) -> tuple[bytes, Failure | None]:
        """Return the status as JSON, and the failure of the service's call, without whose result `service` is null.

        Counts are totals since the start; rates are their differences over those of `time_s`.
        """
        reason, (load, failure), states = await asyncio.gather(
            self._unready_reason(), self._load(caller), self._states(caller)
        )
        status = {
            "time_s": time.monotonic(),
            "unready": reason,
            "gateway": _own_counts(self._telemetry),
            "service": None if load is None else _with_states(_plain(load), states),
            "problem": None if failure is None else failure.text,
        }
        return msgspec.json.encode(status), failure

    async def _load(self, caller: Caller) -> tuple[load_pb2.GetLoadResponse | None, Failure | None]:
        """Return the service's load, or why it is unknown."""
        try:
            return await self._client.get_load(replace(caller, timeout_s=_LOAD_TIMEOUT_S)), None
        except Failure as failure:
            return None, failure

    async def _states(self, caller: Caller) -> Mapping[str, StateName | None]:
        """Return the state of each model by name; empty if the service doesn't answer."""
        try:
            models = await self._client.list_models(replace(caller, timeout_s=_LOAD_TIMEOUT_S))
        except Failure:
            return {}
        return {model.name: state_name(model) for model in models}


def _with_states(load: dict[str, Any], states: Mapping[str, StateName | None]) -> dict[str, Any]:
    """Add the state of each model to the service's load."""
    return load | {"models": [each | {"state": states.get(each["model"])} for each in load["models"]]}


def _own_counts(telemetry: Telemetry) -> dict[str, Any]:
    """Return the gateway's counts: active requests, and responses by status."""
    responses: Counter[str] = Counter()
    active = 0
    for family in telemetry.registry.collect():
        for sample in family.samples:
            if sample.name == _RESPONSES:
                responses[sample.labels["http_response_status_code"]] += int(sample.value)
            elif sample.name == _ACTIVE:
                active += int(sample.value)
    return {"active": active, "responses": responses}


def _plain(message: Message) -> dict[str, Any]:
    """Return a message as JSON with the contract's names, and 64-bit integers as numbers."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is None:
            found[field.name] = list(value) if field.is_repeated else value
        elif field.is_repeated:
            found[field.name] = [_plain(each) for each in value]
        else:
            found[field.name] = _plain(value) if message.HasField(field.name) else None
    return found

"""Responses in the background that a service does not create, show or continue, and the errors that say why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sluice.v1 import stored_response_pb2

from tests.service.auth.key_files import write
from tests.service.background.background_calls import (
    QUEUED,
    Code,
    create,
    ended,
    in_background,
    storing,
    text_of,
)
from tests.service.fakes import ScriptedRunner, rejection_of, running
from tests.service.servicers.responses.test_response import message_item, stub_of


async def test_full_store_is_named_by_its_own_limit(tmp_path: Path) -> None:
    """A response that doesn't fit into the store is rejected by the bytes that a key may store."""
    async with running(ScriptedRunner("hello"), **storing(tmp_path, max_bytes_per_key=10)) as run:
        rejection = await rejection_of(stub_of(run).CreateResponse(in_background()))
    assert (rejection.code, "a key may store 10" in rejection.text) == (Code.RESOURCE_EXHAUSTED, True)
    metadata = rejection.info.metadata
    assert (metadata["limit"], metadata["setting"]) == ("10", "stored_responses.max_bytes_per_key")


async def test_unfinished_responses_are_limited(tmp_path: Path) -> None:
    """A key has at most its number of unfinished responses; the rejection names the limit."""
    runner = ScriptedRunner("hello")
    async with running(runner, **storing(tmp_path, max_background_per_key=2)) as run:
        with runner.paused():
            created = [await create(run) for _ in range(2)]
            rejection = await rejection_of(stub_of(run).CreateResponse(in_background()))
            assert (rejection.code, rejection.info.metadata["limit"]) == (Code.RESOURCE_EXHAUSTED, "2")
            assert "the limit is 2 (stored_responses.max_background_per_key)" in rejection.text
            assert rejection.info.metadata["setting"] == "stored_responses.max_background_per_key"
        for each in created:
            await ended(run, each.id)
        assert (await create(run)).status == QUEUED
        outcomes = {
            each.labels["sluice_outcome"]: each.value
            for each in run.telemetry.samples()
            if each.name == "sluice_store_responses_total"
        }
    assert outcomes == {"stored": 3, "refused": 1}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"store": False}, "INVALID_FIELD"),
        ({"input": [message_item("long " * 100)]}, "PROMPT_TOO_LONG"),
        ({"model": "unknown"}, "MODEL_NOT_FOUND"),
        ({"previousResponseId": "1"}, "RESPONSE_NOT_FOUND"),
    ],
)
async def test_invalid_request_is_rejected_immediately(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    """A request that would be rejected in the foreground is not queued."""
    async with running(**storing(tmp_path)) as run:
        rejection = await rejection_of(stub_of(run).CreateResponse(in_background(**fields)))
    assert rejection.info.reason == reason


async def test_model_without_reproducible_tokens_is_rejected(tmp_path: Path) -> None:
    """A response that could not be generated again is not accepted."""
    async with running(supports_resume=False, **storing(tmp_path)) as run:
        rejection = await rejection_of(stub_of(run).CreateResponse(in_background()))
    assert (rejection.code, rejection.info.reason) == (Code.INVALID_ARGUMENT, "UNSUPPORTED_FEATURE")


async def test_responses_of_the_foreground_are_not_followed(tmp_path: Path) -> None:
    """A stored response that was not created in the background has no events, and can't be cancelled."""
    async with running(**storing(tmp_path)) as run:
        created = await create(run, background=False)
        for call in (
            stub_of(run).FollowResponse(stored_response_pb2.FollowResponseRequest(id=created.id)),
            stub_of(run).CancelResponse(stored_response_pb2.CancelResponseRequest(id=created.id)),
        ):
            rejection = await rejection_of(call)
            assert (rejection.code, [field for field, _ in rejection.fields]) == (Code.INVALID_ARGUMENT, ["id"])


async def test_another_key_finds_no_response(tmp_path: Path) -> None:
    """Another key neither follows nor cancels a response."""
    keys = write(tmp_path / "keys.yaml", a={}, b={})
    settings = storing(tmp_path) | {"auth": {"keys_file": tmp_path / "keys.yaml"}}
    calls = {key: {"metadata": (("authorization", f"Bearer {secret}"),)} for key, secret in keys.items()}
    async with running(**settings) as run:
        created = (await stub_of(run).CreateResponse(in_background(), **calls["a"])).response
        for call in (
            stub_of(run).FollowResponse(stored_response_pb2.FollowResponseRequest(id=created.id), **calls["b"]),
            stub_of(run).CancelResponse(stored_response_pb2.CancelResponseRequest(id=created.id), **calls["b"]),
        ):
            assert (await rejection_of(call)).info.reason == "RESPONSE_NOT_FOUND"
        request = stored_response_pb2.FollowResponseRequest(id=created.id)
        *_, last = [event async for event in stub_of(run).FollowResponse(request, **calls["a"])]
    assert text_of(last.completed.response) == "hello"

"""Who is let in, to what, over gRPC."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from sluice.v1 import model_pb2

from service.auth.key import digest, new_key
from service.generation.caller import Scope
from service.interceptors.auth import credential
from service.interceptors.rpcs import RPCS
from service.observability.telemetry import Telemetry
from service.server.listener import StartError
from service.server.server import Server
from tests.engine.fakes import until
from tests.service.auth.issuers import AUTH, Signer, key_set
from tests.service.auth.key_files import write
from tests.service.fakes import Running, refused, request, running, settings_of
from tests.service.observability.test_observation import samples

Code = grpc.StatusCode


@asynccontextmanager
async def guarded(path: Path, **keys: dict[str, Any]) -> AsyncIterator[tuple[Running, dict[str, str]]]:
    """A running service with those keys, and the keys."""
    made = write(path, **keys)
    async with running(auth={"keys_file": path}) as run:
        yield run, made


def bearing(key: str) -> tuple[tuple[str, str], ...]:
    """The metadata of a call with a key."""
    return (("authorization", f"Bearer {key}"),)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the keys stand."""
    return tmp_path / "keys.yaml"


@pytest.mark.parametrize("method", ["Chat", "StreamChat"])
@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ((), "MISSING_KEY"),
        ((("authorization", "Basic dTpw"),), "MISSING_KEY"),
        ((("authorization", "Bearer "),), "MISSING_KEY"),
        ((("authorization", "Bearer nonsense"),), "INVALID_KEY"),
        (bearing(new_key("team")), "INVALID_KEY"),
        (bearing(new_key("nobody")), "INVALID_KEY"),
    ],
)
async def test_without_a_good_key_nothing_is_generated(
    path: Path, method: str, metadata: tuple[tuple[str, str], ...], reason: str
) -> None:
    """UNAUTHENTICATED with its reason, and the call's id; the engine made no step."""
    async with guarded(path, team={}) as (run, _):
        refusal = await refused(getattr(run.chat, method)(request(), metadata=(*metadata, ("x-request-id", "r-1"))))
        assert (refusal.code, refusal.info.reason, refusal.request_id) == (Code.UNAUTHENTICATED, reason, "r-1")
        assert run.runner.num_steps == 0


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key"])
async def test_key_may_come_by_three_names(path: Path, name: str) -> None:
    """A good key is let in, streamed and whole."""
    async with guarded(path, team={}) as (run, keys):
        metadata = ((name, f"Bearer {keys['team']}" if name == "authorization" else keys["team"]),)
        assert (await run.chat.Chat(request(), metadata=metadata)).choices
        assert [event async for event in run.chat.StreamChat(request(), metadata=metadata)]


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ([("authorization", "Bearer a"), ("api-key", "b"), ("x-api-key", "c")], "a"),
        ([("x-api-key", "c"), ("api-key", "b")], "b"),
        ([("authorization", "Basic a"), ("x-api-key", "c")], "c"),
        ([("authorization", "bearer  a ")], "a"),
        ([("authorization", "Bearer a"), ("authorization", "Bearer b")], "a"),
        ([("authorization-bin", b"Bearer a")], None),
    ],
)
def test_bearer_token_counts_before_other_names(metadata: list[tuple[str, str | bytes]], found: str | None) -> None:
    """Of several credentials one counts, the same always."""
    assert credential(metadata) == found


async def test_key_without_the_scope_is_refused(path: Path) -> None:
    """PERMISSION_DENIED names the scope; a known caller may list models whatever its scopes are."""
    async with guarded(path, embedder={"scopes": ["embed"]}, mute={"scopes": []}) as (run, keys):
        refusal = await refused(run.chat.Chat(request(), metadata=bearing(keys["embedder"])))
        assert (refusal.code, refusal.info.reason) == (Code.PERMISSION_DENIED, "SCOPE_MISSING")
        assert dict(refusal.info.metadata) == {"scopes": "generate"}
        assert refusal.text == "the key lacks the scope generate"
        await run.models.ListModels(model_pb2.ListModelsRequest(), metadata=bearing(keys["mute"]))


async def test_refused_message_is_not_read(path: Path) -> None:
    """A message that can't even be decoded is refused for its key, which is looked at before it."""
    async with guarded(path, team={}) as (run, keys):
        chat: Any = run.channel.unary_unary("/sluice.v1.ChatService/Chat", request_serializer=None)
        refusal = await refused(chat(b"\xff" * (1 << 20), metadata=bearing(new_key("team"))))
        assert refusal.info.reason == "INVALID_KEY"
        undecodable = await refused(chat(b"\xff" * (1 << 20), metadata=bearing(keys["team"])))
        assert undecodable.code is not Code.UNAUTHENTICATED


async def test_health_and_reflection_need_no_key(path: Path) -> None:
    """Balancers have none, and reflection tells what is published."""
    async with guarded(path, team={}) as (run, _):
        assert await run.status() == "SERVING"
        channel: Any = run.channel
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        assert [answer async for answer in stub.ServerReflectionInfo(asked)]


async def test_log_names_the_key_and_never_shows_it(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The line of a call has the key's id; neither key nor hash is anywhere."""
    caplog.set_level("DEBUG")
    async with guarded(path, team={}) as (run, keys):
        await run.chat.Chat(request(), metadata=bearing(keys["team"]))
        await refused(run.chat.Chat(request(), metadata=bearing(keys["team"] + "x")))
    lines = json.dumps([vars(record) for record in caplog.records], default=str)
    assert '"key": "team"' in lines
    assert keys["team"] not in lines
    assert digest(keys["team"]) not in lines


@pytest.mark.slow
async def test_keys_are_read_again_while_serving(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new key is good and a removed one isn't, without a restart; a broken file changes nothing and is told once."""
    async with guarded(path, first={}) as (run, keys):
        first = bearing(keys["first"])
        spoil(path)
        await until(lambda: any("can't be used" in record.message for record in caplog.records))
        assert (await run.chat.Chat(request(), metadata=first)).choices
        second = bearing(write(path, second={})["second"])
        while (refusal := await outcome(run.chat.Chat(request(), metadata=second))) is not None:
            assert refusal == "INVALID_KEY"
        assert await outcome(run.chat.Chat(request(), metadata=first)) == "INVALID_KEY"
    assert sum("can't be used" in record.message for record in caplog.records) == 1


async def test_tokens_and_keys_side_by_side(path: Path, tmp_path: Path) -> None:
    """Both are let in, each by its own rules; where there is no key set, a token is no key."""
    keys, signer, place = write(path, team={}), Signer("one"), tmp_path / "jwks.json"
    await asyncio.to_thread(place.write_text, key_set(signer))
    good = signer.token(scope="generate")
    async with running(auth={"keys_file": path, "jwks": str(place), **AUTH}) as run:
        for credential_ in (keys["team"], good):
            assert (await run.chat.Chat(request(), metadata=bearing(credential_))).choices
        for token, reason in (
            (signer.token(aud="other"), "INVALID_TOKEN"),
            (signer.token(exp=time.time() - 60), "EXPIRED_TOKEN"),
            (Signer("two").token(), "INVALID_TOKEN"),
            (signer.token(scope="embed"), "SCOPE_MISSING"),
        ):
            assert await outcome(run.chat.Chat(request(), metadata=bearing(token))) == reason
    async with running(auth={"keys_file": path}) as run:
        assert await outcome(run.chat.Chat(request(), metadata=bearing(good))) == "INVALID_KEY"


async def test_call_marked_by_an_open_gateway_needs_keys(path: Path) -> None:
    """A service without keys refuses it; one with keys takes it as any other."""
    mark = ("x-sluice-auth", "required")
    async with running() as run:
        assert await outcome(run.chat.Chat(request(), metadata=(mark,))) == "AUTH_OFF"
        assert await outcome(run.chat.Chat(request())) is None
    async with guarded(path, team={}) as (run, keys):
        assert await outcome(run.chat.Chat(request(), metadata=(mark, *bearing(keys["team"])))) is None


async def test_named_scope_is_needed_besides(path: Path) -> None:
    """The gateway asks so for a page's scope; one that doesn't exist nobody has."""
    async with guarded(path, team={}, operator={"scopes": ["metrics"]}) as (run, keys):
        for key_id, scope, reason in (
            ("team", "metrics", "SCOPE_MISSING"),
            ("operator", "metrics", None),
            ("operator", "nonsense", "SCOPE_MISSING"),
        ):
            metadata = (("x-sluice-scope", scope), *bearing(keys[key_id]))
            call = run.models.ListModels(model_pb2.ListModelsRequest(), metadata=metadata)
            assert await outcome(call) == reason


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "keys: [{expires: 2027-02-30}]", "keys: [\x00]", "keys: " + "[" * 2000])
async def test_no_content_of_the_file_ends_its_reloads(path: Path, text: str) -> None:
    """Keys stay in use while their file is unusable, a metric reports it, and a later revocation takes effect."""
    async with guarded(path, team={}) as (run, keys):
        call = bearing(keys["team"])
        await asyncio.to_thread(path.write_text, text)
        await until(lambda: stale(run) == [1])
        assert await outcome(run.chat.Chat(request(), metadata=call)) is None
        await asyncio.to_thread(path.write_text, "keys: []")
        await until(lambda: stale(run) == [0])
        assert await outcome(run.chat.Chat(request(), metadata=call)) == "INVALID_KEY"


def stale(run: Running) -> list[float]:
    """Return the values of the metric of unusable keys."""
    return list(samples(run, "sluice_auth_keys_stale").values())


def spoil(path: Path) -> None:
    """Make it a file that can't be read."""
    path.write_text("keys: [nonsense")


async def outcome(call: Any) -> str | None:
    """Why a call was refused; None if it wasn't."""
    try:
        reason: str = (await refused(call)).info.reason
    except AssertionError:
        return None
    return reason


def test_start_needs_good_keys(path: Path) -> None:
    """A file that can't be used ends the start, with its path."""
    spoil(path)
    telemetry = Telemetry(None)
    with pytest.raises(StartError, match=f"^auth.keys_file: {path}: "):
        Server(settings_of(auth={"keys_file": path}), telemetry)
    telemetry.shutdown()


def test_every_scope_opens_something() -> None:
    """And no RPC needs one that there isn't."""
    assert frozenset().union(*(rpc.scopes for rpc in RPCS.values())) == set(Scope)

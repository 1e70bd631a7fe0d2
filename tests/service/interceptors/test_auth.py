"""Authentication and authorization over gRPC."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from sluice.inference import inference_pb2, inference_pb2_grpc
from sluice.v1 import model_pb2, rpc_pb2

from service.auth.keys.key import digest, new_key
from service.generation.caller import Scope
from service.interceptors.auth import credential
from service.interceptors.rpcs import RPCS
from service.observability.telemetry import Telemetry
from service.server.listener import StartError
from service.server.server import Server
from tests.service.auth.issuers import AUTH, Signer, key_set
from tests.service.auth.key_files import write
from tests.service.fakes import MODEL, rejection_of, request, running, settings_of
from tests.service.interceptors.guarded import bearing, guarded, outcome

Code = grpc.StatusCode


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of the keys file."""
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
async def test_call_without_a_valid_key_is_unauthenticated(
    path: Path, method: str, metadata: tuple[tuple[str, str], ...], reason: str
) -> None:
    """The call ends with UNAUTHENTICATED, its reason and the request id; the engine runs no step."""
    async with guarded(path, team={}) as (run, _):
        rejection = await rejection_of(
            getattr(run.chat, method)(request(), metadata=(*metadata, ("x-request-id", "r-1")))
        )
        assert (rejection.code, rejection.info.reason, rejection.request_id) == (Code.UNAUTHENTICATED, reason, "r-1")
        assert run.runner.num_steps == 0


@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key"])
async def test_key_is_accepted_under_three_names(path: Path, name: str) -> None:
    """A valid key is accepted under each name, for streamed and unstreamed calls."""
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
def test_bearer_token_takes_precedence_over_other_headers(
    metadata: list[tuple[str, str | bytes]], found: str | None
) -> None:
    """Of several credentials, the bearer token is used."""
    assert credential(metadata) == found


async def test_key_without_the_scope_is_rejected(path: Path) -> None:
    """PERMISSION_DENIED names the scope; an authenticated caller may list models with any scopes."""
    async with guarded(path, embedder={"scopes": ["embed"]}, mute={"scopes": []}) as (run, keys):
        rejection = await rejection_of(run.chat.Chat(request(), metadata=bearing(keys["embedder"])))
        assert (rejection.code, rejection.info.reason) == (Code.PERMISSION_DENIED, "SCOPE_MISSING")
        assert dict(rejection.info.metadata) == {"scopes": "generate"}
        assert rejection.text == "the key lacks the scope generate"
        await run.models.ListModels(model_pb2.ListModelsRequest(), metadata=bearing(keys["mute"]))


async def test_inference_needs_the_scope_of_its_task(path: Path) -> None:
    """The open inference protocol has one RPC for all tasks; its health needs no key."""
    tensor = inference_pb2.ModelInferRequest.InferInputTensor(name="text_input", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(b"hi")
    asked = inference_pb2.ModelInferRequest(model_name=MODEL, inputs=[tensor])
    async with guarded(path, embedder={"scopes": ["embed"]}, mute={"scopes": []}) as (run, keys):
        stub: Any = inference_pb2_grpc.GRPCInferenceServiceStub(run.channel)
        for key, scopes in (("embedder", "generate"), ("mute", "embed generate")):
            rejection = await rejection_of(stub.ModelInfer(asked, metadata=bearing(keys[key])))
            assert (rejection.code, rejection.info.reason) == (Code.PERMISSION_DENIED, "SCOPE_MISSING")
            assert dict(rejection.info.metadata) == {"scopes": scopes}
        assert (await rejection_of(stub.ModelInfer(asked))).code is Code.UNAUTHENTICATED
        assert (await stub.ServerLive(inference_pb2.ServerLiveRequest())).live
        assert (await stub.ServerReady(inference_pb2.ServerReadyRequest())).ready


async def test_rejected_message_is_not_read(path: Path) -> None:
    """A message that can't be decoded is rejected because of its key, which is checked first."""
    async with guarded(path, team={}) as (run, keys):
        chat: Any = run.channel.unary_unary("/sluice.v1.ChatService/Chat", request_serializer=None)
        rejection = await rejection_of(chat(b"\xff" * (1 << 20), metadata=bearing(new_key("team"))))
        assert rejection.info.reason == "INVALID_KEY"
        undecodable = await rejection_of(chat(b"\xff" * (1 << 20), metadata=bearing(keys["team"])))
        assert undecodable.code is not Code.UNAUTHENTICATED


async def test_health_and_reflection_need_no_key(path: Path) -> None:
    """Balancers have no keys, and reflection describes only what is published."""
    async with guarded(path, team={}) as (run, _):
        assert await run.status() == "SERVING"
        channel: Any = run.channel
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        requests = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
        assert [answer async for answer in stub.ServerReflectionInfo(requests)]


async def test_log_names_the_key_and_never_shows_it(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log line of a call has the key's id; neither key nor hash is logged."""
    caplog.set_level("DEBUG")
    async with guarded(path, team={}) as (run, keys):
        await run.chat.Chat(request(), metadata=bearing(keys["team"]))
        await rejection_of(run.chat.Chat(request(), metadata=bearing(keys["team"] + "x")))
    lines = json.dumps([vars(record) for record in caplog.records], default=str)
    assert '"key": "team"' in lines
    assert keys["team"] not in lines
    assert digest(keys["team"]) not in lines


async def test_tokens_and_keys_are_both_accepted(path: Path, tmp_path: Path) -> None:
    """Tokens and keys are accepted, each by its own rules; without a key set, a token is an invalid key."""
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
    """A service without keys rejects the call; one with keys serves it like any other."""
    mark = ("x-sluice-auth", "required")
    async with running() as run:
        assert await outcome(run.chat.Chat(request(), metadata=(mark,))) == "AUTH_OFF"
        assert await outcome(run.chat.Chat(request())) is None
    async with guarded(path, team={}) as (run, keys):
        assert await outcome(run.chat.Chat(request(), metadata=(mark, *bearing(keys["team"])))) is None


async def test_request_from_elsewhere_needs_keys(path: Path) -> None:
    """A call that the gateway marks for its Host or Origin is rejected without keys, with what to do."""
    mark = ("x-sluice-auth", "foreign")
    async with running() as run:
        rejection = await rejection_of(run.chat.Chat(request(), metadata=(mark,)))
        assert rejection.info.reason == "AUTH_OFF"
        assert "auth.allow_anonymous" in rejection.text
    async with guarded(path, team={}) as (run, keys):
        assert await outcome(run.chat.Chat(request(), metadata=(mark, *bearing(keys["team"])))) is None


TOKEN = "operator-" + "x" * 24


@pytest.mark.parametrize(
    ("auth", "sent", "reason"),
    [
        ({}, None, "MISSING_KEY"),
        ({}, TOKEN, "INVALID_KEY"),
        ({"operator_token_file": "token"}, None, "MISSING_KEY"),
        ({"operator_token_file": "token"}, TOKEN[:-1], "INVALID_KEY"),
        ({"operator_token_file": "token"}, TOKEN, None),
        ({"allow_anonymous_changes": True}, None, None),
        ({"allow_anonymous_changes": True}, "anything", None),
    ],
)
async def test_changes_without_keys_need_the_operator_token(
    auth: dict[str, Any], sent: str | None, reason: str | None, tmp_path: Path
) -> None:
    """Every change of models, adapters and endpoints needs the token or the setting; all other calls need nothing."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    if "operator_token_file" in auth:
        auth = {"operator_token_file": tmp_path / "token"}
    metadata = () if sent is None else (("authorization", f"Bearer {sent}"),)
    async with running(auth=auth) as run:
        assert await outcome(run.chat.Chat(request(), metadata=metadata)) is None
        for name, rpc in RPCS.items():
            if rpc.kind == rpc_pb2.RPC_KIND_CHANGE:
                call: Any = run.channel.unary_unary(f"/{name}", rpc.request.SerializeToString)
                found = await outcome(call(rpc.request(), metadata=metadata))
                assert found == (reason or "INVALID_FIELD"), name


@pytest.mark.parametrize(("text", "words"), [(None, "No such file"), ("short", "at least 16 characters")])
def test_unusable_operator_token_stops_the_start(text: str | None, words: str, tmp_path: Path) -> None:
    """The error names the setting and the file."""
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
    settings = settings_of(auth={"operator_token_file": file})
    with pytest.raises(StartError, match=rf"auth\.operator_token_file: {file}: .*{words}"):
        Server(settings, Telemetry(None))


async def test_scope_named_by_the_gateway_is_required(path: Path) -> None:
    """The gateway sends the scope of a page that it serves itself; a key without this scope is rejected."""
    async with guarded(path, team={}, operator={"scopes": ["metrics"]}) as (run, keys):
        for key_id, scope, reason in (
            ("team", "metrics", "SCOPE_MISSING"),
            ("operator", "metrics", None),
            ("operator", "nonsense", "SCOPE_MISSING"),
        ):
            metadata = (("x-sluice-scope", scope), *bearing(keys[key_id]))
            call = run.models.ListModels(model_pb2.ListModelsRequest(), metadata=metadata)
            assert await outcome(call) == reason


def test_every_scope_permits_an_rpc() -> None:
    """Each scope permits an RPC, and no RPC requires an unknown scope."""
    assert frozenset().union(*(rpc.scopes for rpc in RPCS.values())) == set(Scope)

"""A product without API keys on this machine: pages of other sites can't use it; changes need the operator token."""

from __future__ import annotations

import http.client
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import yaml
from sluice.v1 import model_pb2, model_pb2_grpc

from tests.command import sluice
from tests.e2e.stack import GENERATOR, Stack, command_line, free_ports
from tests.waiting import GUARD_S

CHAT: dict[str, Any] = {"model": "sluice-demo", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}
ENTITIES = [{"name": "main", "entity_name": "sluice-demo"}]
ENDPOINT = {"name": "mine", "config": {"served_entities": ENTITIES}}
FORM = {"content-type": "application/x-www-form-urlencoded"}
ENDPOINTS = "/api/2.0/serving-endpoints"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The product as `make run` starts it, on one model, with pages of one other origin allowed."""
    stack = Stack(
        GENERATOR,
        "--cors-origins=https://friend.example",
        state_folder=tmp_path_factory.mktemp("state"),
        environment={"SLUICE_SERVICE_AUTH__ALLOW_ANONYMOUS_CHANGES": "false"},
    )
    try:
        stack.wait_for("sluice is ready.")
        yield stack
    finally:
        stack.stop()


def token(stack: Stack) -> str:
    return (stack.state_folder / "operator-token").read_text().strip()


@pytest.mark.parametrize("url", ["url", "gateway"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8080"}, 200),
        ({"host": "[::1]"}, 200),
        ({"host": "192.0.2.7:80"}, 200),
        ({"origin": "http://localhost:3000"}, 200),
        ({"origin": "https://friend.example"}, 200),
        ({"host": "evil.example"}, 401),
        ({"host": "evil.example:8080", "origin": "http://evil.example:8080"}, 401),
        ({"host": "localhost.evil.example"}, 401),
        ({"host": "127.0.0.1.evil.example"}, 401),
        ({"host": "127.0.0.1:evil.example"}, 401),
        ({"origin": "https://evil.example"}, 401),
        ({"origin": "https://localhost.evil.example"}, 401),
        ({"origin": "null"}, 401),
    ],
)
def test_requests_of_other_origins_are_rejected(local: Stack, url: str, headers: dict[str, str], status: int) -> None:
    """The Host must be this machine's, and the Origin a page of this machine or an allowed one."""
    base = getattr(local, url)
    answers = [
        httpx.post(f"{base}/v1/chat/completions", json=CHAT, headers=headers, timeout=GUARD_S),
        httpx.get(f"{base}/v1/models", headers=headers, timeout=GUARD_S),
        httpx.get(f"{base}/metrics", headers=headers, timeout=GUARD_S),
        httpx.get(f"{base}/status.json", headers=headers, timeout=GUARD_S),
    ]
    assert [answer.status_code for answer in answers] == [status] * 4
    if status == 401:
        assert "allowed_origins" in answers[0].json()["error"]["message"]


@pytest.mark.parametrize(("host", "accepted"), [("localhost", True), ("127.0.0.1:99", True), ("evil.example", False)])
def test_grpc_web_calls_of_other_origins_are_rejected(local: Stack, host: str, accepted: bool) -> None:  # noqa: FBT001
    """A page under a name of its own that resolves to this machine can't call the service through Envoy."""
    headers = {"host": host, "content-type": "application/grpc-web+proto", "x-grpc-web": "1"}
    path = f"{local.url}/sluice.v1.ModelService/ListModels"
    answer = httpx.post(path, content=bytes(5), headers=headers, timeout=GUARD_S)
    assert (b"sluice-demo" in answer.content) is accepted
    assert (answer.headers.get("grpc-status") == "16") is not accepted


def test_grpc_without_te_is_rejected(local: Stack) -> None:
    """A page under a name of its own could send gRPC's content type, but not the header `te: trailers`."""
    connection = http.client.HTTPConnection("127.0.0.1", local.ports["envoy"], timeout=GUARD_S)
    headers = {"host": "evil.example", "content-type": "application/grpc"}
    connection.request("POST", "/sluice.v1.ModelService/ListModels", bytes(5), headers)
    answer = connection.getresponse()
    assert b"sluice-demo" not in answer.read()
    assert answer.headers["grpc-status"] == "14"
    connection.close()


@pytest.mark.parametrize("url", ["envoy", "gateway"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://127.0.0.1"}, 415),
        ({"content-type": "", "sec-fetch-site": "none"}, 415),
        ({"content-type": "text/plain"}, 415),
        (FORM | {"origin": "http://127.0.0.1"}, 415),  # those of other machines are rejected before
        (FORM | {"referer": "https://evil.example/"}, 415),
        (FORM | {"sec-fetch-site": "cross-site"}, 415),
        (FORM, 200),
        ({"content-type": ""}, 200),
        ({}, 200),
    ],
)
def test_body_without_a_json_content_type_is_rejected(
    local: Stack, url: str, headers: dict[str, str], status: int
) -> None:
    """Browsers send other types, and none, to any site without asking it; other clients, too."""
    connection = http.client.HTTPConnection("127.0.0.1", local.ports[url], timeout=GUARD_S)
    body = b'{"model": "sluice-demo", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}'
    connection.request("POST", "/v1/chat/completions", body, {"content-length": str(len(body))} | headers)
    answer = connection.getresponse()
    is_named = b"content-type must be application/json" in answer.read()
    assert (answer.status, is_named) == (status, status == 415)
    connection.close()


def test_changes_require_the_operator_token(local: Stack) -> None:
    """Over REST and gRPC: rejected without the token or with another one, accepted with it."""
    base = local.url
    for headers, status in (
        ({}, 401),
        ({"authorization": "Bearer nonsense"}, 401),
        ({"authorization": f"Bearer {token(local)}"}, 200),
    ):
        answer = httpx.post(f"{base}{ENDPOINTS}", json=ENDPOINT, headers=headers, timeout=GUARD_S)
        assert answer.status_code == status, answer.text
        assert status == 200 or "operator token" in answer.json()["message"]
    assert httpx.get(f"{base}{ENDPOINTS}/mine", timeout=GUARD_S).status_code == 200
    with grpc.insecure_channel(base.removeprefix("http://")) as channel:
        stub: Any = model_pb2_grpc.ModelServiceStub(channel)
        request = model_pb2.UnloadModelRequest(model="nobody")
        for metadata, code in (
            ((), grpc.StatusCode.UNAUTHENTICATED),
            ((("authorization", f"Bearer {token(local)}"),), grpc.StatusCode.NOT_FOUND),
        ):
            with pytest.raises(grpc.RpcError) as raised:
                stub.UnloadModel(request, metadata=metadata, timeout=GUARD_S)
            assert raised.value.code() is code
    delete = httpx.delete(
        f"{base}{ENDPOINTS}/mine", headers={"authorization": f"Bearer {token(local)}"}, timeout=GUARD_S
    )
    assert delete.status_code == 200


def test_commands_find_the_operator_token(local: Stack) -> None:
    """`sluice models unload` reads the token of a server on this machine; only its owner can read it."""
    for environment, text in (
        ({"SLUICE_STATE_FOLDER": str(local.state_folder)}, "no model named 'nobody'"),
        ({"SLUICE_STATE_FOLDER": "/nowhere"}, "operator token"),
    ):
        done = sluice("models", "unload", "nobody", url=local.url, env=environment)
        assert (done.returncode, text in done.stderr) == (1, True), done.stderr
    assert stat.S_IMODE((local.state_folder / "operator-token").stat().st_mode) == 0o600


def test_chat_and_status_pages_require_no_token(local: Stack) -> None:
    """The chat page, the status page and a chat with a JSON body work without an additional header."""
    for path in ("/", "/status", "/status.json", "/docs", "/metrics", "/v1/models"):
        assert httpx.get(local.url + path, timeout=GUARD_S, follow_redirects=True).status_code == 200, path
    own = {"origin": local.url}
    assert httpx.post(f"{local.url}/v1/chat/completions", json=CHAT, headers=own, timeout=GUARD_S).status_code == 200


def test_envoys_admin_interface_has_no_port() -> None:
    """By default it is a Unix socket that only this user can open, through which Envoy is drained at the end."""
    names = ("envoy", "gateway", "service", "service_metrics")
    stack = Stack("--model=demo=demo/model", ports=dict(zip(names, free_ports(len(names)), strict=True)))
    try:
        stack.wait_for("sluice is ready.")
        assert "Envoy admin" not in stack.output
        arguments = command_line(stack.envoy_pid)
        config = Path(arguments[arguments.index("-c") + 1])
        assert list(yaml.safe_load(config.read_text())["admin"]["address"]) == ["pipe"]
        admin = config.with_name("admin.sock")
        assert stat.S_IMODE(admin.stat().st_mode) == 0o600
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(admin))) as client:
            assert client.get("http://admin/ready", timeout=GUARD_S).text == "LIVE\n"
    finally:
        assert stack.stop() == 0, stack.output
    assert "front_door" not in stack.output  # it reports requests that fail
    assert not admin.exists()
